"""Operators of Caffe2 against what Caffe2 made of the same nets (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from caffe2_cases import CASES
from caffe2_writer import compare, conformance, imported

from tvm.ir.type import TupleType
from tvm.relay.frontend.caffe2.table import CONVERTERS
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, and ``make conformance-format`` has all.
COUNT = 12


@pytest.fixture(scope="module")
def module():
    return conformance().cases_module("caffe2")


def test_every_case_is_imported_with_the_types_that_caffe2_gave(module):
    for name, wanted in module.expected().items():
        if name not in CASES:
            continue
        result = infer_module(imported(CASES[name])[0])["main"].checked_type_.ret_type
        got = list(result.fields) if isinstance(result, TupleType) else [result]
        assert [(t.concrete_shape, t.dtype) for t in got] == [(v.shape, str(v.dtype)) for v in wanted], name


def test_a_sample_of_cases_gives_what_caffe2_gave(module, rng):
    names = sorted(module.cases())
    count = len(names) if os.environ.get("TVM_CONFORMANCE_CASES") else COUNT
    for name in rng.choice(names, count, replace=False):
        module.check(str(name))


def test_every_converter_has_a_case(module):
    covered = {name.split("/")[0] for name in module.cases()}
    covered |= {step.op for name in module.cases() for step in CASES[name].steps}
    assert set(module.OPERATORS) - covered == set()
    assert len(CONVERTERS.names()) == len(module.OPERATORS) + len(module.REFUSED)


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    right = [np.zeros(3, "float32")]
    for wrong in (np.float32([0, 1e-3, 0]), np.zeros(3), np.zeros((1, 3), "float32")):
        with pytest.raises(AssertionError):
            compare([wrong], right)
