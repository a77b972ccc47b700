"""Functions of blocks lower to plain loops; where buffers are allocated and how large."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, results, var

from tvm import te
from tvm.error import TVMError
from tvm.ir.module import IRModule
from tvm.ir.prim import IterVar, Range, const
from tvm.tir import pipeline
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    MatchBufferRegion,
    seq,
)
from tvm.tir.transform import CompactBufferAllocation
from tvm.tir.transform.lower_match_buffer import lower_match_buffer


def lowered(func):
    return pipeline.lower(IRModule({"main": func}))["main"]


def block(name, axes, body, init=None, alloc=(), match=(), predicate=True):
    """A block with (variable, kind, extent, value) axes."""
    iters = [IterVar((0, e), v, k) for v, k, e, _ in axes]
    made = Block(iters, (), (), name, body, init, alloc, match)
    return BlockRealize([value for *_, value in axes], predicate, made)


def test_reduction_of_a_created_function():
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="C")
    func = te.create_prim_func([a, c])
    x = np.random.default_rng(3).random((8, 16), "float32")
    got = results(lowered(func), [x, np.zeros(8, "float32")])[1]
    np.testing.assert_allclose(got, x.sum(1) * 2, rtol=1e-5, atol=1e-5)


def producer_consumer(reduction):
    """t[i, :] made and used inside loop i; with ``reduction`` t is accumulated over i instead."""
    a, b, t = decl_buffer((8, 4), "int32", "A"), decl_buffer((8, 4), "int32", "B"), decl_buffer((8, 4), "int32", "t")
    i, j, k, x, y, u, v = (var(n) for n in "ijkxyuv")
    row = const(0) if reduction else x
    value = t[0, y] + a[x, y] if reduction else a[x, y] + 1
    kind = IterVar.CommReduce if reduction else IterVar.DataPar
    init = BufferStore(t, const(0), [row, y]) if reduction else None
    fill = block("t", [(x, kind, 8, i), (y, IterVar.DataPar, 4, j)], BufferStore(t, value, [row, y]), init)
    at = const(0) if reduction else u
    use = block("B", [(u, IterVar.DataPar, 8, i), (v, IterVar.DataPar, 4, k)], BufferStore(b, t[at, v], [u, v]))
    body = For(i, 0, 8, 0, seq(For(j, 0, 4, 0, fill), For(k, 0, 4, 0, use)))
    return PrimFunc([a, b], block("root", [], body, alloc=(t,)))


def test_memory_moves_into_the_loop_and_shrinks():
    func = producer_consumer(False)
    new = lowered(func)
    assert isinstance(new.body, For) and int(of(Allocate, new)[0].extents[0]) == 4
    x = np.arange(32, dtype="int32").reshape(8, 4)
    np.testing.assert_array_equal(results(new, [x, np.zeros_like(x)])[1], x + 1)


def test_memory_stays_outside_of_the_loop_that_carries_it():
    new = lowered(producer_consumer(True))
    assert isinstance(new.body, Allocate)
    x = np.arange(32, dtype="int32").reshape(8, 4)
    np.testing.assert_array_equal(results(new, [x, np.zeros_like(x)])[1], np.cumsum(x, 0))


def test_predicate_and_views():
    a, n = decl_buffer((8, 6), "int32", "A"), var("n")
    view = decl_buffer((3,), "int32", "view", strides=[var("s")], offset_factor=1)
    i, j, x = var("i"), var("j"), var("x")
    region = BufferRegion(a, (Range.from_min_extent(x, 1), Range.from_min_extent(2, 3)))
    inner = For(j, 0, 3, 0, BufferStore(view, x * 10 + j, [j]))
    match = (MatchBufferRegion(view, region),)
    realized = block("v", [(x, IterVar.DataPar, 8, i)], inner, match=match, predicate=i < n)
    new = lowered(PrimFunc([a, n], For(i, 0, 8, 0, realized)))
    assert of(IfThenElse, new)
    got = results(new, [np.zeros((8, 6), "int32"), np.int32(5)])[0]
    want = np.zeros((8, 6), "int32")
    want[:5, 2:5] = np.arange(5)[:, None] * 10 + np.arange(3)
    np.testing.assert_array_equal(got, want)


def test_view_that_does_not_fit_is_refused():
    a = decl_buffer((8, 6), "int32", "A")
    view = decl_buffer((4,), "int32", "view")
    region = BufferRegion(a, (Range.from_min_extent(0, 1), Range.from_min_extent(2, 3)))
    body = BufferStore(view, const(0), [0])
    func = PrimFunc([a], block("v", [], body, match=(MatchBufferRegion(view, region),)))
    with pytest.raises(TVMError, match=r"shape\[0\] of view view is declared as 4, but that of the region is 3"):
        lower_match_buffer(func)


def test_thread_bound_loops_become_attributes():
    a, i = decl_buffer((8,), "int32", "A"), var("i")
    axis = IterVar(None, var("t"), IterVar.ThreadIndex, "threadIdx.x")
    x = var("x")
    realized = block("b", [(x, IterVar.DataPar, 8, i)], BufferStore(a, x, [x]))
    new = lowered(PrimFunc([a], For(i, 0, 8, ForKind.THREAD_BINDING, realized, axis)))
    assert [s.attr_key for s in of(AttrStmt, new)] == ["thread_extent"]
    np.testing.assert_array_equal(results(new, [np.zeros(8, "int32")])[0], np.arange(8))


@pytest.mark.parametrize("is_strict, extent", [(True, 4), (False, 6)])
def test_memory_grows_to_what_is_touched_only_where_that_is_allowed(is_strict, extent):
    b, t, i = decl_buffer((6,), "int32", "B"), decl_buffer((4,), "int32", "t"), var("i")
    body = For(i, 0, 6, ForKind.SERIAL, seq(BufferStore(t, i, [i]), BufferStore(b, t[i], [i])))
    mod = IRModule({"main": PrimFunc([b], block("root", (), body, alloc=[t]))})
    compact = CompactBufferAllocation(is_strict)(mod)["main"].body
    assert [int(n) for n in compact.block.alloc_buffers[0].shape] == [extent]
    assert {int(s.buffer.shape[0]) for s in of(BufferStore, compact)} == {extent, 6}
