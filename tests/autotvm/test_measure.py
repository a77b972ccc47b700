"""Measuring in worker processes: a candidate that crashes, hangs or is wrong costs only itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
from tvm import autotvm, te, tir
from tvm.autotvm.measure import executor, local_executor, measure_methods
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.runtime.measure.worker import machine_memory
from tvm.testing.autotvm import get_sample_task
from tvm.tuning import workers
from tvm.tuning.candidate import Code

# Candidates by name: what happens to the process that runs them.
KINDS = ["fine", "crash", "endless", "refused", "raises", "fine again", "wrong", "greedy", "fine at last"]


@autotvm.template("test/hostile")
def hostile(n: int):
    """A copy; some configurations do something else as well."""
    a = te.placeholder((n,), name="a")
    cfg = autotvm.get_config()
    cfg.define_knob("kind", KINDS)
    kind = cfg["kind"].val
    if kind == "refused":
        cfg.raise_error("this one is not wanted")
    if kind == "raises":
        raise ValueError("a template with a fault")
    body = {"crash": crash, "endless": endless, "wrong": shifted, "greedy": greedy}.get(kind, copied)
    b = te.extern((n,), [a], lambda ins, outs: body(ins[0], outs[0]), name="b", dtype="float32")
    cfg.add_flop(n)
    return te.create_schedule(b.op), [a, b]


def copied(a, b):
    ib = tir.ir_builder.create()
    src, dst = ib.buffer_ptr(a), ib.buffer_ptr(b)
    with ib.for_range(0, a.shape[0]) as i:
        dst[i] = src[i]
    return ib.get()


def shifted(a, b):
    ib = tir.ir_builder.create()
    src, dst = ib.buffer_ptr(a), ib.buffer_ptr(b)
    with ib.for_range(0, a.shape[0]) as i:
        dst[i] = src[i] + 1.0
    return ib.get()


def crash(a, b):
    ib = tir.ir_builder.create()
    dst = ib.buffer_ptr(b)
    with ib.for_range(0, 1) as i:
        dst[i + (1 << 40)] = 1.0
    return ib.get()


def greedy(a, b):
    """Asks for nearly all memory of the machine, which the system would promise."""
    ib = tir.ir_builder.create()
    dst = ib.buffer_ptr(b)
    scratch = ib.allocate("float32", machine_memory() * 9 // 10 // 4, name="scratch", scope="global")
    with ib.for_range(0, a.shape[0], dtype="int64") as i:
        scratch[i * 1024] = 1.0
    with ib.for_range(0, a.shape[0], dtype="int64") as i:
        dst[i] = scratch[i * 1024]
    return ib.get()


def endless(a, b):
    ib = tir.ir_builder.create()
    dst = ib.buffer_ptr(b)
    with ib.while_loop(dst[0] < 5.0):
        # It sleeps, and so takes no processor time from other tests.
        ib.emit(tir.call_extern("int32", "usleep", 1000))
        dst[0] = 0.0
    return ib.get()


def measure(configs, task, **options):
    runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, **options)
    batch = create_measure_batch(task, autotvm.measure_option(autotvm.LocalBuilder(timeout=30), runner))
    return batch([autotvm.MeasureInput(task.target, task, c) for c in configs])


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_bad_candidates_cost_only_themselves():
    task = autotvm.task.create("test/hostile", (1024,), "llvm")
    space = task.config_space
    results = measure([space.get(i) for i in range(len(KINDS))], task, timeout=15)
    errors = dict(zip(KINDS, results))
    number = autotvm.MeasureErrorNo
    for kind in ("fine", "fine again", "fine at last", "wrong"):
        assert errors[kind].error_no == number.NO_ERROR and errors[kind].costs[0] > 0
    assert errors["crash"].error_no == number.RUNTIME_DEVICE and "SIG" in str(errors["crash"].costs[0])
    assert errors["endless"].error_no == number.RUN_TIMEOUT
    assert errors["greedy"].error_no == number.RUNTIME_DEVICE and "cannot allocate" in str(errors["greedy"].costs[0])
    assert errors["refused"].error_no == number.INSTANTIATION_ERROR
    assert "not wanted" in str(errors["refused"].costs[0])
    assert errors["raises"].error_no == number.INSTANTIATION_ERROR


class Answering:
    """Stands for the workers: every candidate takes a second, and what was asked is kept."""

    def __init__(self):
        self.asked: list[dict] = []

    def submit(self, job: workers.Job) -> None:
        self.asked.append(job.message)
        job.done(({"costs": [1.0] * job.message["repeat"]}, b""))

    def finish(self) -> None:
        pass


def test_runner_asks_for_what_its_options_say(monkeypatch):
    pool = Answering()
    monkeypatch.setattr(measure_methods, "shared_pool", lambda size: pool)
    task, target = get_sample_task(16)
    built = measure_methods.BuildResult(None, [((16, 16), "float32")], None, 0.5)
    built.code = Code(b"", (), "default_function")
    inputs = [autotvm.MeasureInput(target, task, task.config_space.get(i)) for i in range(2)]
    runner = autotvm.LocalRunner(
        timeout=7, number=5, repeat=2, min_repeat_ms=30, cooldown_interval=0.25, enable_cpu_cache_flush=True
    )
    runner.set_task(task)
    results = runner.run(inputs, [built, built])
    assert [r.costs for r in results] == [(1.0, 1.0)] * 2 and all(r.all_cost >= 0.5 for r in results)
    wanted = {"number": 5, "repeat": 2, "min_repeat_ms": 30, "cooldown": 0.25, "flush": True, "outputs": False}
    assert all(message[name] == value for message in pool.asked for name, value in wanted.items())
    assert [message["limit"] for message in pool.asked] == [None, 3.0], "three times the best so far"


def test_options_act_on_the_worker():
    task = autotvm.task.create("test/hostile", (1024,), "llvm")
    fine = [task.config_space.get(0)]
    runner = autotvm.LocalRunner(
        number=1, repeat=3, min_repeat_ms=40, cooldown_interval=0.2, enable_cpu_cache_flush=True
    )
    batch = create_measure_batch(task, autotvm.measure_option("local", runner))
    (result,) = batch([autotvm.MeasureInput(task.target, task, c) for c in fine])
    assert result.error_no == 0 and len(result.costs) == 3
    assert result.all_cost > 3 * 0.04 + 0.2, "three repeats of 40 ms and a rest of 200 ms"


def test_values_that_runners_do_not_support():
    with pytest.raises(tvm.TVMError, match="enable_cpu_cache_flush is not supported together with module_loader"):
        autotvm.LocalRunner(module_loader=lambda *_: None, enable_cpu_cache_flush=True)
    with pytest.raises(tvm.TVMError, match="RPCRunner: ref_input is only supported by LocalRunner"):
        autotvm.RPCRunner("board", "127.0.0.1", 1).ref_input = [np.ones(3)]


@autotvm.template("test/chosen_steps")
def chosen_steps(n):
    """Elements of a vector by their numbers, which lie outside of it where they are not given."""
    data, where = te.placeholder((n,), name="data"), te.placeholder((n,), "int32", name="where")
    out = te.compute((n,), lambda i: data[where[i] * 1000] * 2.0, name="out")
    schedule = te.create_schedule(out.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", out.op.axis[0], num_outputs=2)
    cfg["tile"].apply(schedule, out, out.op.axis[0])
    return schedule, [data, where, out]


def test_candidates_are_measured_with_the_arrays_that_are_given():
    task = autotvm.task.create("test/chosen_steps", (64,), "llvm")
    runner = autotvm.LocalRunner(number=1, repeat=1, min_repeat_ms=0, verify=True)
    batch = create_measure_batch(task, autotvm.measure_option("local", runner))
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(1))]
    given = [np.arange(3, 67, dtype="float32"), np.zeros(64, "int32"), np.zeros(64, "float32")]
    runner.ref_input = given
    asked = []
    run_code = runner._run_code
    runner._run_code = lambda *args: asked.append(run_code(*args)) or asked[-1]
    (result,) = batch(inputs)
    assert result.error_no == 0
    outputs = np.frombuffer(asked[0][1], "float32")
    np.testing.assert_array_equal(outputs[:64], given[0])
    np.testing.assert_array_equal(outputs[128:], np.full(64, 2 * given[0][0]))
    for wrong, words in (
        (given[:2], "got 2 arrays, but the template has 3 arguments"),
        ([given[0].astype("float64"), *given[1:]], r"array 0 is float64 of shape \(64,\), but the template's"),
    ):
        runner.ref_input = wrong
        with pytest.raises(tvm.TVMError, match=words):
            batch(inputs)
    runner.ref_input = None
    assert runner.ref_input is None


@autotvm.template("test/endless_lowering")
def endless_lowering(n: int):
    cfg = autotvm.get_config()
    cfg.define_knob("hangs", [False, True])
    while cfg["hangs"].val:
        pass
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    return te.create_schedule(b.op), [a, b]


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_template_that_never_returns_costs_only_itself():
    task = autotvm.task.create("test/endless_lowering", (64,), "llvm")
    runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0)
    batch = create_measure_batch(task, autotvm.measure_option(autotvm.LocalBuilder(timeout=5), runner))
    configs = [task.config_space.get(i) for i in (1, 0)]
    hung, fine = batch([autotvm.MeasureInput(task.target, task, c) for c in configs])
    assert hung.error_no == autotvm.MeasureErrorNo.BUILD_TIMEOUT and "longer than 5 s" in str(hung.costs[0])
    assert fine.error_no == 0


@autotvm.template("test/tensorized")
def tensorized(n: int):
    """Eight numbers at a time by an intrinsic; a fault in it makes some configurations wrong."""
    cfg = autotvm.get_config()
    cfg.define_knob("added", [1.0, 2.0])
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=8)
    s[b].tensorize(inner, eight(cfg["added"].val))
    return s, [a, b]


def eight(added: float):
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="y")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8) as i:
            ib.emit(outs[0].vstore(i, ins[0].vload(i) + added))
        return ib.get()

    buffers = {t: tir.decl_buffer(t.shape, t.dtype, t.op.name, offset_factor=1) for t in (x, y)}
    return te.decl_tensor_intrin(y.op, body, binds=buffers)


def test_wrong_answers_are_found():
    task = autotvm.task.create("test/tensorized", (64,), "llvm")
    right, wrong = measure([task.config_space.get(i) for i in (0, 1)], task, verify=True)
    assert right.error_no == 0
    assert wrong.error_no == autotvm.MeasureErrorNo.WRONG_ANSWER and "by up to 1" in str(wrong.costs[0])
    assert all(r.error_no == 0 for r in measure([task.config_space.get(i) for i in (0, 1)], task))


UNGUARDED = """
import sys
print("the script begins", flush=True)
from tvm import autotvm, te

