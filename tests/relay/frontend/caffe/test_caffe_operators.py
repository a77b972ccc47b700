"""Caffe's layers against NumPy written after its documentation (caffe_numpy)."""

from __future__ import annotations

import os

import pytest
from caffe_cases import cases, made, run
from caffe_writer import weights

from tvm.ir.type import TupleType
from tvm.relay.frontend import from_caffe
from tvm.relay.frontend.caffe.table import CONVERTERS
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance FORMAT`` has all.
COUNT = 8


def test_every_layer_has_a_case():
    assert {name.split("/")[0] for name in cases()} == set(CONVERTERS.names())


def test_every_case_is_imported_with_the_shapes_that_caffe_gives():
    for name in cases():
        case = made(name)
        module = infer_module(from_caffe(weights(case.blobs), case.text.encode())[0])
        result = module["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        if not case.rows:
            assert [t.concrete_shape for t in got] == [getattr(v, "shape", ()) for v in case.expected], name


def test_a_sample_of_cases_gives_what_caffe_computes(rng):
    found = cases()
    count = len(found) if os.environ.get("TVM_CONFORMANCE_CASES") else COUNT
    for name in rng.choice(sorted(found), count, replace=False):
        found[name]()


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    case = made("AbsVal")
    case.expected[0][0, 0] += 1e-3
    with pytest.raises(AssertionError):
        run("AbsVal")
    made.cache_clear()
