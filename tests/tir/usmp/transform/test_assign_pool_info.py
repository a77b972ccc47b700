"""Candidate pools of allocations: by target, by function, for constants."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.tir.usmp.programs import allocate, buffer, call, copy, function, pool
from tvm.error import TVMError
from tvm.ir.memory_pools import ConstantMemoryPools, ConstantPoolInfo, WorkspaceMemoryPools
from tvm.ir.prim import Var
from tvm.ir.visit import post_order
from tvm.tir.stmt import Allocate, AllocateConst, seq
from tvm.tir.usmp.transform import assign_pool_info
from tvm.tir.usmp.utils import CANDIDATE_MEMORY_POOL_ATTR

LLVM, C = tvm.target.Target("llvm"), tvm.target.Target("c")


def candidates(mod):
    return {
        n.buffer_var.name: [p.pool_name for p in (n.annotations or {}).get(CANDIDATE_MEMORY_POOL_ATTR, ())]
        for f in mod.functions.values() for n in post_order(f.body) if isinstance(n, (Allocate, AllocateConst))
    }  # fmt: skip


def program(**more):
    a, large, small, s = buffer("a", 8192), buffer("large", 8192), buffer("small", 16), buffer("s", 16)
    body = seq(copy(large, a), copy(small, large), copy(a, small))
    kernel = function("k", [a], allocate(large, allocate(small, body)), "c")
    main = function("__tvm_main__", [], allocate(s, call("k", s)), "llvm")
    return tvm.IRModule({"k": kernel, "__tvm_main__": main, **more})


def test_one_pool_for_everything_by_default():
    made = assign_pool_info()(program())
    assert candidates(made) == {"large": ["global_workspace"], "small": [], "s": ["global_workspace"]}


def test_functions_get_the_pools_that_their_target_reaches():
    pools = WorkspaceMemoryPools([pool("both", targets=[C, LLVM]), pool("host", targets=[LLVM]), pool("any")])
    made = assign_pool_info()(program().with_attr("workspace_memory_pools", pools))
    assert candidates(made) == {"large": ["both", "any"], "small": [], "s": ["both", "host", "any"]}


def test_annotations_are_kept():
    mod = program()
    first = assign_pool_info()(mod)
    again = first.with_attr("workspace_memory_pools", WorkspaceMemoryPools([pool("other")]))
    assert candidates(assign_pool_info()(again)) == candidates(first)


def test_memory_that_has_no_fixed_size_or_another_scope_is_left_alone():
    n, out = Var("n", "int32"), buffer("out", 8192)
    shared = tvm.tir.decl_buffer((8192,), "int8", "shared", scope="shared")
    sized = buffer("sized", 8192)
    body = Allocate(sized.data, "int8", (n,), True, allocate(shared, seq(copy(sized), copy(shared), copy(out))))
    made = assign_pool_info()(program(other=function("other", [n, out], body)))
    assert candidates(made)["sized"] == candidates(made)["shared"] == []


def test_constants_are_placed_if_there_are_pools_for_them():
    out, w = buffer("out", 16), buffer("w", 16)
    body = AllocateConst(w.data, "int8", (16,), tvm.nd.array(np.zeros(16, "int8")), copy(out, w))
    mod = program(other=function("other", [out], body))
    assert candidates(assign_pool_info()(mod))["w"] == []
    flash = ConstantMemoryPools([ConstantPoolInfo("flash", [C])])
    assert candidates(assign_pool_info()(mod.with_attr("constant_memory_pools", flash)))["w"] == ["flash"]


def test_a_target_without_a_pool():
    pools = WorkspaceMemoryPools([pool("host", targets=[LLVM])])
    with pytest.raises(TVMError, match="k allocates 'large', but its target can access no memory pool"):
        assign_pool_info()(program().with_attr("workspace_memory_pools", pools))
