"""``TVM_HOST_CPU``: the CPU that ``llvm`` stands for in place of this machine's."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tvm
from tests.cpus import BASELINE, IS_X86, OLDER
from tests.machines import described_cpu
from tvm import te
from tvm.error import TargetError, TVMError
from tvm.runtime.host_cpu import usable_cores
from tvm.target import Target
from tvm.target.cpu import resolve_cpu
from tvm.target.detect import config_of_device

# A feature that the second CPU has not.
MORE = "avxvnni" if IS_X86 else "dotprod"


def test_the_description_is_the_machine_until_it_ends():
    before = resolve_cpu(Target("llvm"))
    with described_cpu(f"{OLDER},cores=3,l1=16K,l2=3M,l3=1G"):
        cpu = resolve_cpu(Target("llvm"))
        assert (cpu.cpu, cpu.cores, usable_cores()) == (OLDER, 3, 3)
        assert (cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes) == (16 << 10, 3 << 20, 1 << 30)
        assert config_of_device("llvm")["mcpu"] == OLDER
        assert MORE not in cpu.enabled
    assert resolve_cpu(Target("llvm")) == before


def test_features_are_added_and_taken_away():
    less = "fma" if IS_X86 else "neon"
    with described_cpu(f"{OLDER},+{MORE},-{less}"):
        cpu = resolve_cpu(Target("llvm"))
    assert cpu.has(MORE) and not cpu.has(less)


def test_what_is_left_out_is_usual():
    with described_cpu(BASELINE):
        cpu = resolve_cpu(Target("llvm"))
    assert min(cpu.cores, cpu.l1_bytes, cpu.l2_bytes) > 0


def test_code_for_it_runs_here():
    a = te.placeholder((5,), name="a")
    b = te.compute((5,), lambda i: a[i] * 2.0 + 1.0, name="b")
    with described_cpu(f"{BASELINE},cores=1"):
        built = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    out = tvm.nd.empty((5,))
    built(tvm.nd.array(np.arange(5, dtype="float32")), out)
    assert out.numpy().tolist() == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("text, error, message", [
    ("pentium9", TargetError, "TVM_HOST_CPU: unknown LLVM CPU 'pentium9' for "),
    (f"{OLDER},+avx9000", TargetError, "TVM_HOST_CPU: unknown LLVM feature 'avx9000' for "),
    (f"{OLDER},core=3", TVMError, "'core' is invalid; expected NAME,"),
    (f"{OLDER},l1=many", TVMError, "'l1' is invalid; expected NAME,"),
])  # fmt: skip
def test_what_is_no_cpu_is_rejected(text, error, message):
    with described_cpu(text), pytest.raises(error, match=message):
        resolve_cpu(Target("llvm"))


def test_programs_read_the_variable():
    code = "import tvm; print(tvm.target.Target.from_device('llvm').attrs['num-cores'])"
    environment = {**os.environ, "TVM_HOST_CPU": f"{OLDER},cores=77"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "77\n"
