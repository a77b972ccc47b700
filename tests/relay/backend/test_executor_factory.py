"""A compiled model as one file: the factory that relay.build returns, written and read back."""

from __future__ import annotations

import gc
import json
import sys

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.error import TVMError


@pytest.fixture(scope="module")
def model():
    """dense + bias + relu, and its weight."""
    weight = np.random.default_rng(0).normal(size=(5, 7)).astype("float32")
    x, w = relay.var("x", shape=(2, 7)), relay.var("w", shape=(5, 7))
    body = relay.nn.relu(relay.add(relay.nn.dense(x, w), relay.const(np.float32(0.25))))
    # At level 0 nothing is folded, so the weight stays a parameter of the graph.
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, w], body)), "llvm", params={"w": weight})
    return lib, weight


def check(executor, weight) -> None:
    value = np.random.default_rng(1).normal(size=(2, 7)).astype("float32")
    executor.set_input("x", value)
    executor.run()
    np.testing.assert_allclose(
        executor.get_output(0).numpy(), np.maximum(value @ weight.T + 0.25, 0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_library_holds_graph_and_parameters(model, tmp_path, suffix):
    lib, weight = model
    path = str(tmp_path / f"deploy.{suffix}")
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    assert loaded.type_key == "GraphExecutorFactory"
    check(graph_executor.GraphModule(loaded["default"](tvm.cpu())), weight)
    assert json.loads(loaded["get_graph_json"]()) == json.loads(lib.get_graph_json())
    params = loaded["get_graph_params"]()
    assert {k: v.shape for k, v in params.items()} == {k: tuple(v.shape) for k, v in lib.get_params().items()}


def test_executor_and_functions_outlive_the_library_object(model, tmp_path):
    lib, weight = model
    path = str(tmp_path / "deploy.so")
    lib.export_library(path)
    check(graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu())), weight)
    run = tvm.runtime.load_module(path)["default"](tvm.cpu())["run"]
    run()


def test_removed_parameters_are_asked_for(model):
    lib, weight = model
    bare = lib["remove_params"]()
    assert bare["get_graph_params"]() == {}
    executor = graph_executor.GraphModule(bare["default"](tvm.cpu()))
    executor.load_params(tvm.runtime.save_param_dict(lib.get_params()))
    check(executor, weight)


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_a_model_without_its_parameters_is_exported(model, tmp_path, suffix):
    lib, weight = model
    path = str(tmp_path / f"bare{suffix}")
    lib["remove_params"]().export_library(path)
    loaded = tvm.runtime.load_module(path)
    assert loaded["get_graph_params"]() == {} and loaded["get_graph_json"]() == lib.get_graph_json()
    executor = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    executor.load_params(tvm.runtime.save_param_dict(lib.get_params()))
    check(executor, weight)
    # The factory as a module of the runtime is exported whole.
    lib.module.export_library(path)
    check(graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu())), weight)


def test_debug_create_names_the_model(model):
    lib, weight = model
    check(graph_executor.GraphModule(lib["debug_create"]("default", tvm.cpu())), weight)
    with pytest.raises(TVMError, match="name of the model, 'default'"):
        lib["debug_create"]("other", tvm.cpu())
    with pytest.raises(TVMError, match="needs at least one device"):
        lib["default"]()


def test_export_is_the_same_twice(model, tmp_path):
    lib, _ = model
    for name in ("a.tar", "b.tar"):
        lib.export_library(str(tmp_path / name))
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_other_name_of_the_model(tmp_path):
    x = relay.var("x", shape=(3,))
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm", mod_name="small")
    lib.export_library(str(tmp_path / "small.so"))
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(tmp_path / "small.so"))["small"](tvm.cpu()))
    executor.run(x=np.zeros(3, "float32"))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), np.ones(3, "float32"))


def test_unpacks_as_in_older_guides(model):
    lib, weight = model
    with pytest.warns(DeprecationWarning):
        graph, library, params = lib
    with pytest.warns(DeprecationWarning):
        from tvm.contrib import graph_runtime

        executor = graph_runtime.create(graph, library, tvm.cpu(0))
    executor.set_input(**params)
    check(executor, weight)
    assert lib.get_devices() == []


@pytest.mark.slow("builds many graphs")
def test_building_many_graphs_keeps_nothing_of_them(monkeypatch):
    monkeypatch.setenv("TVM_NO_CACHE", "1")

    def build(size: int) -> None:
        x = relay.var("x", shape=(size,))
        relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + relay.const(float(size)))), "llvm")

    for size in range(5000, 5010):
        build(size)
    gc.collect()
    before = sys.getallocatedblocks()
    for size in range(6000, 6020):
        build(size)
    gc.collect()
    # A graph of three nodes takes thousands of blocks while it is built.
    assert sys.getallocatedblocks() - before < 20 * 100


def test_graph_json_and_executor_are_attributes(model):
    lib, weight = model
    assert lib.graph_json == lib.get_graph_json() == lib.get_executor_config()
    check_lib = graph_executor.create(lib.graph_json, lib.lib, tvm.cpu(0))
    check_lib.set_input(**lib.params)
    check(check_lib, weight)
    assert lib.executor == relay.backend.Executor("graph") and lib.libmod_name == "default"


def test_iter_cnt_counts_the_parts_that_were_taken(model):
    lib, _ = model
    with pytest.warns(DeprecationWarning):
        parts = iter(lib)
    assert parts is lib and lib.iter_cnt == 0
    assert next(parts) == lib.graph_json and lib.iter_cnt == 1
    assert next(parts) is lib.lib and next(parts) is lib.params
    assert next(parts, None) is None
    with pytest.warns(DeprecationWarning):
        assert len(list(lib)) == 3


def test_function_metadata_describes_the_model_and_its_kernels(model):
    lib, _ = model
    found = lib.function_metadata
    main = found["__tvm_main__"]
    ((target, io),) = main.io_sizes.items()
    assert str(target).split()[0] == "llvm" and io == (2 * 7 + 2 * 5) * 4
    # The weight; the scalar 0.25 is part of its kernel.
    assert main.constant_sizes[target] == 5 * 7 * 4
    assert main.relay_primfuncs[target] is lib.ir_mod["main"] and not main.tir_primfuncs
    kernels = {node["attrs"]["func_name"] for node in json.loads(lib.graph_json)["nodes"] if node["op"] == "tvm_op"}
    assert set(found) - {"__tvm_main__"} == kernels
    dense = next(info for name, info in found.items() if "dense" in name)
    assert dense.io_sizes[target] == (2 * 7 + 5 * 7 + 2 * 5) * 4
    assert isinstance(dense.tir_primfuncs[target], tvm.tir.PrimFunc)
    assert isinstance(dense.relay_primfuncs[target], relay.Function)


def test_workspace_of_the_model_is_the_memory_between_kernels():
    x = relay.var("x", shape=(3, 5))
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(tvm.IRModule.from_expr(relay.exp(relay.tanh(x))), "llvm")
    (size,) = lib.function_metadata["__tvm_main__"].workspace_sizes.values()
    assert 60 <= size <= 64
