"""The tests that depend on the machine pass on other machines too: with a GPU of several architectures, CPUs with other
features, caches and cores, and for an ordinary user without a network."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import cuda_emulator
from tests.cpus import IS_X86
from tests.machines import IMPOSSIBLE, MACHINES
from tests.required import required

# What depends on the GPU that is here, on the CPU, and on the rights of the user: targets, texts of kernels, messages.
OF_GPUS = ("tests/target/test_target.py", "tests/tir/transform/test_golden.py", "tests/codegen/test_cuda_space.py")
# Tiles are chosen for a CPU. Code for features that this machine has not is made, but not run.
OF_CPUS = ("tests/target/test_cpu.py", "tests/runtime/test_host_cpu.py", "tests/topi/cpu/test_matmul_dots.py",
           "tests/topi/cpu/test_dynamic_conv.py",
           "-k", "not topi or blocks_of_rows or register_tile or tiles_of_winograd")  # fmt: skip
OF_USERS = ("tests/packaging", "tests/driver/tvmc/test_bad_input.py", "tests/driver/tvmc/test_tune_disk.py",
            "-k", "packaging or cannot_be_written or unwritable")  # fmt: skip

RUNS = [("h200", OF_GPUS), ("turing", OF_GPUS), ("zen3", OF_CPUS), ("sapphire-rapids", OF_CPUS), ("one-core", OF_CPUS),
        ("confined", OF_USERS)]  # fmt: skip


def run(machine: str, *program: str) -> str:
    command = [sys.executable, "-m", "tests.machines", machine, *program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == IMPOSSIBLE:
        pytest.skip(done.stderr.strip())
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def check(machine: str) -> None:
    """Skip where this system cannot fake the machine."""
    if MACHINES[machine].cpu and not IS_X86:
        pytest.skip("an x86 CPU is described")
    if MACHINES[machine].gpu and cuda_emulator.compiler() is None and not required("emulator"):
        pytest.skip("the emulator needs a C++ compiler")


@pytest.mark.slow("each machine is a run of pytest")
@pytest.mark.parametrize("machine, tests", RUNS, ids=[machine for machine, _ in RUNS])
def test_tests_pass_on_another_machine(machine, tests):
    check(machine)
    assert " passed" in run(machine, "pytest", *tests, "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.mark.parametrize("machine, arch", [("h200", "sm_90a"), ("turing", "sm_75"), ("one-core", "sm_50")])
def test_a_fake_gpu_is_the_one_that_targets_are_for(machine, arch):
    check(machine)
    program = "import tvm; assert tvm.target.Target('cuda').arch == '%s'"
    run(machine, "timeit", "-n", "1", "-r", "1", program % arch)


def test_an_ordinary_user_without_a_network_is_that():
    program = """\
import os, socket
assert os.getuid() == 1000
with socket.socket() as server, socket.socket() as client:
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    client.connect(server.getsockname())
    try: socket.create_connection(("192.0.2.1", 80), timeout=5)
    except OSError as problem: assert "unreachable" in str(problem), problem
    else: raise AssertionError("there is a network")
"""
    run("confined", "timeit", "-n", "1", "-r", "1", program)
