"""Operators on OpenCL: a part of the operator tests, another one in each run, done there as they are on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import tvm.testing

# ``make test-opencl`` runs all of them.
SAMPLE = "10"


@tvm.testing.requires_opencl
def test_a_sample_of_the_operator_tests(root, seed):
    environment = {**os.environ, "TVM_TEST_ON": "opencl", "TVM_TEST_SAMPLE": SAMPLE, "TVM_TEST_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/topi", "tests/relay/op"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    repeat = f"TVM_TEST_ON=opencl TVM_TEST_SAMPLE={SAMPLE} TVM_TEST_SEED={seed}"
    assert done.returncode == 0, f"{repeat}\n{done.stdout[-6000:]}"
    assert f"{SAMPLE} passed" in done.stdout or "skipped" in done.stdout, done.stdout[-2000:]
