"""Any legal schedule gives the unscheduled result."""

from __future__ import annotations

import collections
import os
import random

import pytest

from tests.fuzz.run import Case

CASES = int(os.environ.get("TVM_FUZZ_CASES", "150"))
BATCH = 25


@pytest.fixture(scope="module")
def first_seed(request) -> int:
    return int(os.environ.get("TVM_TEST_SEED", "0") or 0) or random.SystemRandom().randrange(1 << 31)


@pytest.mark.slow("compiles and runs 25 random schedules")
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_schedules_give_the_result_of_the_plain_program(batch, first_seed):
    outcomes: collections.Counter = collections.Counter()
    for seed in range(first_seed + batch * BATCH, first_seed + (batch + 1) * BATCH):
        case = Case(seed)
        try:
            outcomes[case.run()] += 1
        except Exception as error:
            steps = "\n".join(str(s) for s in case.made.schedule.steps)
            raise AssertionError(f"seed {seed} (TVM_TEST_SEED={seed} repeats it): {error}\nsteps:\n{steps}") from error
    assert outcomes["ok"] >= BATCH // 3, f"too few legal cases: {outcomes}"
