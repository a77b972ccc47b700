"""Models as plain C: they compile without warnings and give the results of the graph executor, bit for bit."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

import tvm
from tests.relay import random_exact_graphs, random_graphs
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.memory_pools import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tvm.relay import testing
from tvm.relay.backend import Executor, Runtime
from tvm.runtime import _lib
from tvm.target import Target
from tvm.testing.aot_program import Program

CRT = Runtime("crt")
INTERFACES = {
    "c": {"interface-api": "c", "unpacked-api": True},
    "packed": {},
    "packed, main of pointers": {"unpacked-api": True},
}


def compiled(mod, target="c", name="m", options=None, **more):
    executor = Executor("aot", INTERFACES["c"] if options is None else options)
    return relay.build(mod, target, executor=executor, runtime=CRT, mod_name=name, **more)


def reference(mod, values: dict, target: str, params=None) -> list[np.ndarray]:
    """The outputs of the graph executor with IEEE arithmetic, on one thread."""
    lib = relay.build(mod, f"{target} -num-cores=1", params=params)
    runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    runner.flush_denormals(False)
    runner.run(**values)
    return [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]


def check(mod, values: dict, folder, target="c", options=None, params=None, **pools) -> Program:
    """The C program gives the bits of the graph executor."""
    program = Program([compiled(mod, target, "m", options, params=params, **pools).plain_model], folder)
    program.build()
    for a, b in zip(reference(mod, values, target, params), program.run("m", values), strict=True):
        np.testing.assert_array_equal(a, b)
    return program


def network() -> tvm.IRModule:
    """A small convolutional network with a padded input."""
    rng = np.random.default_rng(0)

    def constant(*shape):
        return relay.const(rng.normal(size=shape).astype("float32"))

    x = relay.var("x", shape=(1, 3, 10, 10))
    y = relay.nn.conv2d(x, constant(8, 3, 3, 3), padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = relay.nn.max_pool2d(relay.nn.relu(relay.nn.bias_add(y, constant(8))), (2, 2), (2, 2))
    return tvm.IRModule.from_expr(relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(y), constant(10, 200))))


VALUES = {"x": np.random.default_rng(1).normal(size=(1, 3, 10, 10)).astype("float32")}


@pytest.mark.parametrize("target", ["c", "llvm"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_interfaces(interface, target, tmp_path):
    check(network(), VALUES, tmp_path, target, INTERFACES[interface])


@pytest.mark.parametrize("interface", ["c", "packed"])
def test_pools_of_the_caller_and_of_constants(interface, tmp_path):
    target = Target("c")
    small = PoolInfoProperties(size_hint_bytes=4000)
    workspaces = WorkspaceMemoryPools([WorkspacePoolInfo("dtcm", [target], small), WorkspacePoolInfo("sram", [target])])
    constants = ConstantMemoryPools([ConstantPoolInfo("flash", [target])])
    program = check(network(), VALUES, tmp_path, "c", INTERFACES[interface], workspace_memory_pools=workspaces,
                    constant_memory_pools=constants)  # fmt: skip
    model = program.models[0]
    assert [pool.name for pool in model.interface.memory] == ["flash", "dtcm", "sram"]
    assert "static uint8_t" not in model.text
    if model.header:
        assert "#define TVMGEN_M_DTCM_WORKSPACE_POOL_SIZE 4000" in model.header
        assert "#define TVMGEN_M_FLASH_CONSTANT_POOL_SIZE " in model.header


@pytest.mark.slow("compiles several models and their C text")
def test_random_graphs(seed, tmp_path):
    models, wanted = [], {}
    for case in range(6):
        number = seed * 1000 + case
        mod, given = random_graphs.graph(number)
        values = dict(zip((p.name_hint for p in mod["main"].params), given))
        wanted[f"g{case}"] = number, values, reference(mod, values, "c")
        models.append(compiled(mod, "c", f"g{case}").plain_model)
    program = Program(models, tmp_path)
    program.build()
    for name, (number, values, outputs) in wanted.items():
        for a, b in zip(outputs, program.run(name, values), strict=True):
            np.testing.assert_array_equal(a, b, f"random graph {number}")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bfloat16"])
def test_random_quantized_graphs(dtype, seed, tmp_path):
    mod, values, wanted = random_exact_graphs.graph(seed * 1000, dtype)
    program = Program([compiled(mod).plain_model], tmp_path)
    program.build()
    found = program.run("m", values)[0]
    np.testing.assert_array_equal(found, np.asarray(wanted).astype(found.dtype), f"random graph {seed * 1000}")


def test_a_perceptron_with_weights_by_name(tmp_path):
    mod, params = testing.mlp.get_workload(2)
    values = {"data": np.random.default_rng(3).normal(size=(2, 1, 28, 28)).astype("float32")}
    check(mod, values, tmp_path, params=params)


def test_the_text_is_plain_and_readable():
    text = compiled(network(), "c", "net").plain_model.text
    assert "/* nn.conv2d, nn.bias_add, nn.relu */\nstatic void tvmgen_net_fused_nn_conv2d_nn_bias_add_nn_relu(" in text
    assert "static const float constant_1[216] TVM_ALIGNED(16) = {" in text
    assert "for (int32_t rc = 0; rc < 3; ++rc) {" in text and "(const float* restrict p0, " in text
    assert set(re.findall(r"#include <(.*)>", text)) == {"math.h", "stdint.h", "string.h"}
    for word in ("malloc", "TVMBackend", "__tvm_runtime", "pthread", "__builtin", "printf"):
        assert word not in text


def test_the_header_describes_the_interface(tmp_path):
    header = compiled(network(), "c", "my.net").plain_model.header
    assert "#define TVMGEN_MY_NET_X_SIZE 1200\n" in header and "#define TVMGEN_MY_NET_OUTPUT_SIZE 40\n" in header
    assert re.search(r"#define TVMGEN_MY_NET_WORKSPACE_SIZE [1-9]\d+\n", header)
    assert (
        "int32_t tvmgen_my_net_run(struct tvmgen_my_net_inputs* inputs, struct tvmgen_my_net_outputs* outputs);"
        in header
    )


def test_names_that_c_reserves_are_changed(tmp_path):
    a, b = relay.var("int", shape=(4,)), relay.var("x:0", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([a, b], a * b))
    program = check(mod, {"int": np.arange(4, dtype="float32"), "x:0": np.ones(4, "float32")}, tmp_path)
    assert "void* int_;" in program.models[0].header and "void* x_0;" in program.models[0].header


def test_a_workspace_of_varying_size_is_as_large_as_its_bound(tmp_path):
    x, n = relay.var("x", shape=(2, 300)), relay.var("n", shape=(1,), dtype="int64")
    picked = relay.take(relay.annotation.stop_fusion(relay.exp(x)), n, axis=0)
    check(
        tvm.IRModule.from_expr(relay.Function([x, n], relay.nn.softmax(picked))),
        {"x": np.random.default_rng(0).normal(size=(2, 300)).astype("float32"), "n": np.array([1])},
        tmp_path,
    )


def test_a_packed_entry_checks_its_arguments(tmp_path):
    path = tmp_path / "net.so"
    compiled(network(), "c", "net", {}).export_library(path)
    run = tvm.runtime.load_module(path)["tvmgen_net_run"]
    output = tvm.nd.empty((1, 10))
    run(tvm.nd.array(VALUES["x"]), output)
    np.testing.assert_array_equal(output.numpy(), reference(network(), VALUES, "c")[0])
    types = (((1, 3, 10, 9), "float32"), ((1, 3, 10, 10), "int32"), ((3, 10, 10), "float32"))
    for wrong in (*((tvm.nd.empty(*t), output) for t in types), (output,)):
        # The code has no messages; an earlier one would be reported.
        _lib.lib.TVMAPISetLastError(b"")
        with pytest.raises(tvm.TVMError, match="the call failed without a message"):
            run(*wrong)


def test_a_library_of_the_c_interface_is_called_without_tvm(tmp_path):
    path = tmp_path / "net.so"
    compiled(network(), "llvm", "net").export_library(path)
    library = ctypes.CDLL(str(path))
    given, output = VALUES["x"].copy(), np.zeros((1, 10), "float32")
    inputs, outputs = (ctypes.c_void_p * 1)(given.ctypes.data), (ctypes.c_void_p * 1)(output.ctypes.data)
    assert library.tvmgen_net_run(inputs, outputs) == 0
    np.testing.assert_array_equal(output, reference(network(), VALUES, "llvm")[0])


def test_values_that_no_statement_uses_are_left_out(tmp_path):
    x, v = relay.var("x", shape=(4, 5)), relay.var("v", shape=(2, 5))
    bounds = [relay.const(np.array(b, "int64")) for b in ([1, 0], [3, 5], [1, 1])]
    mod = tvm.IRModule.from_expr(relay.Function([x, v], relay.strided_set(x, v, *bounds)))
    check(mod, {"x": np.ones((4, 5), "float32"), "v": np.zeros((2, 5), "float32")}, tmp_path)
