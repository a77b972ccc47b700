"""One model over several devices: right results, with the copies counted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvm
from tests.cuda_emulator import REAL
from tests.device_library import build_fake_device
from tests.relay import two_devices
from tvm import relay
from tvm.contrib import graph_executor
from tvm.testing import requires_cuda, requires_opencl

on = relay.annotation.on_device


@pytest.mark.slow("builds a library of devices and compiles many models for it")
def test_models_run_on_the_cpu_and_a_device_of_a_library(tmp_path, seed):
    """In a process of its own, because a device stays registered."""
    command = [sys.executable, "-m", "tests.relay.two_devices", build_fake_device(tmp_path), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("name", two_devices.MODELS)
@requires_opencl
def test_models_run_on_the_cpu_and_opencl(name):
    two_devices.check_model(name, tvm.opencl(), "opencl")


@pytest.mark.parametrize("case", range(6))
@requires_opencl
def test_random_graphs_run_on_the_cpu_and_opencl(case, seed):
    two_devices.check_random(seed * 1000 + 900 + case, tvm.opencl(), "opencl")


@pytest.mark.parametrize("name", two_devices.MODELS)
@requires_cuda
def test_models_run_on_the_cpu_and_cuda(name):
    two_devices.check_model(name, tvm.cuda(), "cuda")


@pytest.mark.parametrize("case", range(6))
@requires_cuda
def test_random_graphs_run_on_the_cpu_and_cuda(case, seed):
    two_devices.check_random(seed * 1000 + 800 + case, tvm.cuda(), "cuda")


@requires_cuda
def test_a_debugger_reports_the_kernels_of_the_cpu_and_cuda():
    two_devices.check_debugger(tvm.cuda(), tvm.target.Target("cuda"))


@pytest.mark.skipif(not REAL, reason="a network takes a GPU (TVM_CUDA_REAL=1): the emulator is too slow")
@requires_cuda
def test_a_network_runs_on_the_cpu_and_cuda(tmp_path):
    two_devices.check_network(tvm.cuda(), "cuda", tmp_path)


@pytest.mark.parametrize(
    "kind", [pytest.param("opencl", marks=requires_opencl.marks()), pytest.param("cuda", marks=requires_cuda.marks())]
)
def test_an_exported_model_runs_over_two_devices(kind, tmp_path):
    second = tvm.device(kind)
    mod = two_devices.image_model(kind)
    lib = relay.build(mod, target={tvm.cpu(): "llvm", second: kind})
    lib.export_library(str(tmp_path / "model.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "model.so"))
    x = np.random.default_rng(0).standard_normal((1, 8, 9, 9)).astype("float32")
    outputs = []
    for made in (lib, loaded):
        run = graph_executor.GraphModule(made["default"](second, tvm.cpu()))
        run.run(x=x)
        outputs.append(run.get_output(0).numpy())
        assert [run.get_output(i).device.device_type for i in range(2)] == [second.device_type, 1]
        assert run.benchmark(tvm.cpu(), repeat=1, number=1).min > 0
    np.testing.assert_array_equal(*outputs)
    with pytest.raises(tvm.TVMError, match=f"stores values on {kind}, but no device of this type was given"):
        loaded["default"](tvm.cpu())


def build(body, target, **options):
    return relay.build(tvm.IRModule.from_expr(body), target=target, **options)


def test_a_model_without_marks_is_that_of_its_default_target():
    x = relay.var("x", shape=(3, 5))
    body = relay.exp(x)
    plain = build(body, "llvm").get_graph_json()
    for target in ({"cpu": "llvm"}, {"cpu": "llvm", "opencl": "opencl"}, ["opencl", "llvm"]):
        assert build(body, target).get_graph_json() == plain
    assert build(on(body, "cpu"), {"cpu": "llvm", "opencl": "opencl"}).get_graph_json() == plain
    assert build(on(body, "cpu"), "llvm").get_graph_json() == plain
    with tvm.transform.PassContext(config={"relay.fallback_device_type": 4}):
        assert '"device_index"' in (text := build(body, {"cpu": "llvm", "opencl": "opencl"}).get_graph_json())
        assert text == build(body, "opencl").get_graph_json() != plain


def test_wrong_targets_are_refused():
    x = relay.var("x", shape=(3,))
    marked = relay.exp(on(relay.tanh(x), "cuda"))
    with pytest.raises(tvm.TVMError, match=r"on_device annotation of the model requires cuda, but there is no target"):
        build(marked, "llvm")
    with pytest.raises(tvm.TVMError, match="target 'opencl .*' does not run on device cuda"):
        build(marked, {"cpu": "llvm", "cuda": "opencl"})
    with pytest.raises(tvm.TVMError, match="have the same device type; give one target for each"):
        build(marked, ["llvm", "llvm -mcpu=generic"])
    with pytest.raises(tvm.TVMError, match="there is no target; pass target="):
        build(marked, [])
    with pytest.raises(tvm.TVMError, match="none of the targets runs on the default device type 1"):
        build(marked, ["opencl", "cuda -arch=sm_80"])
    with pytest.raises(tvm.TVMError, match="expected one target, got 2"):
        relay.optimize(tvm.IRModule.from_expr(x), ["llvm", "opencl"])


def test_the_devices_of_an_executor_are_one_of_each_kind():
    lib = build(relay.exp(relay.var("x", shape=(3,))), "llvm")
    with pytest.raises(tvm.TVMError, match="two devices of type cpu were given"):
        lib["default"](tvm.cpu(), tvm.cpu(1))
    with pytest.raises(ValueError, match="the list of devices is empty"):
        graph_executor.create(lib.get_graph_json(), lib.get_lib(), [])
    run = graph_executor.create(lib.get_graph_json(), lib.get_lib(), [tvm.cpu()])
    run.run(x=np.zeros(3, "float32"))
    assert run.get_num_copies() == 0 and (run.get_output(0).numpy() == 1).all()


def test_storage_of_different_devices_is_not_shared(seed):
    """The plan of a graph that changes devices often."""
    mod = relay.transform.InferType()(two_devices.ping_pong_model("opencl"))
    plan = relay.build(mod, target={"cpu": "llvm", "opencl": "opencl"}).memory_plan
    assert set(plan.devices) == {1, 4}
    assert all(plan.devices[entry.storage] == entry.device for entry in plan.entries)
    shared = {s: [e for e in plan.entries if e.storage == s] for s in range(len(plan.sizes))}
    assert any(len(found) > 1 for found in shared.values())
