"""Measuring candidates on a device of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tvm
from tests.cuda_emulator.marks import needs_compiler
from tvm import autotvm, te
from tvm.autotvm.measure.folder import write_candidates
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.runtime.measure import worker as measure_worker
from tvm.testing import requires_opencl
from tvm.tuning.workers import Failure, Job, Pool, new_pool

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


@pytest.mark.slow("starts a process that measures")
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


def answers(pool: Pool, message: dict, payload: bytes = b"") -> object:
    box: list = []
    pool.submit(Job(message, payload, 120.0, box.append))
    pool.finish()
    return box[0]


@pytest.mark.skipif(tvm.cuda(0).exist, reason="a device that does not work is wanted; this machine has one that does")
def test_a_worker_whose_device_no_longer_works_is_replaced():
    # A machine without CUDA answers as one whose CUDA refuses everything after a fault: whatever is asked fails.
    pool = new_pool(1)
    try:
        before = pool.workers[0].process.pid
        build = {"action": "build", "triple": "", "cpu": "", "features": "", "opt_level": 3, "imports": []}
        assert isinstance(answers(pool, build, b"no text of LLVM"), Failure)
        assert pool.workers[0].process.pid == before, "nothing is wrong with the worker"
        run = {"action": "run", "device": (tvm.cuda(0).device_type, 0), "filename": "/no/file.so"}
        failed = answers(pool, run)
        assert isinstance(failed, Failure) and failed.kind == "error" and "/no/file.so" in str(failed)
        assert pool.workers[0].process.pid != before
        assert isinstance(answers(pool, build, b"again"), Failure), "the next worker does its work"
    finally:
        pool.close()


@requires_opencl
def test_a_candidate_that_fails_leaves_a_device_that_works():
    device = tvm.cl(0)
    message = {"action": "run", "device": (device.device_type, 0), "filename": "/no/file.so"}
    found, _ = measure_worker.answer(message, b"")
    assert "error" in found and "unusable" not in found and measure_worker.is_usable(device)


class Timed:
    """In place of a module: what its time evaluator was asked for, and answers in turn."""

    def __init__(self, *seconds: float):
        self.seconds, self.asked = list(seconds), []

    def __getitem__(self, name):
        return None

    def time_evaluator(self, name, device, number, repeat, min_repeat_ms, f_preproc):
        self.asked.append((number, repeat, min_repeat_ms))
        return lambda *arguments: type("Found", (), {"results": [self.seconds.pop(0)]})


@pytest.mark.parametrize("device", [tvm.cl(0), tvm.cpu(0)])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("glance, looks", [(2.0, 1), (1.05, 2)])
def test_only_what_may_be_among_the_best_is_measured_for_long(glance, looks, flush, device):
    seconds, asked = [glance, 0.9], []

    def evaluate(number, repeat, milliseconds):
        asked.append((number, repeat, milliseconds))
        return [seconds.pop(0)]

    message = {"entry": "f", "flush": flush, "best": 1.0, "number": 5, "repeat": 3, "min_repeat_ms": 1000}
    costs = measure_worker._timed(evaluate, message, device)
    assert costs == ([2.0] if looks == 1 else [0.9])
    assert asked[1:] == [(5, 3, 1000)][: looks - 1] and asked[0][2] < 100


@pytest.mark.parametrize("call, wanted", [(1.5e-5, 3e-6), (1e-2, 1e-2)])
def test_a_small_kernel_is_not_slow_because_its_launch_is(call, wanted, monkeypatch):
    """The best takes 4 us; the call of another takes longer by the clock of this machine, whatever its kernel takes."""
    monkeypatch.setattr(measure_worker, "_seconds", lambda *arguments: call)
    monkeypatch.setattr(measure_worker.ARGUMENTS, "prepare", lambda *arguments: None)
    monkeypatch.setattr(measure_worker.ARGUMENTS, "sets", [[]])
    module = Timed(3e-6, 3e-6)
    message = measure_worker.request([], tvm.cl(0).device_type, "f", best=4e-6, min_repeat_ms=100)
    assert measure_worker.measure(module, message)[0]["costs"] == [wanted]


@needs_compiler
def test_cuda_is_compiled_by_the_worker():
    task = autotvm.task.create("test/device_threads", args=(N,), target="cuda -arch=sm_80")
    (built,) = autotvm.LocalBuilder(timeout=120).build(
        [autotvm.MeasureInput(task.target, task, task.config_space.get(0))]
    )
    assert built.filename is None and b"\x7fELF" in built.code.device and built.code.device[:8] == b"TVMDEV01"


def test_a_users_function_that_compiles_cuda_is_called_in_this_process():
    from tvm.tuning.candidate import travels_as_text

    cuda = tvm.target.Target("cuda -arch=sm_80")
    assert travels_as_text(cuda) and travels_as_text(tvm.target.Target("opencl"))
    tvm.register_func("tvm_callback_cuda_compile", lambda code, target: code, override=True)
    try:
        assert not travels_as_text(cuda)
    finally:
        tvm._ffi.registry.remove_global_func("tvm_callback_cuda_compile")


@autotvm.template("test/device_fault")
def writing_far_away(n: int):
    a = te.placeholder((n,), name="a")
    cfg = autotvm.get_config()
    cfg.define_knob("far", [0, 1 << 29])

    def kernel(ins, outs):
        builder = tvm.tir.ir_builder.create()
        source, result = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        thread = te.thread_axis("threadIdx.x")
        builder.scope_attr(thread, "thread_extent", n)
        result[thread.var + cfg["far"].val] = source[thread.var]
        return builder.get()

    b = te.extern((n,), [a], kernel, name="b", dtype="float32")
    cfg.add_flop(n)
    return te.create_schedule(b.op), [a, b]


@pytest.mark.slow("builds and measures candidates in worker processes")
@pytest.mark.parametrize("target", ["opencl", "cuda"])
def test_a_fault_in_a_kernel_costs_that_candidate_only(target):
    if not tvm.device(target, 0).exist:
        pytest.skip(f"this machine has no device for {target}")
    task = autotvm.task.create("test/device_fault", args=(64,), target=target)
    option = autotvm.measure_option(
        autotvm.LocalBuilder(timeout=60), autotvm.LocalRunner(timeout=120, number=1, repeat=1, min_repeat_ms=1)
    )
    measure = create_measure_batch(task, option)
    order = [0, 1, 0, 1, 0]
    results = measure([autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in order])
    assert [r.error_no == 0 for r in results] == [i == 0 for i in order], [(r.error_no, r.costs) for r in results]
