"""Graphs of Apache TVM's tests of plain C, compiled with each valid combination of options and compared with the graph
executor."""

from __future__ import annotations

import ctypes
import re
import tarfile

import numpy as np
import pytest

import tvm
from tvm import micro, relay
from tvm.ir.memory_pools import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tvm.micro.testing.aot_test_utils import AOT_DEFAULT_RUNNER, parametrize_aot_options
from tvm.relay import testing
from tvm.relay.backend import Executor, Runtime
from tvm.testing.aot import (
    AOTTestModel,
    AOTTestRunner,
    compile_and_run,
    compile_models,
    generate_ref_data,
    run_and_check,
)

RNG = np.random.default_rng(42)


def real(*shape) -> np.ndarray:
    return RNG.uniform(size=shape).astype("float32")


def model(name: str, body, inputs=(), params=(), **more) -> AOTTestModel:
    """A model of a Relay function body; ``inputs`` and ``params`` are values by name."""
    inputs, params = dict(inputs), dict(params)
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return AOTTestModel(mod, inputs, generate_ref_data(mod, inputs, params), name=name, params=params, **more)


def two_convolutions(weights) -> tuple[tvm.IRModule, dict, dict]:
    """Two quantized convolutions with the same weights."""
    x, w = relay.var("data", shape=(1, 3, 16, 16), dtype="uint8"), relay.var("weight", shape=(3, 3, 5, 5), dtype="int8")
    attrs = {"padding": (2, 2), "channels": 3, "kernel_size": (5, 5), "out_dtype": "int32"}
    first = relay.nn.max_pool2d(relay.nn.conv2d(x, w, **attrs), (3, 3))
    body = relay.nn.max_pool2d(relay.nn.conv2d(relay.cast(first, "int8"), w, **attrs), (3, 3))
    given = {"data": np.ones((1, 3, 16, 16), "uint8")}
    return tvm.IRModule.from_expr(relay.Function([x, w], body)), given, {"weight": weights}


def convolution(name: str, groups: int, *weight_shape: int) -> AOTTestModel:
    x, w = relay.var("data", shape=(1, 8, 7, 7)), relay.var("weight", shape=(8, *weight_shape))
    body = relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1), groups=groups)
    return model(name, body, {"data": real(1, 8, 7, 7), "weight": real(8, *weight_shape)})


def graphs() -> list[AOTTestModel]:
    """The graphs, each as a model with a unique name."""
    x, y, z = relay.var("x", shape=(10, 5)), relay.var("y", shape=(10, 5)), relay.var("z", shape=())
    row, wide = relay.var("x", shape=(1, 10)), relay.var("y", shape=(1, 10))
    scalar, one = relay.var("x", "float32"), relay.const(1.0)
    chain = [scalar]
    for _ in range(4):
        chain.append(chain[-1] + one)
    nested = relay.Tuple([chain[1], relay.Tuple([relay.Tuple([chain[2], chain[3]]), chain[4]])])
    parts = relay.split(relay.var("x", shape=(6, 9)), 3).astuple()
    i = relay.var("i", shape=(), dtype="int32")
    strange = relay.var("input-x::2", "float32")
    numbers = relay.Tuple([relay.const(1), relay.const(2)])
    three = {"x": real(10, 5), "y": real(10, 5), "z": np.float32(0.3)}
    return [
        convolution("conv2d", 1, 8, 3, 3), convolution("depthwise", 8, 1, 3, 3),
        model("add_with_params", row + wide, {"y": real(1, 10)}, {"x": np.ones((1, 10), "float32")}),
        model("concatenate", relay.concatenate([x, y], 1) + z, three),
        model("nested_tuples", nested, {"x": np.float32(0.25)}),
        model("tuple_getitem", relay.TupleGetItem(numbers, 0)),
        model("identity", scalar, {"x": np.float32(1)}),
        model("add_const", relay.const(1) + relay.const(1)),
        model("multiply", x * relay.var("w", shape=(1, 5)), {"x": real(10, 5), "w": real(1, 5)}),
        model("subtract", i - relay.const(1), {"i": np.int32(1)}),
        model("tuple_output", relay.Tuple([relay.TupleGetItem(parts, 0), relay.TupleGetItem(parts, 1)]),
              {"x": real(6, 9)}),
        model("transpose", relay.transpose(x + y) + z, three),
        model("name_sanitiser", strange, {"input-x::2": np.float32(1)}),
    ]  # fmt: skip


@pytest.mark.slow("compiles fourteen graphs and their C text")
@parametrize_aot_options
def test_graphs(interface_api, use_unpacked_api, test_runner):
    mod, inputs, params = two_convolutions(RNG.integers(-9, 9, (3, 3, 5, 5)).astype("int8"))
    found = AOTTestModel(mod, inputs, generate_ref_data(mod, inputs, params), name="conv_with_params", params=params)
    models = [*graphs(), found]
    assert compile_and_run(models, test_runner, interface_api, use_unpacked_api, debug_calculated_workspaces=True)


