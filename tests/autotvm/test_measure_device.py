"""Measuring candidates on a device of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tvm import autotvm, te
from tvm.autotvm.measure.folder import write_candidates
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.testing import requires_opencl

N = 256


@autotvm.template("test/device_threads")
def by_threads(n: int):
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="b")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_knob("threads", [16, 64, 1 << 20])
    block, thread = s[b].split(b.op.axis[0], factor=cfg["threads"].val)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    cfg.add_flop(2 * n)
    return s, [a, b]


@requires_opencl
def test_candidates_run_on_the_device_and_are_checked_against_the_cpu():
    task = autotvm.task.create("test/device_threads", args=(N,), target="opencl")
    option = autotvm.measure_option(
        autotvm.LocalBuilder(timeout=60), autotvm.LocalRunner(timeout=120, number=2, repeat=2, verify=True)
    )
    measure = create_measure_batch(task, option)
    results = measure([autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in range(3)])
    for result in results[:2]:
        assert result.error_no == 0, result.costs
        # One much slower than the best so far is run no second time, and a busy machine can make either look so.
        assert 1 <= len(result.costs) <= 2 and all(0 < cost < 10 for cost in result.costs)
    # More threads than any device has: refused with the numbers, and it costs only itself.
    assert results[2].error_no != 0 and "1048576" in str(results[2].costs[0])


@requires_opencl
def test_a_folder_of_candidates_is_measured_by_the_runtime_alone(tmp_path):
    task = autotvm.task.create("test/device_threads", args=(N,), target="opencl")
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in range(3)]
    assert write_candidates(inputs, tmp_path) == (2, 1)
    assert write_candidates(inputs, tmp_path) == (0, 0)
    # A library that is damaged on its way costs only itself.
    rows = [json.loads(line) for line in (tmp_path / "candidates.json").read_text().splitlines()]
    broken = tmp_path / rows[0]["file"]
    broken.write_bytes(broken.read_bytes()[:1000])
    command = [sys.executable, "-m", "tvm.runtime.measure_files", str(tmp_path), "--min-repeat-ms", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0 and "2 candidates measured, 1 of them failed" in done.stdout, done.stderr
    assert "0 candidates measured" in subprocess.run(command, capture_output=True, text=True).stdout
    records = list(autotvm.record.load_from_file(str(tmp_path / "records.json")))
    assert sorted(result.error_no for _, result in records) == [0, 1, 4]
    good = [(inp, result) for inp, result in records if result.error_no == 0]
    assert str(good[0][0].target) == str(task.target) and all(0 < cost < 10 for cost in good[0][1].costs)
