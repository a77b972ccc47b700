"""Tuning for CUDA where the device is emulated: what the tests on OpenCL show, on the other runtime."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import cuda_emulator

PROGRAM = """
import json, sys
import tvm
from tests import cuda_emulator
from tests.autotvm import test_measure_device as shared
from tvm import autotvm
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.autotvm.task import relay_integration

name, args, indexes = json.loads(sys.argv[1])
tuples = lambda x: tuple(map(tuples, x)) if isinstance(x, list) else x
with cuda_emulator.building():
    task = autotvm.task.create(name, tuples(args), "cuda -arch=sm_80")
    runner = autotvm.LocalRunner(timeout=300, number=1, repeat=1, cooldown_interval=0, slow_factor=1e9,
                                 verify=name != "test/device_fault")
    measure = create_measure_batch(task, autotvm.measure_option(autotvm.LocalBuilder(timeout=300), runner))
    space = task.config_space
    indexes = indexes or [*space.start, *space.sample_ints(2)]
    inputs = [autotvm.MeasureInput(task.target, task, space.get(i)) for i in indexes]
    results = measure(inputs)
print("RESULTS", json.dumps([[str(i.config), (i.made_on or {}).get("device"), int(r.error_no), str(r.costs)]
                             for i, r in zip(inputs, results)]))
"""


def measured(name: str, args: list, indexes: list[int] | None = None) -> list:
    """What a tuner in a process whose GPU is emulated measures."""
    if cuda_emulator.compiler() is None:
        pytest.skip("the emulator of CUDA needs a C++ compiler")
    environment = {**cuda_emulator.environment(), "TVM_EMULATED_STICKY": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps([name, args, indexes])], env=environment,
                          cwd=cuda_emulator.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULTS"))[8:])


def test_after_a_fault_cuda_refuses_everything_and_the_next_worker_goes_on():
    order = [0, 1, 0, 1, 0]
    rows = measured("test/device_fault", [64], order)
    assert [row[2] == 0 for row in rows] == [i == 0 for i in order], rows
    assert all("CUDA" in row[3] for row in rows if row[2]), rows
    assert all(row[1] == "Emulated GPU" for row in rows if not row[2])


@pytest.mark.parametrize("name, args", [
    ("conv2d_nchw.cuda", [["TENSOR", [1, 5, 6, 7], "float32"], ["TENSOR", [6, 5, 3, 3], "float32"], [1, 1],
                          [1, 1, 1, 1], [1, 1], "float32"]),
    ("dense_small_batch.gpu", [["TENSOR", [3, 40], "float32"], ["TENSOR", [9, 40], "float32"], None, "float32"]),
])
def test_any_configuration_gives_what_the_cpu_gives(name, args):
    rows = measured(name, args)
    assert len(rows) == 3 and all(row[2] == 0 for row in rows), rows