def test_operators_that_are_not_fused_do_not_overwrite_their_inputs():
    (transpose,) = [m for m in graphs() if m.name == "transpose"]
    assert compile_and_run(transpose, AOT_DEFAULT_RUNNER, "c", True, enable_op_fusion=False)


def test_the_c_interface_requires_data_pointers():
    words = 'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) when targeting c runtime'
    with pytest.raises(tvm.TVMError, match=re.escape(words)):
        compile_and_run(graphs()[7], AOT_DEFAULT_RUNNER, "c", False)


def test_names_that_are_equal_in_c_become_unique():
    a, b, c = (relay.var(name, shape=(3,)) for name in ("input::-1", "input::-2", "input:--2"))
    found = model("clash", a + b * c, {"input::-1": real(3), "input::-2": real(3), "input:--2": real(3)})
    (compiled,) = compile_models(found, "c", True)
    members = compiled.executor_factory.plain_model.interface.members()["inputs"]
    assert len(set(members)) == 3 and run_and_check([compiled], AOT_DEFAULT_RUNNER, "c")


def test_no_function_has_a_packed_twin(tmp_path):
    (compiled,) = compile_models(graphs()[0], "packed", False)
    micro.export_model_library_format(compiled.executor_factory, tmp_path / "m.tar")
    with tarfile.open(tmp_path / "m.tar") as archive:
        texts = [archive.extractfile(m).read().decode() for m in archive if m.name.startswith("codegen/host/src")]
    names = {name for text in texts for name in re.findall(r"\btvmgen_conv2d\w*", text)}
    assert names and not [name for name in names if f"{name}_packed" in names]


@pytest.mark.parametrize("alignment", [8, 16, 32])
def test_the_alignment_of_constants(alignment):
    mod, params = testing.mlp.get_workload(1)
    (compiled,) = compile_models(AOTTestModel(mod, {}, {}, params=params), "c", True, constant_byte_alignment=alignment)
    text = compiled.executor_factory.plain_model.text
    assert set(re.findall(r"static const .* TVM_ALIGNED\((\d+)\) = {", text)) == {str(alignment)}


@pytest.mark.parametrize("names", [["test_output_a"], ["test_output_a", "test_output_b"]])
def test_outputs_have_the_names_of_the_attribute(names):
    x = relay.var("x", shape=(3,))
    outputs = [relay.exp(x), x + x][: len(names)]
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    function = relay.Function([x], body).with_attr("output_tensor_names", names)
    (compiled,) = compile_models(AOTTestModel(tvm.IRModule.from_expr(function), {}, {}), "c", True)
    plain = compiled.executor_factory.plain_model
    assert plain.interface.members()["outputs"] == names
    assert all(f"#define TVMGEN_DEFAULT_{name.upper()}_SIZE 12\n" in plain.header for name in names)
    many = function.with_attr("output_tensor_names", [*names, "more"])
    with pytest.raises(
        tvm.TVMError, match=f"the model has {len(names)} outputs, but its attribute output_tensor_names"
    ):
        compile_models(AOTTestModel(tvm.IRModule.from_expr(many), {}, {}), "c", True)


def test_a_kernel_that_can_fail_ends_the_run():
    mod, _, params = two_convolutions(np.ones((3, 3, 5, 5), "int8"))
    runtime = Runtime("crt", {"parallel-for": True})
    executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    lib = relay.build(mod, "c -num-cores=4", params=params, executor=executor, runtime=runtime)
    call = r"const int32_t (t\d*) = tvmgen_default_fused_nn_conv2d\w*\(.*\);\s+if \(\1 != 0\) {\s+return -1;"
    assert len(re.findall(call, lib.plain_model.text)) == 2


# Memory planning -----------------------------------------------------------------------------------------------------

# The workspace of Apache TVM's plan for this network, by alignment and algorithm.
APACHE_WORKSPACE = {
    (8, "greedy_by_conflicts"): 14208, (16, "greedy_by_conflicts"): 14208, (256, "greedy_by_conflicts"): 14720,
    (8, "greedy_by_size"): 18576, (16, "greedy_by_size"): 18576, (256, "greedy_by_size"): 19392,
    (8, "hill_climb"): 11424, (16, "hill_climb"): 11424, (256, "hill_climb"): 11920,
}  # fmt: skip


@pytest.fixture(scope="module")
def synthetic():
    return testing.synthetic.get_workload()


@pytest.mark.parametrize("algorithm", ["greedy_by_size", "greedy_by_conflicts", "hill_climb", "search"])
def test_the_plan_of_a_network_needs_no_more_than_with_apache_tvm(algorithm, synthetic):
    mod, params = synthetic
    for alignment in (8, 16, 256):
        executor = Executor("aot", {"workspace-byte-alignment": alignment})
        with tvm.transform.PassContext(opt_level=3, config={"tir.usmp.algorithm": algorithm}):
            lib = relay.build(mod, "c", executor=executor, runtime=Runtime("crt"), params=params)
        (size,) = lib.function_metadata["__tvm_main__"].workspace_sizes.values()
        assert size == lib.plain_model.interface.workspace_bytes
        limits = [n for (a, name), n in APACHE_WORKSPACE.items() if a == alignment and algorithm in (name, "search")]
        assert 0 < size <= min(limits), f"{algorithm}, alignment {alignment}"


