"""Any legal schedule for a GPU gives the unscheduled result: run through OpenCL, and as CUDA on the emulator of
a GPU."""

from __future__ import annotations

import collections
import os

import pytest

import tvm.testing
from tests.cuda_emulator.marks import needs_emulator
from tests.fuzz.threads import ThreadCase

CASES = int(os.environ.get("TVM_FUZZ_CASES", "30"))
BATCH = 10



@tvm.testing.requires_opencl
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_kernels_give_the_result_of_the_plain_program(batch, seed):
    run(seed + batch * BATCH, "opencl")


@needs_emulator
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_kernels_of_cuda_give_the_result_of_the_plain_program(batch, seed):
    # Other cases than those of OpenCL; from sm_80 on double buffers are filled by copies beside the program.
    run(seed + 500_000 + batch * BATCH, ("cuda -arch=sm_80", "cuda -arch=sm_75")[batch % 2])


def run(first: int, target: str) -> None:
    outcomes: collections.Counter = collections.Counter()
    for number in range(first, first + BATCH):
        case = ThreadCase(number, target)
        try:
            outcomes[case.run()] += 1
        except Exception as error:
            steps = "\n".join(str(s) for s in case.made.schedule.steps) if case.made else ""
            what = f"ThreadCase({number}, '{target}').run() repeats it: {error}\nsteps:\n{steps}"
            raise AssertionError(what) from error
    assert outcomes["ok"] >= BATCH // 3, f"too few legal cases: {outcomes}"
