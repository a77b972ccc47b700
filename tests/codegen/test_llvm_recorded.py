"""Micro-op kernels of a coprocessor: their code is a function of a closure, which a C function records."""

from __future__ import annotations

import pytest

import tvm
from tvm import te, tir
from tvm.ir.prim import StringImm, const
from tvm.tir.stmt import AttrStmt, Evaluate, For, ForKind

AXIS = te.thread_axis((0, 1), "cop")


def build(*arguments, target="llvm", params=()):
    i = te.var("i")
    call = Evaluate(tir.call_extern("int32", "note", *(a(i) if callable(a) else a for a in arguments)))
    kernel = AttrStmt(AXIS, "coproc_uop_scope", StringImm("push_kernel"), call)
    body = For(i, const(0), const(3), ForKind.SERIAL, kernel)
    func = tir.PrimFunc(list(params), body).with_attr("global_symbol", "main")
    return tvm.build(tvm.IRModule({"main": func}), target=target)


def test_the_closure_contains_the_integers_of_the_kernel():
    n = te.var("n", "int32")
    text = build(lambda i: i + 1, n, params=[n]).get_source("ll")
    assert "main_compute_.recorded" in text and "@push_kernel(" in text
    call = next(line for line in text.splitlines() if "call i32 @push_kernel(" in line)
    assert "i32 12)" in call  # an index of 8 bytes and n, without padding


def test_pointers_and_floats_in_a_kernel_are_rejected():
    p, x = te.var("p", "handle"), te.var("x", "float32")
    for var in (p, x):
        with pytest.raises(tvm.TVMError, match=f"uses {var.name}; it can only use integers"):
            build(var, params=[var])


def test_other_hosts_are_rejected():
    with pytest.raises(tvm.TVMError, match="need a host of target llvm"):
        build(lambda i: i, target="c")