def test_a_network_runs_with_each_algorithm(synthetic):
    mod, params = synthetic
    shape = [int(d) for d in mod["main"].checked_type.arg_types[0].shape]
    inputs = {mod["main"].params[0].name_hint: np.ones(shape, "float32")}
    outputs = generate_ref_data(mod, inputs, params)
    models = [
        AOTTestModel(mod, inputs, outputs, name=name, params=params) for name in ("greedy_by_conflicts", "search")
    ]
    made = [m for one in models for m in compile_models(one, "c", True, pass_config={"tir.usmp.algorithm": one.name})]
    assert run_and_check(made, AOTTestRunner(pass_config={"tir.usmp.enable": True}), "c")
    assert not [m for m in made if "AllocWorkspace" in m.executor_factory.plain_model.text]


TARGET = tvm.target.Target("c")
POOLS = {
    "one": WorkspaceMemoryPools([WorkspacePoolInfo("my_memory_pool", [TARGET])]),
    "two": WorkspaceMemoryPools([
        WorkspacePoolInfo("my_memory_pool_1", [TARGET], PoolInfoProperties(size_hint_bytes=1024)),
        WorkspacePoolInfo("my_memory_pool_2", [TARGET]),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("uses_io", [False, True], ids=["arguments", "inputs and outputs in pools"])
@pytest.mark.parametrize("pools", POOLS)
@pytest.mark.parametrize("algorithm", ["greedy_by_size", "hill_climb"])
def test_pools_of_the_program(algorithm, pools, uses_io):
    mod, inputs, params = two_convolutions(RNG.integers(1, 9, (3, 3, 5, 5)).astype("int8"))
    config = {"tir.usmp.enable": True, "tir.usmp.algorithm": algorithm, "tir.usmp.use_workspace_io": uses_io}
    constants = ConstantMemoryPools([ConstantPoolInfo("my_const_pool_1", [TARGET], [])])
    one = AOTTestModel(mod, inputs, generate_ref_data(mod, inputs, params), params=params)
    made = compile_models(one, "c", True, pass_config=config, workspace_memory_pools=POOLS[pools],
                          constant_memory_pools=constants, target=TARGET)  # fmt: skip
    assert run_and_check(made, AOTTestRunner(pass_config=config), "c", use_workspace_io=uses_io)
    header = made[0].executor_factory.plain_model.header
    names = [pool.pool_name.upper() for pool in POOLS[pools].pools]
    assert all(f"#define TVMGEN_DEFAULT_{name}_WORKSPACE_POOL_SIZE" in header for name in names)
    assert "#define TVMGEN_DEFAULT_MY_CONST_POOL_1_CONSTANT_POOL_SIZE" in header


def test_two_models_share_one_pool(tmp_path):
    """The models run one after the other in the same memory of a program."""
    libraries, sizes, cases = [], [], []
    for name in ("mod1", "mod2"):
        mod, inputs, params = two_convolutions(RNG.integers(-9, 9, (3, 3, 5, 5)).astype("int8"))
        (wanted,) = generate_ref_data(mod, inputs, params).values()
        found = AOTTestModel(mod, inputs, {"output": wanted}, name=name, params=params)
        (made,) = compile_models(found, "c", True, workspace_memory_pools=POOLS["one"], target=TARGET)
        made.executor_factory.export_library(tmp_path / f"{name}.so")
        libraries.append(ctypes.CDLL(str(tmp_path / f"{name}.so")))
        sizes.append(made.executor_factory.plain_model.interface.workspace_bytes)
        cases.append((f"tvmgen_{name}_run", inputs["data"], wanted))
    pool = np.zeros(max(sizes) + 16, "uint8")
    place = (ctypes.c_void_p * 1)(pool.ctypes.data + -pool.ctypes.data % 16)
    for library, (run, given, wanted) in zip(libraries, cases):
        output = np.zeros_like(wanted)
        structs = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (given, output)]
        assert getattr(library, run)(*structs, place) == 0
        np.testing.assert_array_equal(output, wanted)


def test_inputs_in_pools_require_the_c_interface(synthetic):
    words = (
        "tir.usmp.use_workspace_io option is only compatible with interface_api c.\n"
        "Please use interface_api c to be able to enable tir.usmp.use_workspace_io"
    )
    with tvm.transform.PassContext(opt_level=3, config={"tir.usmp.use_workspace_io": True}):
        with pytest.raises(tvm.TVMError, match=re.escape(words)):
            relay.build(synthetic[0], "c", executor=Executor("aot"), runtime=Runtime("crt"), params=synthetic[1])
