"""Dividing loops: interiors without conditions, remainders with them, symbolic lengths."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

import tvm
from tvm.arith import Analyzer
from tvm.ir.pass_config import LoopPartitionConfig
from tvm.ir.prim import Call, IterVar, Min, Range, Select, const
from tvm.ir.subst import substitute
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import if_then_else, likely
from tvm.tir.stmt import AttrStmt, BufferRealize, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, no_op, seq
from tvm.tir.transform.loop_partition import acts_only_under, loop_partition
from tvm.tir.transform.remove_no_op import remove_no_op
from tvm.tir.transform.simplify import simplify

ALL = LoopPartitionConfig(partition_const_loop=True)


def copy(a, b, limit, outer, inner, kind=ForKind.SERIAL):
    i, j = var("i"), var("j")
    at = i * inner + j
    return For(i, 0, outer, 0, For(j, 0, inner, kind, IfThenElse(likely(at < limit), BufferStore(b, a[at] + 1, [at]))))


def likelies(node):
    return [c for c in of(Call, node) if c.op.name == "tir.likely"]


def data(n):
    return np.arange(n, dtype="int32"), np.zeros(n, "int32")


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 13])
def test_symbolic_length_is_divided(n):
    m = var("m")
    a, b = decl_buffer((m,), "int32", "A"), decl_buffer((m,), "int32", "B")
    func = PrimFunc([a, b], copy(a, b, m, (m + 3) // 4, 4))
    new = same_result(loop_partition, func, *data(n))
    outer = new.body.seq
    assert len(outer) == 2 and not likelies(outer[0]) and likelies(outer[1])


def test_known_length_is_divided_only_for_vectors_or_on_demand():
    a, b = decl_buffer((13,), "int32", "A"), decl_buffer((13,), "int32", "B")
    func = PrimFunc([a, b], copy(a, b, 13, 4, 4))
    assert loop_partition(func).body is func.body
    new = same_result(lambda f: loop_partition(f, ALL), func, *data(13))
    assert len(likelies(new.body.seq[0])) == 0
    vector = PrimFunc([a, b], copy(a, b, 13, 4, 4, ForKind.VECTORIZED))
    new = same_result(loop_partition, vector, *data(13))
    assert not likelies(new.body.seq[0])


@pytest.mark.parametrize("kept, loops", [(False, 2), (True, 4)])
def test_loops_of_one_iteration_stay_where_that_is_asked_for(kept, loops):
    a, b = decl_buffer((13,), "int32", "A"), decl_buffer((13,), "int32", "B")
    func = PrimFunc([a, b], copy(a, b, 13, 4, 4))
    config = LoopPartitionConfig(partition_const_loop=True, no_unroll_loop_with_extent_one=kept)
    new = same_result(lambda f: remove_no_op(simplify(loop_partition(f, config))), func, *data(13))
    assert len(of(For, new)) == loops and not likelies(new)


def test_hint_divides_one_loop():
    a, b = decl_buffer((13,), "int32", "A"), decl_buffer((13,), "int32", "B")
    nest = copy(a, b, 13, 4, 4)
    func = PrimFunc([a, b], AttrStmt(nest.loop_var, "pragma_loop_partition_hint", const(1), nest))
    assert len(same_result(loop_partition, func, *data(13)).body.seq) == 2


@pytest.mark.parametrize("hint, parts", [(1, 2), (0, 1)])
def test_a_hint_divides_a_loop_or_leaves_it_whole(hint, parts):
    """A loop of unknown length is divided without a hint; its body may be too long for a second copy."""
    m = var("m")
    a, b = decl_buffer((m,), "int32", "A"), decl_buffer((m,), "int32", "B")
    nest = copy(a, b, m, (m + 3) // 4, 4)
    func = PrimFunc([a, b], AttrStmt(nest.loop_var, "pragma_loop_partition_hint", const(hint), nest))
    assert len(of(For, same_result(loop_partition, func, *data(13)))) == 2 * parts
    annotated = PrimFunc([a, b], nest.replace(annotations={"pragma_loop_partition_hint": const(hint)}))
    assert len(of(For, same_result(loop_partition, annotated, *data(13)))) == 2 * parts


@pytest.mark.parametrize("rows, columns", [(3, 13), (2, 16), (1, 5), (2, 0), (0, 3)])
def test_a_divisor_is_not_zero_inside_of_a_loop_over_a_multiple_of_it(rows, columns):
    """Rows and parts of rows are one loop: which part it is says a remainder by the number of parts."""
    n, m, t, j = var("n"), var("m"), var("t"), var("j")
    a, b = decl_buffer((n, m), "int32", "A"), decl_buffer((n, m), "int32", "B")
    parts = (m + 7) // 8
    row, at = t // parts, t % parts * 8 + j
    inner = For(j, 0, 8, 0, IfThenElse(likely(at < m), BufferStore(b, a[row, at] + 1, [row, at])))
    hinted = AttrStmt(j, "pragma_loop_partition_hint", const(1), inner)
    func = PrimFunc([a, b], For(t, 0, n * parts, 0, hinted))
    given = np.arange(rows * columns, dtype="int32").reshape(rows, columns), np.zeros((rows, columns), "int32")
    new = same_result(loop_partition, func, *given)
    first, rest = new.body.body.seq
    assert not likelies(first) and likelies(rest)


def test_both_ends_of_a_padded_read():
    a, b = decl_buffer((10,), "int32", "A"), decl_buffer((14,), "int32", "B")
    i = var("i")
    value = if_then_else(likely(i >= 2), if_then_else(likely(i < 12), a[i - 2], const(0)), const(0))
    func = PrimFunc([a, b], For(i, 0, 14, 0, BufferStore(b, value, [i])))
    new = same_result(lambda f: loop_partition(f, ALL), func, np.arange(10, dtype="int32"), np.zeros(14, "int32"))
    loops = of(For, new)
    assert len(loops) == 3 and sorted(int(f.extent) for f in loops) == [2, 2, 10]


def test_no_variable_is_defined_twice():
    m = var("m")
    a, b = decl_buffer((m,), "int32", "A"), decl_buffer((m,), "int32", "B")
    new = loop_partition(PrimFunc([a, b], copy(a, b, m, (m + 3) // 4, 4)))
    names = [f.loop_var for f in of(For, new)]
    assert len(names) == 4 and len({id(n) for n in names}) == 4


def test_padding_of_a_vectorized_loop_leaves_a_whole_interior():
    a, b = decl_buffer((20,), "int32", "A"), decl_buffer((24,), "int32", "B")
    i, j = var("i"), var("j")
    at = i * 4 + j
    value = if_then_else(at >= 2, if_then_else(at < 22, a[at - 2], const(0)), const(0))
    func = PrimFunc([a, b], For(i, 0, 6, 0, For(j, 0, 4, ForKind.VECTORIZED, BufferStore(b, value, [at]))))
    new = same_result(loop_partition, func, np.arange(20, dtype="int32"), np.zeros(24, "int32"))
    interior = [f for f in of(For, new) if f.kind is ForKind.SERIAL]
    assert [int(f.extent) for f in interior] == [4]
    assert not [c for c in of(Call, interior[0]) if c.op.name == "tir.if_then_else"]
    # With no vector in the way the loop stays whole.
    serial = PrimFunc([a, b], For(i, 0, 6, 0, For(j, 0, 4, 0, BufferStore(b, value, [at]))))
    assert loop_partition(serial).body is serial.body


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 13])
def test_a_choice_that_ends_with_the_interior_is_made_in_the_rest(n):
    """Whole tiles read their own elements, the last one repeats the last element."""
    m, i, j = var("m"), var("i"), var("j")
    a, b = decl_buffer((m,), "int32", "A"), decl_buffer((m,), "int32", "B")
    at = i * 4 + j
    read = a[Select(likely(i < m // 4), at, tvm.tir.min(at, m - 1))]
    store = IfThenElse(likely(at < m), BufferStore(b, read + 1, [at]))
    func = PrimFunc([a, b], For(i, 0, (m + 3) // 4, 0, For(j, 0, 4, 0, store)))
    new = same_result(loop_partition, func, *data(n))
    interior, rest = new.body.seq
    assert not of(Select, interior) and not of(Min, interior)
    assert not of(Select, rest) and of(Min, rest)


def blocks_of_tiles(more=lambda b, at, i, inner: inner):
    """Two blocks of six tiles of four elements, of which the second has 11 elements in three tiles."""
    a, b = decl_buffer((35,), "int32", "A"), decl_buffer((64,), "int32", "B")
    block, i, j = var("block"), var("i"), var("j")
    at = block * 24 + i * 4 + j
    inner = For(j, 0, 4, 0, IfThenElse(likely(at < 35), BufferStore(b, a[at] + 1, [at])))
    tiles = For(i, 0, 6, 0, more(b, at, i, inner), None, {"pragma_loop_partition_hint": 1})
    func = PrimFunc([a, b], For(block, 0, 2, 0, tiles))
    new = same_result(loop_partition, func, np.arange(35, dtype="int32"), np.zeros(64, "int32"))
    extents = [f.extent for f in of(For, new) if f.loop_var.name == "i"]
    at = [{new.body.loop_var: const(n)} for n in (0, 1)]
    return [tuple(int(Analyzer().simplify(substitute(extent, block))) for extent in extents) for block in at]


def test_iterations_that_do_nothing_are_left_out():
    assert blocks_of_tiles() == [(6, 0), (2, 1)]


def test_what_is_written_to_memory_of_an_iteration_is_not_seen_outside():
    own = decl_buffer((4,), "int32", "own")

    def with_own(b, at, i, inner):
        return BufferRealize(own, [Range(0, 4)], const(True), seq(BufferStore(own, i, [0]), inner))

    assert blocks_of_tiles(with_own) == [(6, 0), (2, 1)]


@pytest.mark.parametrize("is_guarded", [False, True])
def test_iterations_that_still_do_something_stay(is_guarded):
    def with_store(b, at, i, inner):
        store = BufferStore(b, i, [i + 40])
        return seq(IfThenElse(i < 5, store) if is_guarded else store, inner)

    assert blocks_of_tiles(with_store)[1] == (2, 4)


def test_calls_with_effects_are_seen_outside():
    a, i = decl_buffer((8,), "int32", "A"), var("i")
    inside, store = i < 3, BufferStore(a, 1, [i])
    assert acts_only_under(IfThenElse(tvm.tir.all(likely(inside), i > 0), store), {inside})
    assert not acts_only_under(IfThenElse(likely(i < 4), store), {inside})
    assert not acts_only_under(IfThenElse(likely(inside), store, store), {inside})
    call, own = tvm.tir.call_extern("int32", "next", i), decl_buffer((1,), "int32", "own")
    kept = BufferStore(own, call, [0])
    with_own = BufferRealize(own, [Range(0, 1)], const(True), kept)
    others = LetStmt(var("x"), call, no_op()), IfThenElse(call > 0, no_op()), with_own
    for body in (Evaluate(call), Evaluate(call + 1), *others):
        assert not acts_only_under(body, {inside})


def test_threads_that_wait_for_each_other_take_the_same_iterations():
    a, shared = decl_buffer((35,), "int32", "A"), decl_buffer((8,), "int32", "S", scope="shared")
    thread = IterVar(Range(0, 8), var("threadIdx.x"), IterVar.ThreadIndex, "threadIdx.x")
    i, j = var("i"), var("j")
    at = thread.var * 5 + i * 2 + j
    store = For(j, 0, 2, 0, IfThenElse(likely(at < 35), BufferStore(a, shared[thread.var] + 1, [at])))
    body = BufferRealize(shared, [Range(0, 8)], const(True), seq(BufferStore(shared, i, [thread.var]), store))
    nest = For(i, 0, 6, 0, body, None, {"pragma_loop_partition_hint": 1})
    func = PrimFunc([a], AttrStmt(thread, "thread_extent", const(8), nest))
    assert [int(f.extent) for f in of(For, loop_partition(func)) if f.loop_var.name == "i"] == [6]
