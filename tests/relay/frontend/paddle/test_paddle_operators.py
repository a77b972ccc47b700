"""Operators of PaddlePaddle against what PaddlePaddle made of the same programs (cases.npz)."""

from __future__ import annotations

import os

import numpy as np
import pytest
from paddle_cases import Case
from paddle_older import OLDER, other_names

from tests.relay.frontend.paddle.operator_cases import (
    CASES,
    check,
    check_older,
    check_renamed,
    compare,
    expected,
    imported,
)
from tvm.ir.type import TupleType
from tvm.relay.infer import infer_module

# A case is compiled in a third of a second; every seed has others, ``python -m tools conformance paddle`` has all.
IMPORTED, COMPILED = 60, 9


def _types(case: Case) -> list:
    found = infer_module(imported(case))["main"].checked_type_.ret_type
    return list(found.fields) if isinstance(found, TupleType) else [found]


def test_cases_are_imported_with_the_types_that_paddle_gave(rng):
    count = len(CASES) if os.environ.get("TVM_CONFORMANCE_CASES") else IMPORTED
    for name in rng.choice(sorted(CASES), count, replace=False):
        wanted = expected()[name]
        got = _types(CASES[name])
        assert [(len(t.shape), t.dtype) for t in got] == [(v.ndim, str(v.dtype)) for v in wanted], name
        for t, value in zip(got, wanted):
            sizes = [getattr(d, "value", None) for d in t.shape]
            assert all(s in (None, d) for s, d in zip(sizes, value.shape)), name


def test_a_sample_of_cases_gives_what_paddle_gave(rng):
    count = len(CASES) if os.environ.get("TVM_CONFORMANCE_CASES") else COMPILED
    for name in rng.choice(sorted(CASES), count, replace=False):
        check(name)


def test_operators_of_older_programs(rng):
    names = sorted(OLDER)
    count = len(names) if os.environ.get("TVM_CONFORMANCE_CASES") else COMPILED
    for name in rng.choice(names, count, replace=False):
        check_older(str(name))


def test_another_name_of_an_operator(rng):
    check_renamed(str(rng.choice(sorted(other_names()))))


X = np.linspace(-2.5, 2.5, 24, dtype="float32").reshape(2, 3, 4)


def test_a_difference_is_seen():
    """The comparison itself can fail."""
    for wrong in (X + np.float32(1e-3), X.astype("float64"), X[0]):
        with pytest.raises(AssertionError):
            compare([wrong], [X])