@autotvm.template("script/add")
def add(n):
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", b.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, b, b.op.axis[0])
    return s, [a, b]

task = autotvm.task.create("script/add", args=(64,), target="llvm")
option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0))
autotvm.tuner.RandomTuner(task).tune(n_trial=3, measure_option=option, callbacks=[
    autotvm.callback.log_to_file(sys.argv[1])])
"""


def test_published_scripts_need_no_guard(tmp_path):
    """Workers are no copies of the script: its top level runs once."""
    script, log = tmp_path / "script.py", tmp_path / "records.log"
    script.write_text(UNGUARDED)
    done = subprocess.run([sys.executable, str(script), str(log)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the script begins") == 1
    assert [r.error_no for _, r in autotvm.record.load_from_file(log)] == [0, 0, 0]


def test_answers_can_be_verified():
    task, _ = get_sample_task(16)
    results = measure([task.config_space.get(i) for i in (0, 7, 24)], task, verify=True)
    assert [r.error_no for r in results] == [0, 0, 0], results


def test_worker_killed_at_any_moment_is_replaced():
    task, _ = get_sample_task(16)
    configs = [task.config_space.get(i) for i in range(6)]
    assert all(r.error_no == 0 for r in measure(configs[:2], task))
    pool = workers.shared_pool(2)
    for worker in pool.workers:
        os.kill(worker.process.pid, signal.SIGKILL)
    assert all(r.error_no == 0 for r in measure(configs, task))
    assert len(pool.workers) == pool.size and pool is workers.shared_pool(2)


def test_slow_candidates_are_not_run_on():
    task, target = get_sample_task(256)
    space = task.config_space
    slow, fast = space.get(0), space.get(space.knob2point([3, 6]))
    runner = autotvm.LocalRunner(number=20, repeat=3, cooldown_interval=0, slow_factor=1e-6)
    batch = create_measure_batch(task, autotvm.measure_option("local", runner))
    first, second = batch([autotvm.MeasureInput(target, task, c) for c in (fast, slow)])
    assert len(first.costs) == 3 and len(second.costs) == 1


def test_worker_ends_with_its_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from tvm.tuning.workers import new_pool\n"
        "pool = new_pool(1)\n"
        "print(pool.workers[0].process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    until = time.time() + 60
    while time.time() < until and _is_running(child):
        time.sleep(0.1)
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("what", ["builder", "runner"])
def test_measure_option_names_what_it_does_not_know(what: str):
    given = {"builder": "local", "runner": "local", what: "somewhere"}
    with pytest.raises(ValueError, match="somewhere"):
        autotvm.measure_option(**given)


def test_work_in_a_process_of_its_own_ends_with_its_result_its_error_or_its_time():
    run = local_executor.LocalExecutor(timeout=60)
    assert run.submit(len, [1, 2, 3]).get() == 3
    assert isinstance(run.submit(int, "no number").get(), ValueError)
    assert isinstance(run.submit(os._exit, 3).get(), executor.ExecutionError)
    assert isinstance(local_executor.LocalExecutor().submit(time.sleep, 1000).get(timeout=0.1), executor.TimeoutError)
    here = local_executor.LocalExecutor(do_fork=False).submit(os.getpid)
    assert here.done() and here.get() == os.getpid()
