"""Metadata of hand-written main functions, with the numbers of Apache TVM's tests of CreateFunctionMetadata and
CreateExecutorMetadata."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay, tir
from tvm.ir.memory_pools import AllocatedPoolInfo, ConstantInfo, ConstantPoolInfo, WorkspacePoolInfo
from tvm.relay.backend import Executor
from tvm.relay.backend.aot import CreateExecutorMetadata, CreateFunctionMetadata
from tvm.tir.stmt import Allocate, AllocateConst, Evaluate, seq
from tvm.tir.usmp.utils import PoolAllocation

TARGET = tvm.target.Target("llvm")
FLASH = AllocatedPoolInfo(ConstantPoolInfo("flash", [TARGET], [ConstantInfo("a", 0, tvm.nd.array(np.array([0])))]), 512)
SRAM = AllocatedPoolInfo(WorkspacePoolInfo("sram", [TARGET]), 256)


def function(name: str, tensors=2, allocations=0, constants=0, more_params=()) -> tir.PrimFunc:
    """A function of tensors of 35 floats with allocations of 140 bytes."""
    buffers = [tir.decl_buffer((5, 7), "float32", n) for n in ("a", "output", "c")[:tensors]]
    spaces = [tir.decl_buffer((140,), "int8", f"sid_{i}").data for i in range(allocations)]
    consts = [tir.decl_buffer((5, 7), "float32", f"constant_{i}").data for i in range(constants)]
    pointers = [b.data for b in buffers] + spaces + consts
    body = seq(*(Evaluate(tir.call_cpacked("magic", *pair)) for pair in zip(pointers, [*pointers[1:], pointers[0]])))
    for var in consts:
        body = AllocateConst(var, "float32", (5, 7), tvm.nd.array(np.zeros((5, 7), "float32")), body)
    for var in spaces:
        body = Allocate(var, "int8", (140,), True, body)
    made = tir.PrimFunc([*buffers, *more_params], body)
    return made.with_attr({"global_symbol": f"test_mod_{name}", "target": TARGET})


@pytest.mark.parametrize("main, pools, workspace, constants", [
    ({"allocations": 3}, None, 432, 0), ({"constants": 1}, None, 0, 140), ({}, [FLASH], 0, 512), ({}, [SRAM], 256, 0),
    ({"allocations": 3, "constants": 1}, [FLASH, SRAM], 688, 652),
])  # fmt: skip
@pytest.mark.parametrize("on_function", [False, True])
def test_memory_of_the_main_function(main, pools, workspace, constants, on_function):
    made = function("__tvm_main__", **main)
    mod = tvm.IRModule({"__tvm_main__": made.with_attr("pool_args", tuple(pools)) if pools and on_function else made})
    found = CreateFunctionMetadata(mod.with_attr("pool_args", pools) if pools and not on_function else mod, 16, 1)
    facts = found["__tvm_main__"]
    assert facts.workspace_sizes == {TARGET: workspace} and facts.constant_sizes == {TARGET: constants}
    assert facts.io_sizes == {TARGET: 280}
    assert tvm.ir.structural_equal(facts.tir_primfuncs[TARGET], mod["__tvm_main__"])


def test_memory_of_other_functions():
    unused = tir.Var("device_context_unused", "handle")
    other = function("test_fused_add", 3, allocations=1, constants=1, more_params=[unused])
    mod = tvm.IRModule({"__tvm_main__": function("__tvm_main__"), "test_fused_add": other})
    found = CreateFunctionMetadata(mod.with_attr("pool_args", [SRAM]), 16, 1)
    facts = found["test_fused_add"]
    assert [list(sizes.values()) for sizes in (facts.workspace_sizes, facts.io_sizes, facts.constant_sizes)] == [
        [144], [420], [140]
    ]  # fmt: skip
    assert list(found["__tvm_main__"].workspace_sizes.values()) == [256]


@pytest.mark.parametrize("has_pools", [True, False])
def test_the_interface(has_pools):
    parameters = [tir.Var(name, "handle") for name in ("workspace", "constants")] if has_pools else []
    main = function("__tvm_main__", 2, 3, 1, parameters)
    a, output, *pools = main.params
    main = main.with_attr({"input_vars": (a,), "output_vars": (output,), "devices": ("test_device",)})
    mod, places = tvm.IRModule({"__tvm_main__": main}), {}
    if has_pools:
        infos = (AllocatedPoolInfo(FLASH.pool, 512, 3), AllocatedPoolInfo(SRAM.pool, 256, 2))
        places = {name: PoolAllocation(SRAM.pool, 0) for name in ("a", "output")}
        mod["__tvm_main__"] = main.with_attr("pool_args", infos)
        mod = mod.with_attr("io_tensor_pool_allocations", places)
    found = CreateExecutorMetadata(mod, "test_mod", Executor("aot", {"interface-api": "c"}), 16, 1)
    assert (found.inputs, found.outputs) == ([a], [output.name])
    types = [relay.TensorType((5, 7), "float32")]
    assert tvm.ir.structural_equal(found.input_tensor_types, types)
    assert tvm.ir.structural_equal(found.output_tensor_types, types)
    assert (set(found.pools), found.devices, found.executor) == (set(pools), ["test_device"], "aot")
    assert (found.mod_name, found.interface_api, found.unpacked_api) == ("test_mod", "c", False)
    assert (found.workspace_alignment, found.constant_alignment) == (16, 1)
    assert set(found.pool_inputs) == set(pools) and found.io_pool_allocations == places
