"""Dividing loops: interiors without conditions, remainders with them, symbolic lengths."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

import tvm
from tvm.ir.pass_config import LoopPartitionConfig
from tvm.ir.prim import Call, Min, Select, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import if_then_else, likely
from tvm.tir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse
from tvm.tir.transform.loop_partition import loop_partition
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
