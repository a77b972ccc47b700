"""Offsets in place of allocations, pool parameters, and the pools of functions."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.tir.usmp.programs import (
    allocate,
    buffer,
    call,
    copy,
    direct,
    function,
    linear_structure,
    pointwise,
    pool,
    resnet_structure,
    with_pools,
)
from tvm import tir
from tvm.error import TVMError
from tvm.ir.memory_pools import AllocatedPoolInfo, ConstantPoolInfo
from tvm.ir.module import GlobalVar
from tvm.ir.prim import Call, Var, const
from tvm.ir.visit import post_order
from tvm.tir.op import call_cpacked
from tvm.tir.stmt import Allocate, AllocateConst, Evaluate, LetStmt, seq
from tvm.tir.usmp.analysis import extract_buffer_info
from tvm.tir.usmp.transform import convert_pool_allocations_to_offsets
from tvm.tir.usmp.transform.transform import place_in_pools


def global_func(name):
    return tvm.get_global_func(f"tir.usmp.{name}")


def places_of(mod, main="__tvm_main__"):
    """The steps of a plan through the global functions."""
    analysis = extract_buffer_info(mod[main], mod)
    buffers = global_func("CreateArrayBufferInfo")(analysis.buffer_info_stmts)
    found = global_func("algo.greedy_by_size")(buffers, analysis.memory_pressure)
    return global_func("AssignStmtPoolAllocations")(analysis.buffer_info_stmts, found)


def lets(func):
    """The offset of each pointer that a function takes from a pool, as {name: (pool, offset)}."""
    found = {}
    for node in post_order(func.body):
        if isinstance(node, LetStmt):
            load = node.value.args[0]
            found[node.var.name] = load.buffer.name.rsplit("_", 3)[0], load.indices[0].value
    return found


def pool_params(func):
    return [p.name.rsplit("_", 2)[0] for p in func.params if p.name.endswith("_var")]


def test_a_chain_in_two_pools():
    fast, slow = pool("fast_memory", 200704), pool("slow_memory")
    mod = with_pools(linear_structure(), [fast, slow])
    planned = convert_pool_allocations_to_offsets(places_of(mod), emit_tvmscript_printable=True)(mod)
    main = planned["__tvm_main__"]
    assert lets(main) == {"sid_9": ("slow_memory", 1117472), "sid_8": ("slow_memory", 0)}
    pooling = planned["tvmgen_default_fused_nn_max_pool2d_cast"]
    assert lets(pooling) == {"tensor_2": ("fast_memory", 0)} and pool_params(pooling) == ["fast_memory"]
    conv = planned["tvmgen_default_fused_nn_conv2d_add_fixed_point_multiply_clip_cast"]
    assert lets(conv) == {"PaddedInput_7": ("slow_memory", 802816), "Conv2dOutput_7": ("fast_memory", 0)}
    assert pool_params(conv) == pool_params(main) == ["fast_memory", "slow_memory"]
    # A function without memory of its own gets no pool.
    assert len(planned["tvmgen_default_fused_cast_subtract"].params) == 3
    sizes = {b.name.rsplit("_", 3)[0]: b.shape[0].value for b in main.buffer_map.values()}
    assert sizes == {"fast_memory": 200704, "slow_memory": 1418528}
    assert all(b.data_alignment == 16 and b.dtype == "uint8" for b in main.buffer_map.values())
    assert not main.attrs and not any(isinstance(n, Allocate) for n in post_order(conv.body))
    passed = {c.args[0].value: [a.name for a in c.args[1:] if isinstance(a, Var)] for c in calls(main)}
    assert passed["tvmgen_default_fused_nn_max_pool2d_cast"] == [
        "sid_8",
        "output",
        main.params[-2].name.replace("_var", "_buffer_var"),
    ]
    assert passed["tvmgen_default_fused_cast_subtract"] == ["input", "sid_9"]


def calls(func):
    return [n for n in post_order(func.body) if isinstance(n, Call) and getattr(n.op, "name", "") == "tir.call_extern"]


def test_a_residual_block():
    mod = with_pools(resnet_structure(), [pool()])
    planned = convert_pool_allocations_to_offsets(places_of(mod))(mod)
    own = "global_workspace"
    assert lets(planned["__tvm_main__"]) == {
        "sid_2": (own, 5760000), "sid_6": (own, 0), "sid_7": (own, 6480000), "sid_8": (own, 6480000),
    }  # fmt: skip
    offsets = {name: dict(lets(planned[f"tvmgen_default_conv2d{name}"])) for name in ("", "_1", "_2", "_3")}
    assert offsets == {
        "": {"PaddedInput": (own, 7200000), "Conv2dOutput": (own, 7920000)},
        "_1": {"PaddedInput_1": (own, 0), "Conv2dOutput_1": (own, 7200000)},
        "_2": {"PaddedInput_2": (own, 7200000), "Conv2dOutput_2": (own, 7920000)},
        "_3": {"PaddedInput_3": (own, 6480000), "Conv2dOutput_3": (own, 7200000)},
    }
    (info,) = planned["__tvm_main__"].attrs["pool_args"]
    assert isinstance(info, AllocatedPoolInfo) and info.pool_info.pool_name == own
    assert (info.allocated_size, info.pool_var_idx) == (7920256, 2)
    assert planned["__tvm_main__"].attrs["pool_alignments"] == (16,)


def test_pools_come_before_a_resource_handle():
    handle, inner_handle = Var("resource_handle", "handle"), Var("resource_handle", "handle")
    a, inner, s = buffer("a", 64), buffer("inner", 64), buffer("s", 64)
    kernel = function("k", [a, inner_handle], allocate(inner, seq(copy(inner, a), copy(a, inner))))
    plain = function("plain", [a], allocate(inner, seq(copy(inner, a), copy(a, inner))))
    body = seq(
        Evaluate(call_cpacked("k", s.data, handle)), call("k", s, handle),
        Evaluate(call_cpacked("plain", s.data, handle)), call("plain", s),
    )  # fmt: skip
    main = function("main", [handle], allocate(s, body))
    mod = with_pools(tvm.IRModule({"k": kernel, "plain": plain, "main": main}), [pool()])
    planned, infos = place_in_pools(mod, places_of(mod, "main"), "main")
    assert [p.name for p in planned["main"].params][-1] == "resource_handle" and infos[0].pool_var_idx == 0
    assert planned["k"].params[-1] is inner_handle and len(planned["k"].params) == 3
    assert planned["plain"].params[-1].name.endswith("_var")
    workspace = planned["main"].buffer_map[planned["main"].params[0]].data
    found = [n.args[2:] for n in post_order(planned["main"].body) if isinstance(n, Call) and len(n.args) in (3, 4)]
    assert [args[1:] for args in found] == [(handle,), (handle,), (handle,), ()]
    # Packed functions take a tensor, others a pointer.
    assert [getattr(args[0], "args", args)[0] for args in found] == [workspace] * 4
    assert [isinstance(args[0], Var) for args in found] == [False, True, False, True]


def test_a_function_passes_the_pools_of_the_functions_that_it_calls():
    fast, slow = pool("fast"), pool("slow")
    a, inner, s = buffer("a", 64), buffer("inner", 64), buffer("s", 64)
    low_var, middle_var = GlobalVar("low"), GlobalVar("middle")
    low = function("low", [a], allocate(inner, seq(copy(inner, a), copy(a, inner))))
    b = buffer("b", 64)
    middle = function("middle", [b], direct(low_var, b))
    main = function("main", [], allocate(s, direct(middle_var, s)))
    mod = tvm.IRModule({low_var: low, middle_var: middle, "main": main})
    mod = tvm.IRModule({
        low_var: with_pools(mod, [fast])[low_var], middle_var: middle, "main": with_pools(mod, [slow])["main"],
    })  # fmt: skip
    planned, infos = place_in_pools(mod, places_of(mod, "main"), "main")
    assert [len(planned[n].params) for n in ("low", "middle", "main")] == [2, 2, 2]
    assert [(i.pool.pool_name, i.allocated_size, i.pool_var_idx) for i in infos] == [("slow", 64, 0), ("fast", 64, 1)]


def test_constants_become_the_contents_of_constant_pools():
    data = [tvm.nd.array(np.arange(n, dtype="int8")) for n in (24, 40)]
    weights = [buffer("w0", 24), buffer("w1", 40)]
    out = buffer("out", 64)
    body = copy(out, *weights)
    for memory, array in zip(weights, data):
        body = AllocateConst(memory.data, "int8", memory.shape, array, body)
    flash = ConstantPoolInfo("flash", [])
    mod = with_pools(tvm.IRModule({"main": function("main", [out], body)}), [flash])
    planned, (info,) = place_in_pools(mod, places_of(mod, "main"), "main")
    held = [(c.name_hint, c.byte_offset) for c in info.pool.constant_info_array]
    assert held == [("w1", 0), ("w0", 48)] and info.allocated_size == 72 and info.pool.pool_name == "flash"
    assert all(c.data is data[int(c.name_hint[1])] for c in info.pool.constant_info_array)
    assert lets(planned["main"]) == {"w1": ("flash", 0), "w0": ("flash", 48)}


def test_an_access_pointer_keeps_its_form():
    memory = buffer("dense", 10, "int32")
    access = tir.call_extern(
        "int32", "intrin_function",
        Call("handle", tvm.ir.Op.get("tir.tvm_access_ptr"), (tir.type_annotation("int32"), memory.data, 0, 1, 2)),
    )  # fmt: skip
    kernel = function("kernel", [], allocate(memory, seq(Evaluate(access), copy(memory, memory))))
    main = function("__tvm_main__", [], call("kernel"))
    mod = with_pools(tvm.IRModule({"kernel": kernel, "__tvm_main__": main}), [pool()])
    planned = convert_pool_allocations_to_offsets(places_of(mod), emit_tvmscript_printable=True)(mod)
    assert lets(planned["kernel"]) == {"dense": ("global_workspace", 0)}
    assert access in list(post_order(planned["kernel"].body))
    assert len(planned["kernel"].params) == len(planned["__tvm_main__"].params) == 1


def test_a_module_without_the_main_function():
    mod = tvm.IRModule({"k": pointwise("k", buffer("a", 4))})
    with pytest.raises(TVMError, match="cannot plan memory: the module has no PrimFunc '__tvm_main__'"):
        convert_pool_allocations_to_offsets({})(mod)
    assert const(1, "int32").value == 1
