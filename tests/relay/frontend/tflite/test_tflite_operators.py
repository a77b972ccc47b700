"""Operators of TFLite against what LiteRT made of the same models (expected.npz)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tflite_cases import CASES
from tflite_writer import Spec, constant, one_node

from tvm import relay
from tvm.error import TVMError
from tvm.relay.frontend import from_tflite
from tvm.relay.frontend.tflite.table import CONVERTERS, QUANTIZED

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance tflite`` has all.
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


@pytest.mark.parametrize("name", ["dense_hybrid_False", "conv_hybrid", "batch_matmul_hybrid_False"])
def test_activations_are_quantized_as_litert_does_by_default(runner, name):
    assert not runner.difference(CASES[name], runner.expected_outputs()[name])


@pytest.mark.parametrize("hybrid", ["builtin", "float"])
def test_activations_may_be_quantized_symmetrically_or_not_at_all(hybrid, rng):
    weight = rng.integers(-127, 128, (4, 10)).astype("int8")
    model = one_node("FULLY_CONNECTED", [Spec((3, 10)), constant(weight, scale=0.01)], [Spec((3, 4))])
    x = rng.standard_normal((3, 10)).astype("float32")
    scale = np.abs(x).max(1, keepdims=True) / 127
    steps = np.sign(x) * np.floor(np.abs(x / scale) + 0.5)
    data = steps * scale if hybrid == "builtin" else x
    mod = from_tflite(model, hybrid=hybrid)[0]
    got = relay.create_executor("graph", mod, target="llvm").evaluate()(x).numpy()
    np.testing.assert_allclose(got, data @ (weight.T * np.float32(0.01)), 1e-4, 1e-4)


def test_an_unknown_way_to_quantize_activations_is_rejected():
    with pytest.raises(TVMError, match="hybrid must be one of litert, builtin, float, got 'int8'"):
        from_tflite(CASES["dense_hybrid_False"].model, hybrid="int8")


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
