"""Unrolled loops of stores that begin or end where their condition does."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

from tvm.ir.prim import IterVar, Range, SizeVar
from tvm.ir.primop import logical_and
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import likely
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, seq
from tvm.tir.transform.end_loops import end_loops

TILE = 5


def tiles(condition, store=None, kind=ForKind.UNROLLED, size=None, around=None):
    """Tiles of five elements that are doubled in memory of their own, and stored where ``condition(x, i, n)`` holds."""
    n = SizeVar("n", "int32") if size is None else size
    a, b = decl_buffer((n,), "int32", "A"), decl_buffer((n,), "int32", "B")
    tile = decl_buffer((TILE,), "int32", "tile", scope="local")
    x, i, j = var("x"), var("i"), var("j")
    first = For(i, 0, TILE, ForKind.UNROLLED, IfThenElse(x * TILE + i < n, BufferStore(tile, a[x * TILE + i] * 2, [i])))
    stored = (store or (lambda a, b, tile, at, j: BufferStore(b, tile[j], [at])))(a, b, tile, x * TILE + j, j)
    last = For(j, 0, TILE, kind, IfThenElse(condition(x * TILE, j, n), stored))
    body = Allocate(tile.data, "int32", [TILE], True, seq(first, (around or (lambda s: s))(last)))
    return PrimFunc([a, b], For(x, 0, (n + TILE - 1) // TILE, ForKind.SERIAL, body))


def data(n):
    return np.arange(1, n + 1, dtype="int32"), np.full(n, -7, "int32")


@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 13])
@pytest.mark.parametrize("condition", [
    lambda x, i, n: likely(x + i < n), lambda x, i, n: likely(x + i <= n - 1), lambda x, i, n: i + x < n,
])  # fmt: skip
def test_a_loop_of_stores_ends_with_its_condition(condition, n):
    new = same_result(end_loops, tiles(condition), *data(n))
    fill, stores = of(For, new)[:2]
    # Memory of the tile is filled as before.
    assert fill.kind is ForKind.UNROLLED and isinstance(fill.body, IfThenElse)
    assert stores.kind is ForKind.SERIAL and isinstance(stores.body, BufferStore)


@pytest.mark.parametrize("n", [1, 7, 12])
def test_two_conditions_end_a_loop_at_the_nearer(n):
    def both(x, i, size):
        return logical_and(likely(x + i < size), likely(x + i <= size - 9))

    new = same_result(end_loops, tiles(both), *data(n))
    assert of(For, new)[1].kind is ForKind.SERIAL


@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 13])
@pytest.mark.parametrize("condition", [
    lambda x, i, n: likely(n - 3 < x + i), lambda x, i, n: likely(x + i >= n - 3), lambda x, i, n: n - 7 <= i + x,
    lambda x, i, n: logical_and(likely(x + i >= n - 7), likely(x + i < n - 1)),
])  # fmt: skip
def test_a_loop_of_stores_begins_with_its_condition(condition, n):
    inside = tiles(lambda x, i, n: logical_and(condition(x, i, n), x + i < n))
    new = same_result(end_loops, inside, *data(n))
    stores = of(For, new)[1]
    assert stores.kind is ForKind.SERIAL and isinstance(stores.body, BufferStore)


def thread(body):
    axis = IterVar(Range(0, 1), var("threadIdx.x"), 1, "threadIdx.x")
    return AttrStmt(axis, "thread_extent", 1, body)


@pytest.mark.parametrize("given", [
    # of other kinds, or of known sizes
    {"kind": ForKind.SERIAL}, {"size": 13},
    # conditions that do not end a loop: on every other element, on data
    {"condition": lambda x, i, n: likely(x + i * 2 < n)},
    {"condition": lambda x, i, n: likely(x < n)},
    # a condition that never holds for the last step
    {"condition": lambda x, i, n: likely(n // TILE * TILE + x + i < n)},
    # stores that read what they write, or write into the tile
    {"store": lambda a, b, tile, at, j: BufferStore(b, b[at] + tile[j], [at])},
    {"store": lambda a, b, tile, at, j: BufferStore(tile, a[at], [j])},
    # threads
    {"around": thread},
])  # fmt: skip
def test_other_loops_stay(given):
    func = tiles(**{"condition": lambda x, i, n: likely(x + i < n), **given})
    assert end_loops(func).body is func.body


def test_loops_inside_stay_unrolled():
    n = SizeVar("n", "int32")
    b = decl_buffer((n, 2), "int32", "B")
    i, j = var("i"), var("j")
    inside = For(j, 0, 2, ForKind.UNROLLED, BufferStore(b, i * 2 + j, [i, j]))
    func = PrimFunc([b], For(i, 0, 4, ForKind.UNROLLED, IfThenElse(likely(i < n), inside)))
    for size in (0, 3, 6):
        new = same_result(end_loops, func, np.full((size, 2), -7, "int32"))
    assert {loop.loop_var.name: loop.kind for loop in of(For, new)} == {"i": ForKind.SERIAL, "j": ForKind.UNROLLED}


def sums(body=None):
    """Sums of every fifth element, kept in registers, of which the last step adds those that are there."""
    n = SizeVar("n", "int32")
    a, b = decl_buffer((n, 2), "int32", "A"), decl_buffer((2,), "int32", "B")
    tile = decl_buffer((2,), "int32", "tile", scope="local")
    k, i, j, start, end = (var(name) for name in ("k", "i", "j", "start", "end"))
    body = body or (lambda tile, a, at, i, j: BufferStore(tile, tile[j] + a[at, j] * at, [j]))
    add = body(tile, a, k * TILE + i, i, j)
    step = For(i, 0, TILE, ForKind.UNROLLED, IfThenElse(likely(k * TILE + i < n), For(j, 0, 2, ForKind.UNROLLED, add)))
    parts = [
        For(start, 0, 2, ForKind.UNROLLED, BufferStore(tile, 0, [start])),
        For(k, 0, (n + TILE - 1) // TILE, ForKind.SERIAL, step),
        For(end, 0, 2, ForKind.UNROLLED, BufferStore(b, tile[end], [end])),
    ]
    return PrimFunc([a, b], Allocate(tile.data, "int32", [2], True, seq(*parts)))


@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 13])
def test_a_step_of_a_sum_ends_with_its_condition(n):
    given = np.arange(1, 2 * n + 1, dtype="int32").reshape(n, 2), np.full(2, -7, "int32")
    new = same_result(end_loops, sums(), *given)
    kinds = {loop.loop_var.name: loop.kind for loop in of(For, new)}
    # The tile is in registers: what indexes it stays unrolled.
    assert kinds["i"] is ForKind.SERIAL and kinds["j"] is ForKind.UNROLLED


@pytest.mark.parametrize("body", [
    # other elements of the tile in every iteration, or memory
    lambda tile, a, at, i, j: BufferStore(tile, tile[j] + a[at, j], [(i + j) % 2]),
    lambda tile, a, at, i, j: BufferStore(a, tile[j] + a[at, j], [at, j]),
], ids=["other elements", "memory"])  # fmt: skip
def test_steps_that_do_more_than_add_to_a_tile_stay(body):
    func = sums(body)
    assert end_loops(func).body is func.body
