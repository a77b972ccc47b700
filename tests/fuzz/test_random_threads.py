"""Any legal schedule for a GPU gives the unscheduled result: run through OpenCL, and as CUDA on the emulator of
a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tvm.testing
from tests.cuda_emulator.marks import needs_emulator

CASES = int(os.environ.get("TVM_FUZZ_CASES", "20"))
BATCH = 10


@pytest.mark.slow("compiles ten random kernels for a GPU")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_kernels_give_the_result_of_the_plain_program(batch, seed):
    run(seed + batch * BATCH, "opencl")


@pytest.mark.slow("compiles ten random kernels for a GPU")
@needs_emulator
@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_kernels_of_cuda_give_the_result_of_the_plain_program(batch, seed):
    # Other cases than those of OpenCL; from sm_80 on double buffers are filled by copies beside the program.
    run(seed + 500_000 + batch * BATCH, ("cuda -arch=sm_80", "cuda -arch=sm_75")[batch % 2])


def run(first: int, target: str) -> None:
    """A case whose program crashes is compiled another way: what is wrong with the case itself shows there too."""
    outcomes: list[str] = []
    while len(outcomes) < BATCH:
        code, told = program(target, first + len(outcomes), BATCH - len(outcomes))
        outcomes += told
        if code < 0:
            number = first + len(outcomes)
            code, told = program(target, number, 1, POCL_WORK_GROUP_METHOD="workitemloops")
            assert code == 0, f"ThreadCase({number}, '{target}').run() ends its program (signal {-code})"
            outcomes += told
    assert outcomes.count("ok") >= BATCH // 3, f"too few legal cases: {outcomes}"


def program(target: str, first: int, count: int, **environment: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "tests.fuzz.run_threads", target, str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode <= 0, done.stderr
    return done.returncode, done.stdout.split()
