"""Any legal schedule for a GPU gives the unscheduled result: run through OpenCL."""

from __future__ import annotations

import collections
import os

import pytest

import tvm.testing
from tests.fuzz.threads import ThreadCase

CASES = int(os.environ.get("TVM_FUZZ_CASES", "30"))
BATCH = 10


@tvm.testing.requires_opencl
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_kernels_give_the_result_of_the_plain_program(batch, seed):
    outcomes: collections.Counter = collections.Counter()
    for number in range(seed + batch * BATCH, seed + (batch + 1) * BATCH):
        case = ThreadCase(number)
        try:
            outcomes[case.run()] += 1
        except Exception as error:
            steps = "\n".join(str(s) for s in case.made.schedule.steps) if case.made else ""
            what = f"seed {number} (TVM_TEST_SEED={number} repeats it): {error}\nsteps:\n{steps}"
            raise AssertionError(what) from error
    assert outcomes["ok"] >= BATCH // 3, f"too few legal cases: {outcomes}"
