"""Operators on GPUs: a part of the operator tests, another one in each run, done on OpenCL as they are on the CPU,
compiled for CUDA by NVRTC, and run as CUDA on the emulator of a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import tvm.testing
from tests.cuda_emulator.marks import needs_compiler, needs_emulator

# As many tests as are drawn, and the seconds after which no more of them begin; ``python -m tools test opencl`` and
# ``python -m tools test cuda`` run all of them.
SAMPLE, SECONDS = "60", "3"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


@pytest.mark.slow("runs a sample of other tests on another target")
@tvm.testing.requires_opencl
def test_a_sample_of_the_operator_tests_on_opencl(root, seed):
    sample(root, seed, "opencl")


@pytest.mark.slow("runs a sample of other tests on another target")
@needs_compiler
def test_a_sample_of_the_operator_tests_compiles_for_cuda(root, seed):
    sample(root, seed + 1, f"cuda -arch={ARCHITECTURES[seed % 3]}")


@pytest.mark.slow("runs a sample of other tests on another target")
@needs_emulator
def test_a_sample_of_the_operator_tests_on_the_emulator_of_a_gpu(root, seed):
    sample(root, seed + 2, f"cuda -arch={ARCHITECTURES[(seed + 1) % 3]}", "tests.cuda_emulator")


def sample(root, seed: int, target: str, runner: str = "") -> None:
    chosen = {"TVM_TEST_ON": target, "TVM_TEST_SAMPLE": SAMPLE, "TVM_TEST_SEED": str(seed)}
    command = [sys.executable, "-m", *filter(None, [runner]), "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, **chosen, "TVM_TEST_SECONDS": SECONDS}
    done = subprocess.run(
        [*command, "tests/topi", "tests/relay/op"], cwd=root, env=environment, capture_output=True, text=True
    )
    repeat = " ".join(f"{name}='{value}'" for name, value in chosen.items())
    assert done.returncode == 0, f"{repeat} python {' '.join(command[1:])}\n{done.stdout[-6000:]}"
    passed = re.search(r"(\d+) passed", done.stdout)
    # The first test begins whatever the time; how many follow is up to the machine.
    assert passed, done.stdout[-2000:]
