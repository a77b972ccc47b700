"""Models compiled ahead of time for the runtime give the results of the graph executor, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay import random_exact_graphs, random_graphs
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import testing
from tvm.relay.backend import Executor
from tvm.relay.backend.executor_factory import AOTExecutorFactoryModule
from tvm.runtime.executor import AotModule

AOT = Executor("aot")


def run(lib, values: dict) -> list[np.ndarray]:
    """The outputs of the model of a factory."""
    runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    runner.run(**values)
    return [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]


def inputs_of(mod: tvm.IRModule, params: dict, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    given = [p for p in mod["main"].params if p.name_hint not in params]
    shapes = {p.name_hint: [int(d) for d in p.type_annotation.shape] for p in given}
    return {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def assert_same(mod: tvm.IRModule, values: dict, target: str = "llvm", params: dict | None = None) -> None:
    """The graph executor and the ahead-of-time executor give the same bits."""
    wanted = run(relay.build(mod, target, params=params), values)
    found = run(relay.build(mod, target, params=params, executor=AOT), values)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_perceptron(target):
    mod, params = testing.mlp.get_workload(3)
    assert_same(mod, inputs_of(mod, params, 0), target, params)


@pytest.mark.slow("compiles a convolutional network twice")
def test_a_convolutional_network():
    mod, params = testing.mobilenet.get_workload(1, image_shape=(3, 64, 64))
    assert_same(mod, inputs_of(mod, params, 1), "llvm", params)


def named(mod: tvm.IRModule, values: list) -> dict:
    """Values of the parameters of main, by name."""
    return {p.name_hint: v for p, v in zip(mod["main"].params, values)}


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_random_graphs(case, target, seed):
    number = seed * 1000 + case
    mod, values = random_graphs.graph(number)
    mod = tvm.IRModule({"main": relay.Function(mod["main"].params, mod["main"].body)})
    print(f"random graph {number}")
    assert_same(mod, named(mod, list(values)), target)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
def test_random_quantized_graphs(dtype, seed):
    mod, inputs, _ = random_exact_graphs.graph(seed * 1000, dtype)
    print(f"random graph {seed * 1000}")
    assert_same(mod, inputs)


def outputs_of(body) -> tvm.IRModule:
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


X = np.arange(128, dtype="float32").reshape(2, 64)


def test_outputs_that_no_kernel_writes_are_copied():
    x = relay.var("x", shape=(2, 64))
    total = relay.exp(x)
    fields = [x, total, total, relay.reshape(total, (64, 2)), relay.const(X), relay.reshape(x, (128,))]
    mod = outputs_of(relay.Tuple(fields))
    assert_same(mod, {"x": X / 128})


def test_views_parts_of_a_concatenation_and_results_in_place():
    x, y = relay.var("x", shape=(1, 64)), relay.var("y", shape=(1, 32))
    with_bias = relay.annotation.stop_fusion(relay.exp(x))
    parts = relay.concatenate([with_bias, relay.annotation.stop_fusion(relay.tanh(y))], 1)
    body = relay.annotation.stop_fusion(relay.negative(relay.annotation.stop_fusion(relay.reshape(parts, (96,)))))
    assert_same(outputs_of(relay.Tuple([body, relay.sum(parts)])), {"x": X[:1] / 100, "y": X[1:, :32] / 100})


def test_tensors_without_elements():
    x = relay.var("x", shape=(0, 3))
    assert_same(outputs_of(relay.Tuple([relay.exp(x), relay.sum(x)])), {"x": np.zeros((0, 3), "float32")})


@pytest.fixture(scope="module")
def perceptron():
    mod, params = testing.mlp.get_workload(1)
    return relay.build(mod, "llvm", params=params, executor=AOT, mod_name="my.model"), inputs_of(mod, params, 2)


@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_a_library_is_saved_and_loaded(perceptron, suffix, tmp_path):
    lib, values = perceptron
    assert isinstance(lib, AOTExecutorFactoryModule)
    path = tmp_path / f"model.{suffix}"
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    np.testing.assert_array_equal(
        run({"default": loaded["my.model"]}, values)[0], run({"default": lib["my.model"]}, values)[0]
    )


def test_executors_of_one_library_are_independent(perceptron):
    lib, values = perceptron
    first, second = (graph_executor.GraphModule(lib["my.model"](tvm.cpu())) for _ in range(2))
    first.run(**values)
    wanted = first.get_output(0).numpy()
    second.run(**{name: value + 1 for name, value in values.items()})
    np.testing.assert_array_equal(first.get_output(0).numpy(), wanted)
    assert not np.array_equal(second.get_output(0).numpy(), wanted)


def test_the_library_has_one_function(perceptron, tmp_path):
    lib, _ = perceptron
    names = [v.name_hint for v in lib.lowered_ir_mods[lib.target].get_global_vars()]
    entry = "tvmgen_my_model___tvm_main__"
    assert entry in names and lib.get_lib().implements_function(entry)
    assert not any(lib.get_lib().implements_function(name) for name in names if name != entry)
    lib.export_library(tmp_path / "model.so")
    (loaded,) = tvm.runtime.load_module(tmp_path / "model.so").imported_modules
    assert loaded.implements_function(entry)
    assert not any(loaded.implements_function(name) for name in names if name != entry)


def test_memory_and_interface(perceptron):
    lib, _ = perceptron
    metadata = lib.executor_codegen_metadata
    (pool,) = metadata.pool_inputs.values()
    assert lib.function_metadata["__tvm_main__"].workspace_sizes[lib.target] == pool.allocated_size > 0
    assert (metadata.input_names, metadata.outputs, metadata.workspace_alignment) == (["data"], ["output"], 64)
    assert lib.get_devices() == [] and lib.get_executor_config() is metadata
    assert {kernel.name for kernel in lib.kernels} < set(lib.function_metadata)


def test_the_weights_are_no_inputs(perceptron):
    lib, values = perceptron
    runner = AotModule(lib["my.model"](tvm.cpu()))
    assert [runner.get_input_name(i) for i in range(runner.get_num_inputs())] == ["data"]
    runner.run(**values)
    wanted = run({"default": lib["my.model"]}, values)[0]
    np.testing.assert_array_equal(runner.get_output(0).numpy(), wanted)
