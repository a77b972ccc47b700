"""Calls between functions, the pointers they pass, and the memory of allocations."""

from __future__ import annotations

import pytest

import tvm
from tests.tir.usmp.programs import allocate, buffer, call, copy, direct, function, pointwise
from tvm import tir
from tvm.error import TVMError
from tvm.ir.module import GlobalVar
from tvm.ir.prim import Var, const
from tvm.relay.backend import Executor
from tvm.tir.op import call_cpacked
from tvm.tir.stmt import Allocate, AttrStmt, Evaluate
from tvm.tir.usmp.calls import (
    Alignments,
    Callees,
    allocated_bytes,
    bind_arguments,
    has_resource_handle,
    is_pooled_scope,
    pointers_in,
    roots_of,
)


def test_functions_are_found_by_their_name_and_their_symbol():
    var, a = GlobalVar("k"), buffer("a", 4)
    kernel = function("symbol_of_k", [a], copy(a, a))
    callees = Callees(tvm.IRModule({var: kernel}))
    for stmt in (call("k", a), call("symbol_of_k", a), direct(var, a), Evaluate(call_cpacked("k", a.data))):
        found = callees.called(stmt.value)
        assert found is not None and found[0].name_hint == "k" and found[1] is kernel
    assert callees.called(call("other", a).value) is None and callees.called(const(1, "int32")) is None


def test_arguments_and_the_handle_of_a_driver():
    var, a, handle = GlobalVar("k"), buffer("a", 4), Var("resource_handle", "handle")
    plain, with_handle = pointwise("k", a), function("k", [a, handle], copy(a, a))
    assert not has_resource_handle(plain) and has_resource_handle(with_handle)
    packed = call_cpacked("k", a.data, handle)
    assert [argument for _, argument in bind_arguments(packed, var, plain)] == [a.data]
    with pytest.raises(TVMError, match="k takes 1 arguments, but 2 are given"):
        bind_arguments(call("k", a, handle).value, var, plain)
    with pytest.raises(TVMError, match="k takes 2 arguments, but 1 are given"):
        bind_arguments(call("k", a).value, var, with_handle)


def test_pointers_of_expressions():
    a, b = buffer("a", 4), buffer("b", 4)
    expression = tir.call_extern("int32", "f", a.data, tir.address_of(b[2]), b[0])
    assert set(pointers_in(expression)) == {a.data, b.data}
    known = {a.data: frozenset({"one"}), b.data: frozenset({"two"})}
    assert roots_of(tir.address_of(b[2]), known) == {"two"} and roots_of(expression, known) == {"one", "two"}
    assert roots_of(Var("c", "handle"), known) == frozenset()


def test_sizes_and_scopes():
    n = Var("n", "int32")
    vectors = tir.decl_buffer((3, 5), "float32x4", "vectors")
    assert allocated_bytes(allocate(vectors, copy(vectors))) == 3 * 5 * 16
    assert allocated_bytes(Allocate(vectors.data, "float32", (n,), True, copy(vectors))) is None
    assert allocated_bytes(Allocate(vectors.data, "float32", (4,), n > 0, copy(vectors))) is None
    scopes = {s: tir.decl_buffer((4,), "int8", "b", scope=s).data for s in ("", "global", "global.workspace", "shared")}
    assert [is_pooled_scope(var) for var in scopes.values()] == [True, True, True, False]


def test_alignments_come_from_the_executor_the_element_and_attributes():
    small, triple = buffer("small", 4), tir.decl_buffer((4,), "float32x3", "triple")
    promise = AttrStmt(small.data, "storage_alignment", const(64, "int32"), copy(small))
    mod = tvm.IRModule({"main": function("main", [], allocate(small, promise))})
    assert Alignments(mod).of(allocate(small, promise)) == 64
    plain = tvm.IRModule({"main": function("main", [], copy(small))})
    assert Alignments(plain).of(allocate(small, copy(small))) == 16
    chosen = plain.with_attr("executor", Executor("aot", {"workspace-byte-alignment": 8}))
    assert Alignments(chosen).of(allocate(small, copy(small))) == 8
    assert Alignments(chosen).of(allocate(triple, copy(triple))) == 16
    constant = tir.AllocateConst(small.data, "int8", (4,), None, copy(small))
    assert Alignments(chosen).of(constant) == 16
    flash = plain.with_attr("executor", Executor("aot", {"constant-byte-alignment": 4}))
    assert Alignments(flash).of(constant) == 4
