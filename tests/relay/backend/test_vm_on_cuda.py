"""The virtual machine on a CUDA device, which is the emulator or, with ``TVM_CUDA_REAL=1``, a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cuda_emulator import REAL, ROOT, environment
from tests.cuda_emulator.marks import needs_emulator


@pytest.mark.slow("compiles and runs models on the emulator")
@needs_emulator
def test_unknown_sizes_a_loop_and_sizes_that_data_decide_on_are_those_of_the_cpu():
    """A process has one driver, so the machine runs in one of its own."""
    module = "tests.relay.backend.vm_on_cuda"
    command = [sys.executable, "-m", module] if REAL else [sys.executable, "-m", "tests.cuda_emulator", module]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("is right") == 4
