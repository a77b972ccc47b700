"""Operators on GPUs: a part of the operator tests, another one in each run, done on OpenCL as they are on the CPU, and
compiled for CUDA."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tvm.testing
from tvm.codegen import nvrtc

# ``make test-opencl`` and ``make test-cuda`` run all of them.
SAMPLE = "10"


@tvm.testing.requires_opencl
def test_a_sample_of_the_operator_tests_on_opencl(root, seed):
    sample(root, seed, "opencl")


@pytest.mark.skipif(
    not nvrtc.have_compiler(), reason="neither NVRTC nor nvcc is here; pip install 'pytvm[cuda]' brings NVRTC"
)
def test_a_sample_of_the_operator_tests_compiles_for_cuda(root, seed):
    sample(root, seed + 1, "cuda -arch=" + ("sm_75", "sm_80", "sm_90")[seed % 3])


def sample(root, seed: int, target: str) -> None:
    environment = {**os.environ, "TVM_TEST_ON": target, "TVM_TEST_SAMPLE": SAMPLE, "TVM_TEST_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/topi", "tests/relay/op"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    repeat = f"TVM_TEST_ON='{target}' TVM_TEST_SAMPLE={SAMPLE} TVM_TEST_SEED={seed}"
    assert done.returncode == 0, f"{repeat}\n{done.stdout[-6000:]}"
    assert any(x in done.stdout for x in (f"{SAMPLE} passed", "skipped", "xfailed")), done.stdout[-2000:]
