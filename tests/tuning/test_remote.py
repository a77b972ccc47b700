"""Candidates measured on devices that a tracker lends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tvm
from tvm import auto_scheduler, autotvm, rpc, te, tir
from tvm.autotvm.measure.measure import create_measure_batch
from tvm.rpc.tracker import Tracker
from tvm.runtime import _lib
from tvm.tuning.errors import MeasureErrorNo

PROGRAM = Path(_lib.find_library()).with_name("tvm_rpc_server")
KINDS = ["fine", "crash", "endless", "refused", "wrong", "fine again", "fine at last"]


@autotvm.template("test/remote")
def remote_copy(n: int):
    """A copy; some configurations do something else."""
    a = te.placeholder((n,), name="a")
    cfg = autotvm.get_config()
    cfg.define_knob("kind", KINDS)
    kind = cfg["kind"].val
    if kind == "refused":
        cfg.raise_error("this one is not wanted")
    b = te.extern((n,), [a], lambda ins, outs: body(kind, ins[0], outs[0]), name="b", dtype="float32")
    cfg.add_flop(n)
    return te.create_schedule(b.op), [a, b]


def body(kind: str, a, b):
    ib = tir.ir_builder.create()
    src, dst = ib.buffer_ptr(a), ib.buffer_ptr(b)
    if kind == "endless":
        with ib.while_loop(dst[0] < 5.0):
            # It sleeps, and so takes no processor time from other tests.
            ib.emit(tir.call_extern("int32", "usleep", 1000))
            dst[0] = 0.0
    with ib.for_range(0, a.shape[0]) as i:
        dst[i + (1 << 40) if kind == "crash" else i] = src[i] + (1.0 if kind == "wrong" else 0.0)
    return ib.get()


@auto_scheduler.register_workload
def remote_matmul(n: int):
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


@pytest.fixture(autouse=True)
def no_secret(monkeypatch):
    monkeypatch.delenv("TVM_RPC_SECRET", raising=False)
    monkeypatch.delenv("TVM_RPC_SECRET_FILE", raising=False)


@pytest.fixture(scope="module")
def tracker():
    """A tracker that lends two devices of the kind 'board', which only measure."""
    made = Tracker(port=0, silent=True)
    words = [PROGRAM, "--silent", "--measure-only", "--port", "0", "--key", "board"]
    words += ["--tracker", f"127.0.0.1:{made.port}"]
    servers = [subprocess.Popen(words) for _ in range(2)]
    rpc.connect_tracker("127.0.0.1", made.port).request("board").close()  # there is one
    yield made
    for server in servers:
        server.terminate()
        server.wait(60)
    made.terminate()


@pytest.mark.slow("measures candidates in worker processes over RPC")
def test_templates_are_measured_and_the_bad_ones_cost_themselves_only(tracker):
    task = autotvm.task.create("test/remote", args=(64,), target="llvm")
    runner = autotvm.RPCRunner(
        "board", "127.0.0.1", tracker.port, n_parallel=2, number=2, repeat=2, timeout=15, cooldown_interval=0
    )
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=60), runner=runner)
    batch = create_measure_batch(task, option)
    runner.verify = True
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(index)) for index in range(len(KINDS))]
    results = dict(zip(KINDS, batch(inputs)))
    assert {name: MeasureErrorNo(result.error_no).name for name, result in results.items()} == {
        "fine": "NO_ERROR",
        "crash": "RUNTIME_DEVICE",
        "endless": "RUN_TIMEOUT",
        "refused": "INSTANTIATION_ERROR",
        "wrong": "WRONG_ANSWER",
        "fine again": "NO_ERROR",
        "fine at last": "NO_ERROR",
    }
    assert all(cost > 0 for cost in results["fine"].costs) and len(results["fine"].costs) == 2
    assert "was killed" in str(results["crash"].costs[0])


def test_states_of_the_auto_scheduler_are_measured(tracker):
    task = auto_scheduler.SearchTask(func=remote_matmul, args=(16,), target="llvm")
    runner = auto_scheduler.RPCRunner(
        "board", "127.0.0.1", tracker.port, n_parallel=2, number=1, min_repeat_ms=0, timeout=60
    )
    inputs = [auto_scheduler.MeasureInput(task, task.compute_dag.init_state)] * 3
    results = runner.run(inputs, auto_scheduler.LocalBuilder(timeout=60).build(inputs))
    assert [result.error_no for result in results] == [0, 0, 0] and all(r.mean_cost > 0 for r in results)


def test_a_device_that_is_not_there_is_refused_in_words(tracker):
    task = autotvm.task.create("test/remote", args=(64,), target="llvm")
    runner = autotvm.RPCRunner("phone", "127.0.0.1", tracker.port)
    with pytest.raises(tvm.TVMError, match="has no device 'phone'; its devices are board"):
        runner.set_task(task)
    with pytest.raises(tvm.TVMError, match="cannot connect to"):
        auto_scheduler.RPCRunner("phone", "127.0.0.1", 1)


def test_a_session_can_be_asked_of_a_tracker_by_its_environment(tracker, monkeypatch):
    monkeypatch.setenv("TVM_TRACKER_HOST", "127.0.0.1")
    monkeypatch.setenv("TVM_TRACKER_PORT", str(tracker.port))
    remote = autotvm.measure.request_remote("board")
    assert remote.cpu().exist
    remote.close()


def test_a_candidate_whose_device_goes_is_measured_on_another(tracker):
    """The first server dies in the middle of its session; the tracker's others are still there."""
    from tvm.tuning import remote as measuring

    words = [PROGRAM, "--silent", "--port", "0", "--key", "mortal", "--tracker", f"127.0.0.1:{tracker.port}"]
    servers = [subprocess.Popen(words) for _ in range(2)]
    rpc.connect_tracker("127.0.0.1", tracker.port).request("mortal").close()
    task = autotvm.task.create("test/remote", args=(64,), target="llvm")
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(0))]
    built = autotvm.LocalBuilder(timeout=60).build(inputs)
    runner = autotvm.RPCRunner("mortal", "127.0.0.1", tracker.port, number=1, repeat=1, cooldown_interval=0)
    killed = []
    original = measuring.RemoteDevices.session

    def session(self):
        made = original(self)
        if not killed:
            killed.append(made)
            made.close()
        return made

    measuring.RemoteDevices.session = session
    try:
        (result,) = runner.run(inputs, built)
    finally:
        measuring.RemoteDevices.session = original
    assert killed and result.error_no == 0
    for server in servers:
        server.terminate()
        server.wait(60)
