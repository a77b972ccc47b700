"""Operators of TFLite against what LiteRT's reference kernels made of the same models (expected.npz)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tflite_cases import CASES
from tflite_writer import Spec, one_node

from tvm import relay
from tvm.relay.frontend import from_tflite
from tvm.relay.frontend.tflite.table import CONVERTERS, QUANTIZED

# A case is compiled in a third of a second; every seed has others, and ``make conformance-tflite`` has all.
COUNT = 14


@pytest.fixture(scope="module")
def runner(root):
    spec = importlib.util.spec_from_file_location("tflite_conformance", root / "tools" / "tflite_conformance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_case_is_imported_with_the_types_that_litert_gave(runner):
    expected = runner.expected_outputs()
    assert set(expected) == set(CASES)
    for name, case in CASES.items():
        body = from_tflite(case.model)[0]["main"].body
        got = [e.checked_type for e in (body.fields if isinstance(body, relay.Tuple) else [body])]
        wanted = expected[name][: len(expected[name]) // case.runs]
        # The state after a run comes after the results of the model.
        assert [_described(t) for t in got[: len(wanted)]] == [(v.shape, str(v.dtype)) for v in wanted], name


def _described(t) -> tuple:
    return t.concrete_shape, t.dtype


def test_a_sample_of_cases_gives_what_litert_gave(runner, rng):
    expected = runner.expected_outputs()
    for name in rng.choice(sorted(CASES), COUNT, replace=False):
        assert not runner.difference(CASES[name], expected[name]), name


def test_every_operator_has_a_case_or_a_test_of_its_own():
    names = {n.removeprefix("CUSTOM ") for n in (*CONVERTERS.names(), *QUANTIZED.names())}
    assert names - {c.operator for c in CASES.values()} == {"UNIQUE", "WHERE"}


def test_where_gives_the_places_of_what_is_not_zero():
    """How many they are is known only when the model runs, on the virtual machine."""
    mod = from_tflite(one_node("WHERE", [Spec((2, 3), "bool")], [Spec((0, 2), "int64")]))[0]
    x = np.array([[True, False, True], [False, False, True]])
    got = relay.create_executor("vm", mod=mod, target="llvm").evaluate()(x)
    np.testing.assert_array_equal(got.numpy(), np.argwhere(x))


def test_unique_gives_values_in_the_order_in_which_they_are_met():
    mod = from_tflite(one_node("UNIQUE", [Spec((6,), "int32")], [Spec((0,), "int32"), Spec((6,), "int32")]))[0]
    run = relay.create_executor("vm", mod=mod, target="llvm").evaluate()
    values, places = run(np.array([7, 2, 7, 9, 2, 7], "int32"))
    np.testing.assert_array_equal(values.numpy(), [7, 2, 9])
    np.testing.assert_array_equal(places.numpy(), [0, 1, 0, 2, 1, 0])
