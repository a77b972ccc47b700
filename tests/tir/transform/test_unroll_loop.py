"""Unrolling: by mark, by pragma, by configuration; marking only."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter import run

from tvm.error import TVMError
from tvm.ir.pass_config import UnrollLoopConfig
from tvm.ir.prim import Var, const
from tvm.ir.visit import post_order
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, LetStmt, seq
from tvm.tir.transform.remove_no_op import remove_no_op
from tvm.tir.transform.unroll_loop import unroll_loop


def loops(func):
    return [n for n in post_order(func.body) if isinstance(n, For)]


def count(func, kind=BufferStore):
    return len([n for n in post_order(func.body) if isinstance(n, kind)])


def nest(a, outer, inner, kind):
    i, j = Var("i", "int32"), Var("j", "int32")
    return For(i, 0, outer, 0, For(j, 0, inner, kind, BufferStore(a, (i * 10 + j).astype("float32"), [i * inner + j])))


def check(func, size):
    new = unroll_loop(func)
    x, y = np.zeros(size, "float32"), np.zeros(size, "float32")
    run(func, x)
    run(new, y)
    np.testing.assert_array_equal(x, y)
    return new


def test_marked_loop_is_expanded():
    a = decl_buffer((12,), "float32", "A")
    new = check(PrimFunc([a], nest(a, 3, 4, ForKind.UNROLLED)), 12)
    assert len(loops(new)) == 1 and count(new) == 4


def test_pragma_unrolls_what_fits():
    a = decl_buffer((12,), "float32", "A")
    body = AttrStmt(Var("i", "int32"), "pragma_auto_unroll_max_step", const(4), nest(a, 3, 4, ForKind.SERIAL))
    new = check(PrimFunc([a], body), 12)
    assert len(loops(new)) == 1 and not count(new, AttrStmt)
    body = AttrStmt(Var("i", "int32"), "pragma_auto_unroll_max_step", const(12), nest(a, 3, 4, ForKind.SERIAL))
    assert not loops(check(PrimFunc([a], body), 12))


def test_marking_leaves_the_loops():
    a = decl_buffer((12,), "float32", "A")
    body = AttrStmt(Var("i", "int32"), "pragma_auto_unroll_max_step", const(4), nest(a, 3, 4, ForKind.SERIAL))
    new = unroll_loop(PrimFunc([a], body), mark_only=True)
    assert [f.kind for f in loops(new)] == [ForKind.UNROLLED, ForKind.SERIAL]


def test_pragma_explicit_off_marks_only():
    a = decl_buffer((12,), "float32", "A")
    body = AttrStmt(Var("i", "int32"), "pragma_unroll_explicit", const(0), nest(a, 3, 4, ForKind.SERIAL))
    new = unroll_loop(PrimFunc([a], body), UnrollLoopConfig(auto_max_step=16))
    assert [f.kind for f in loops(new)] == [ForKind.UNROLLED, ForKind.UNROLLED]


def test_short_loops_by_extent():
    a = decl_buffer((12,), "float32", "A")
    new = unroll_loop(PrimFunc([a], nest(a, 3, 4, ForKind.SERIAL)), UnrollLoopConfig(auto_max_extent=4))
    assert not loops(new) and count(new) == 12


def test_no_variable_is_defined_twice():
    a = decl_buffer((8,), "float32", "A")
    i, j, x = Var("i", "int32"), Var("j", "int32"), Var("x", "float32")
    t = decl_buffer((2,), "float32", "t", scope="local")
    inner = Allocate(
        t.data,
        "float32",
        [2],
        const(True),
        seq(
            LetStmt(x, i.astype("float32"), BufferStore(t, x, [0])),
            For(j, 0, 2, 0, BufferStore(a, t[0] + j.astype("float32"), [i * 2 + j])),
        ),
    )
    new = check(PrimFunc([a], For(i, 0, 4, ForKind.UNROLLED, inner)), 8)
    for kind, field in ((For, "loop_var"), (LetStmt, "var"), (Allocate, "buffer_var")):
        names = [getattr(n, field) for n in post_order(new.body) if isinstance(n, kind)]
        assert len(names) == 4 and len({id(n) for n in names}) == 4


def test_symbolic_extent_is_refused():
    a, n = decl_buffer((12,), "float32", "A"), Var("n", "int32")
    with pytest.raises(TVMError, match="unroll: the extent of loop j is .*, not a constant"):
        unroll_loop(PrimFunc([a, n], nest(a, 3, n, ForKind.UNROLLED)))


def test_statements_without_effect_go():
    a, i, x = decl_buffer((4,), "float32", "A"), Var("i", "int32"), Var("x", "float32")
    empty = For(i, 0, 0, 0, BufferStore(a, const(1, "float32"), [i]))
    unused = LetStmt(x, const(1, "float32") + a[0], BufferStore(a, const(2, "float32"), [0]))
    new = remove_no_op(PrimFunc([a], seq(empty, unused)))
    assert isinstance(new.body, BufferStore)
