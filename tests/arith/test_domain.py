"""Regions touched by a statement."""

from __future__ import annotations

from tvm.arith.domain import domain_touched
from tvm.ir.prim import Add, BufferLoad, IterVar, Let, Ramp, Range, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.stmt import AttrStmt, Block, BlockRealize, BufferStore, Evaluate, For, IfThenElse, LetStmt, seq

i, j, m = Var("i"), Var("j"), Var("m")
A = decl_buffer((100, m), name="A")
B = decl_buffer((100, m), name="B")


def stencil():
    value = BufferLoad(B, (i - 1, j + 1)) + BufferLoad(A, (i - 1, j - 1))
    return For(i, 0, 100, 0, For(j, 0, m, 0, BufferStore(A, value, (i, j))))


def test_reads_writes_and_both():
    rows, columns = domain_touched(stencil(), A, True, False)
    assert (rows.min.value, rows.extent.value, columns.min.value) == (-1, 100, -1) and columns.extent is m
    rows, columns = domain_touched(stencil(), A, False, True)
    assert (rows.min.value, rows.extent.value, columns.min.value) == (0, 100, 0) and columns.extent is m
    rows, columns = domain_touched(stencil(), A)
    assert (rows.min.value, rows.extent.value, columns.min.value) == (-1, 101, -1)
    assert isinstance(columns.extent, Add) and columns.extent.a is m and columns.extent.b.value == 1
    rows, columns = domain_touched(stencil(), B, True, False)
    assert (rows.min.value, columns.min.value) == (-1, 1)
    assert domain_touched(stencil(), B, False, True) == []


def test_vector_accesses_cover_their_lanes():
    C = decl_buffer((1024,), name="C")
    body = BufferStore(C, BufferLoad(C, (Ramp(i * 32, 1, 16),)), (Ramp(i * 32 + 16, 1, 16),))
    (read,) = domain_touched(For(i, 0, 4, 0, body), C, True, False)
    assert (read.min.value, read.extent.value) == (0, 112)
    (written,) = domain_touched(For(i, 0, 4, 0, body), C, False, True)
    assert (written.min.value, written.extent.value) == (16, 112)


def test_variables_of_lets_threads_and_blocks():
    C = decl_buffer((64,), name="C")
    k, t = Var("k"), Var("t")
    store = BufferStore(C, 1.0, (k,))
    (got,) = domain_touched(For(i, 0, 4, 0, LetStmt(k, i * 8 + 2, store)), C)
    assert (got.min.value, got.extent.value) == (2, 25)
    thread = IterVar(Range(0, 8), t, IterVar.ThreadIndex, "threadIdx.x")
    (got,) = domain_touched(AttrStmt(thread, "thread_extent", const(8), BufferStore(C, 1.0, (t + 1,))), C)
    assert (got.min.value, got.extent.value) == (1, 8)
    block = Block([IterVar(Range(0, 64), k, IterVar.DataPar)], [], [], "b", store)
    (got,) = domain_touched(For(i, 0, 4, 0, BlockRealize([i + 3], True, block)), C)
    assert (got.min.value, got.extent.value) == (3, 4)
    load = Let(k, i + 5, BufferLoad(C, (k,)))
    (got,) = domain_touched(For(i, 0, 4, 0, Evaluate(load)), C)
    assert (got.min.value, got.extent.value) == (5, 4)


def test_an_unbounded_index_gives_the_whole_dimension():
    C = decl_buffer((64,), name="C")
    index = decl_buffer((64,), "int32", name="index")
    inner = BufferStore(C, 1.0, (BufferLoad(index, (i,)),))
    (got,) = domain_touched(For(i, 0, 4, 0, inner), C)
    assert (got.min.value, got.extent.value) == (0, 64)
    (got,) = domain_touched(For(i, 0, 4, 0, inner), index)
    assert (got.min.value, got.extent.value) == (0, 4)


def test_both_branches_and_all_of_a_sequence_count():
    C = decl_buffer((64,), name="C")
    body = IfThenElse(i < 2, BufferStore(C, 1.0, (i,)), BufferStore(C, 1.0, (i + 20,)))
    (got,) = domain_touched(seq(For(i, 0, 4, 0, body), BufferStore(C, 1.0, (40,))), C)
    assert (got.min.value, got.extent.value) == (0, 41)
