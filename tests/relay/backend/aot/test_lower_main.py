"""The steps of compiling ahead of time one by one: lowered modules, and what is computed from them."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.backend import Executor
from tvm.relay.backend.aot import AOTLowerMain, CallType, CreateExecutorMetadata, CreateFunctionMetadata
from tvm.relay.backend.aot.plan import plan_main
from tvm.target import Target, make_compilation_config
from tvm.tir.stmt import Allocate, AllocateConst
from tvm.tir.transform.statement import statements_in

MAIN = "__tvm_main__"


def model() -> tvm.IRModule:
    x, y = relay.var("x", shape=(5, 8)), relay.var("y:0", shape=(3, 8))
    total = relay.nn.dense(x, relay.nn.relu(y)) + relay.const(np.ones((1, 3), "float32"))
    return tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([total, relay.exp(total)])))


def config(target="c"):
    return make_compilation_config(tvm.transform.PassContext.current(), Target(target))


@pytest.fixture(scope="module")
def lowered() -> tvm.IRModule:
    return AOTLowerMain("net", config(), CallType.Unpacked)(model())


def test_the_main_function_calls_each_operator(lowered):
    names = {var.name_hint for var in lowered.get_global_vars()}
    assert names == {MAIN, *(f"tvmgen_net_fused_{name}" for name in ("nn_relu", "nn_dense", "add", "exp"))}
    main = lowered[MAIN]
    assert main.attrs["global_symbol"] == "tvmgen_net___tvm_main__"
    assert [p.name for p in main.params] == ["x", "y_0", "output0", "output1"]
    # The results of relu and dense; the others are outputs.
    found = list(statements_in(main.body))
    assert sum(isinstance(s, Allocate) for s in found) == 2 and sum(isinstance(s, AllocateConst) for s in found) == 1


def test_fused_functions_stay_whole():
    fused = relay.transform.FuseOps(2)(relay.transform.InferType()(model()))
    names = {var.name_hint for var in AOTLowerMain("net", config(), 2)(fused).get_global_vars()}
    assert "tvmgen_net_fused_nn_dense_add" in names or any("dense_add" in name for name in names)


def test_memory_of_functions(lowered):
    found = CreateFunctionMetadata(lowered, 16, 4)
    target = lowered[MAIN].attrs["target"]
    main = found[MAIN]
    assert main.io_sizes[target] == 4 * (40 + 24 + 15 + 15) and main.constant_sizes[target] == 12
    assert main.workspace_sizes[target] == 96 + 64 and main.tir_primfuncs[target] is lowered[MAIN]
    assert found["tvmgen_net_fused_exp"].io_sizes[target] == 2 * 4 * 15
    with pytest.raises(tvm.TVMError, match="function f has no attribute 'target'"):
        CreateFunctionMetadata(tvm.IRModule({"f": lowered[MAIN].without_attr("target")}), 16, 4)


def test_the_interface_of_the_main_function(lowered):
    executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    planned = plan_main(lowered[MAIN], executor)
    found = CreateExecutorMetadata(tvm.IRModule({MAIN: planned.function}), "net", executor, 32, 8)
    assert [v.name for v in found.inputs] == ["x", "y_0"] and found.outputs == ["output0", "output1"]
    assert [str(t.shape[0]) for t in found.input_tensor_types + found.output_tensor_types] == ["5", "3", "5", "5"]
    assert (found.interface_api, found.unpacked_api, found.executor, found.mod_name) == ("c", True, "aot", "net")
    assert (found.workspace_alignment, found.constant_alignment, found.devices) == (32, 8, [])
    (pool,) = found.pools
    assert pool is planned.function.params[-1] and found.pool_inputs[pool].allocated_size == planned.workspace_bytes
    with pytest.raises(tvm.TVMError, match="the module has no function __tvm_main__"):
        CreateExecutorMetadata(tvm.IRModule(), "net", executor, 32, 8)


def test_what_the_pass_does_not_support_is_rejected():
    with pytest.raises(tvm.TVMError, match="call type CPacked is not supported"):
        AOTLowerMain("net", config(), CallType.CPacked)
    two = make_compilation_config(tvm.transform.PassContext.current(), [Target("c"), Target("cuda", "c")])
    with pytest.raises(tvm.TVMError, match="all kernels must have the same target, got c"):
        AOTLowerMain("net", two, 2)(model())
