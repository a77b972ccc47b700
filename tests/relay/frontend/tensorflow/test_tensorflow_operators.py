"""Operators of TensorFlow against what TensorFlow made of the same graphs (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tensorflow_writer import runner

from tvm.ir.type import TupleType
from tvm.relay.frontend import from_tensorflow, from_tensorflow2
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others; ``python -m tools conformance tensorflow`` has all.
COUNT = 12


@pytest.fixture(scope="module")
def cases():
    return runner().cases()


def test_every_case_is_imported_with_the_types_that_tensorflow_gave(cases):
    for name, case in cases.items():
        result = infer_module(from_tensorflow(case.graph, outputs=case.outputs)[0])["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        assert [(len(t.shape), t.dtype) for t in got] == [(v.ndim, str(v.dtype)) for v in case.expected], name
        for t, value in zip(got, case.expected):
            sizes = [getattr(d, "value", None) for d in t.shape]
            assert all(s in (None, d) for s, d in zip(sizes, value.shape)), name


def test_a_sample_of_cases_gives_what_tensorflow_gave(cases, rng):
    count = len(cases) if os.environ.get("TVM_CONFORMANCE_CASES") else COUNT
    for name in rng.choice(sorted(cases), count, replace=False):
        assert not runner().difference(cases[name]), name


def test_the_name_for_tensorflow_2_is_the_same_importer():
    assert from_tensorflow2 is from_tensorflow


def test_a_difference_is_seen(cases):
    """The comparison itself can fail."""
    case = cases["Add"]
    wrong = [np.where(np.arange(v.size).reshape(v.shape) == 3, v + 1e-3, v) for v in case.expected]
    assert runner().compared(case.expected, wrong)
    assert runner().compared(case.expected, [v.astype("float64") for v in case.expected])
    assert not runner().compared(case.expected, case.expected)
