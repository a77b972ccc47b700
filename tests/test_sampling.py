"""A sample of the suite: which tests it holds, and that all samples together hold every test."""

from __future__ import annotations

from tests.sampling import MANY, sampled

FEW = [f"a.py::few[{i}]" for i in range(MANY - 1)]
CASES = [f"a.py::many[{i}]" for i in range(20)]
SLOW = [f"b.py::slow_{i}" for i in range(20)]


def test_a_test_with_few_cases_is_run_whole():
    assert sampled(FEW, 4, seed=3) == set(FEW)


def test_of_many_cases_one_in_share_is_run():
    assert len(sampled(CASES, 4, seed=3)) == 5


def test_slow_tests_are_sampled_though_each_has_one_case():
    assert sampled(SLOW, 4, seed=3) == set(SLOW)
    assert len(sampled(SLOW, 4, seed=3, slow=SLOW)) == 5


def test_in_a_row_of_seeds_every_test_is_run():
    names = [*FEW, *CASES, *SLOW]
    assert set().union(*(sampled(names, 4, seed, slow=SLOW) for seed in range(40))) == set(names)
