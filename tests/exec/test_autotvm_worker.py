"""The worker process of the tuner: what it keeps of candidates that are done."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from benchmarks.tuning_memory import resident
import gc, os
from tvm.codegen.llvm import jit as llvm_jit
from tvm.exec.autotvm_worker import ENGINES, build
from tvm.target import Target
from tvm.target.cpu import resolve_cpu

cpu = resolve_cpu(Target("llvm"))
message = {"triple": cpu.triple, "cpu": cpu.cpu, "features": cpu.features_text, "opt_level": 3, "imports": []}

def candidate():
    _, code = build(message, b"define i32 @f(i32 %x) { %y = add i32 %x, 1 ret i32 %y }")
    llvm_jit.load_objects([code], ["f"], ENGINES.get())

for number in range(400):
    if number == 100:
        gc.collect()
        before = resident(os.getpid())
    candidate()
gc.collect()
print(resident(os.getpid()) - before)
"""


@pytest.mark.slow("compiles 400 candidates in a process")
def test_memory_does_not_grow_with_candidates():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 4, "MiB over 300 candidates; a pass manager that is not freed takes 14"
