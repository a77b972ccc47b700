"""Denormal numbers: executors take them for zero, kernels called directly keep them, and nobody else notices."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import tvm
from tvm import relay, runtime, te
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor
from tvm.error import TVMError
from tvm.runtime import module as module_api
from tvm.runtime.measure import worker as measure_worker

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the processor cannot flush")

TINY = np.float32(1e-40)
COUNT = 1 << 18  # enough for a parallel kernel


@pytest.fixture(scope="module")
def lib():
    x = relay.var("x", shape=(COUNT,))
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")


def caller_keeps_denormals() -> bool:
    return bool(TINY * np.float32(2) > 0)


def run(executor) -> np.ndarray:
    executor.run(x=np.full(COUNT, TINY, "float32"))
    assert caller_keeps_denormals()
    return executor.get_output(0).numpy()


def test_runs_flush_on_every_thread_unless_told_not_to(lib):
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    assert executor.flush_denormals()
    for _ in range(20):
        assert not run(executor).any()
    assert executor.flush_denormals(False) is False
    for _ in range(20):
        np.testing.assert_array_equal(run(executor), np.full(COUNT, 2 * TINY, "float32"))
    assert executor.flush_denormals(True) is True
    assert not run(executor).any()


@pytest.mark.parametrize("text, flushes", [("0", False), ("1", True), ("", True)])
def test_the_environment_decides_when_an_executor_is_made(lib, monkeypatch, text, flushes):
    monkeypatch.setenv("TVM_FLUSH_DENORMALS", text)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    assert executor.flush_denormals() is flushes
    assert run(executor).any() != flushes
    with runtime.flush_denormals():
        assert caller_keeps_denormals() != flushes


def test_another_word_in_the_environment_is_refused(lib, monkeypatch):
    monkeypatch.setenv("TVM_FLUSH_DENORMALS", "yes")
    with pytest.raises(TVMError, match="TVM_FLUSH_DENORMALS must be 0 or 1, got 'yes'"):
        lib["default"](tvm.cpu())
    with pytest.raises(TVMError, match="must be 0 or 1"), runtime.flush_denormals():
        pass


def test_single_nodes_and_profiles_flush_too(lib):
    executor = debug_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu())
    executor.set_input("x", np.full(COUNT, TINY, "float32"))
    executor.execute_node(1)
    assert not executor.get_node_output(1).numpy().any()
    executor.module["profile_run"]()
    assert not executor.get_output(0).numpy().any() and caller_keeps_denormals()


def direct_kernel():
    a = te.placeholder((COUNT,), name="a")
    b = te.compute((COUNT,), lambda i: a[i] + a[i], name="b")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=4096)
    s[b].parallel(outer)
    return tvm.build(s, [a, b], "llvm")


def test_a_kernel_called_directly_keeps_denormals_on_every_thread(lib):
    kernel = direct_kernel()
    a, b = tvm.nd.array(np.full(COUNT, TINY, "float32")), tvm.nd.empty((COUNT,))
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for _ in range(20):
        run(executor)  # leaves the workers flushing, if anything does
        kernel(a, b)
        np.testing.assert_array_equal(b.numpy(), np.full(COUNT, 2 * TINY, "float32"))
    with runtime.flush_denormals(True):
        kernel(a, b)
    assert not b.numpy().any() and caller_keeps_denormals()


def test_functions_of_python_in_a_run_compute_as_outside_and_errors_restore_the_state():
    seen = []

    def note(out):
        seen.append(caller_keeps_denormals())
        if len(seen) > 1:
            raise ValueError("enough")

    library = module_api.from_functions({"note": runtime.convert(note)})
    graph = (
        '{"nodes": [{"op": "tvm_op", "name": "n", "attrs": {"func_name": "note"}, "inputs": []}], "arg_nodes": [],'
        '"heads": [[0, 0, 0]], "node_row_ptr": [0, 1], "attrs": {"dltype": ["list_str", ["float32"]],'
        '"storage_id": ["list_int", [0]], "shape": ["list_shape", [[2]]]}}'
    )
    executor = graph_executor.create(graph, library, tvm.cpu())
    executor.run()
    with pytest.raises(ValueError, match="enough"):
        executor.run()
    assert seen == [True, True] and caller_keeps_denormals()


def test_candidates_are_measured_as_executors_run_them():
    seen = []
    module = module_api.from_functions({"f": runtime.convert(lambda *_: seen.append(caller_keeps_denormals()))})
    message = measure_worker.request([[[4], "float32"]], tvm.cpu().device_type, "f", number=1, repeat=1)
    measure_worker.measure(module, message)
    assert seen and not any(seen) and caller_keeps_denormals()
