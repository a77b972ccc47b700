"""Operators of Caffe2 against what Caffe2 made of the same nets (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from caffe2_cases import CASES
from caffe2_writer import compare, conformance, imported

from tvm.error import TVMError
from tvm.ir.type import TupleType
from tvm.relay import const
from tvm.relay.frontend.caffe2.table import CONVERTERS, Context
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, and ``python -m tools conformance FORMAT`` has all.
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
        # There may be more rows of what a detector finds.
        begin = 1 if name.startswith(module.MORE_ROWS) else 0
        assert [(t.concrete_shape[begin:], t.dtype) for t in got] == [
            (v.shape[begin:], str(v.dtype)) for v in wanted], name  # fmt: skip


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


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_rows_that_are_no_region_would_be_seen_in_what_a_detector_finds(module, monkeypatch):
    """There are more rows than regions, which have scores of classes as any other row."""
    name = "BoxWithNMSLimit/detector"
    module.check(name)
    monkeypatch.setattr(Context, "real", lambda self, i: const(np.ones(self.known_shape(
        self.importer.value(self.operator.inputs[i], ""))[:1], "bool")))  # fmt: skip
    with pytest.raises(AssertionError):
        module.check(name)


@pytest.mark.parametrize(("name", "change", "words"), [
    ("BoxWithNMSLimit", {"soft_nms_enabled": 1}, "soft_nms_enabled=1"),
    ("BoxWithNMSLimit", {"rotated": 1}, "rotated boxes"),
    ("BoxWithNMSLimit", {"cls_agnostic_bbox_reg": 1}, "do not match boxes of shape"),
    ("CollectRpnProposals", {"rpn_max_level": 4}, "regions and scores of 3 pyramid levels, got 10 inputs"),
    ("CollectRpnProposals", {"rpn_min_level": 9}, "levels from 9 to 6"),
    ("DistributeFpnProposals", {"roi_canonical_scale": 0}, "roi_canonical_scale 0.0 is not supported"),
    ("DistributeFpnProposals", {"roi_max_level": 3}, "the operator has 5 outputs"),
])  # fmt: skip
def test_operators_of_detectors_that_are_wrong_are_refused(name, change, words):
    case = CASES[name]
    first = case.steps[0]._replace(args={**case.steps[0].args, **change})
    with pytest.raises(TVMError, match=words):
        imported(case._replace(steps=[first, *case.steps[1:]]))


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    right = [np.zeros(3, "float32")]
    for wrong in (np.float32([0, 1e-3, 0]), np.zeros(3), np.zeros((1, 3), "float32")):
        with pytest.raises(AssertionError):
            compare([wrong], right)
