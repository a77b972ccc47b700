"""Which cases a run of a part of the suite has."""

from __future__ import annotations

import pytest

from tests.sampling import MANY, sampled

CASES = [f"a.py::test_many[{i}]" for i in range(11)]
FEW = [f"a.py::test_few[{i}]" for i in range(MANY - 1)] + ["a.py::test_alone"]


@pytest.mark.parametrize("share", [2, 3])
def test_of_many_cases_one_in_some_is_run_and_of_few_all(share, seed):
    kept = sampled([*CASES, *FEW], share, seed)
    assert set(FEW) <= kept
    assert len(CASES) // share <= len(kept & set(CASES)) <= -(-len(CASES) // share)


def test_every_case_is_run_by_some_seed():
    assert set().union(*(sampled(CASES, 2, seed) for seed in range(20))) == set(CASES)
