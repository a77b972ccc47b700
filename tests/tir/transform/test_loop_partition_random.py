"""Random loop nests do the same, in the same order, after their loops are divided."""

from __future__ import annotations

import random

import numpy as np
import pytest
from lowered import of, same_result, var

from tvm.arith import Analyzer
from tvm.ir.pass_config import LoopPartitionConfig
from tvm.ir.prim import And, BufferLoad, Call, IntImm, IterVar, Range, Var, const
from tvm.ir.primop import literal
from tvm.ir.subst import substitute
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import all as all_of
from tvm.tir.op import likely
from tvm.tir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, LetStmt, seq
from tvm.tir.transform.loop_partition import loop_partition
from tvm.tir.transform.simplify import simplify

ALL = LoopPartitionConfig(partition_const_loop=True)
HINTS = LoopPartitionConfig(unroll_loop_with_partition_hint_no_interval=True, no_unroll_loop_with_extent_one=True)
LENGTH = 4000


class Nest:
    """A random function that writes down, in order, which iterations ran and which branch they took."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.sizes = [var("n"), var("m")]
        self.log = decl_buffer((LENGTH,), "int32", "log")
        self.count = decl_buffer((1,), "int32", "count")
        self.data = decl_buffer((16,), "int32", "data")
        self.holders = [decl_buffer((s,), "int32", f"holder_{s.name}") for s in self.sizes]
        self.body = self.loop([], [], rng.randint(1, 3))
        self.func = PrimFunc([self.log, self.count, self.data, *self.holders], self.body)

    def note(self, values) -> BufferStore:
        code = const(7)
        for value in values:
            code = code * 13 + value
        at = BufferLoad(self.count, (0,))
        return seq(BufferStore(self.log, code, (at,)), BufferStore(self.count, at + 1, (0,)))

    def extent(self, outer):
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0:
            return self.sizes[0]
        if kind == 1:
            return (self.sizes[1] + 3) // 4
        if kind == 2 and outer:
            return rng.choice(outer) + rng.randint(0, 2)
        return const(rng.randint(1, 6))

    def condition(self, variables):
        rng = self.rng
        total = const(rng.randint(-3, 3))
        for v in rng.sample(variables, rng.randint(1, len(variables))):
            total = total + v * rng.choice([-2, -1, 1, 1, 2, 4])
        if rng.random() < 0.2:
            total = total // rng.choice([2, 3])
        limit = rng.choice([const(rng.randint(0, 12)), *self.sizes, self.sizes[0] - self.sizes[1]])
        if rng.random() < 0.15:
            limit = BufferLoad(self.data, (rng.choice([0, 1]),))
        return rng.choice([total < limit, total <= limit, total > limit, limit > total, limit <= total, total >= limit])

    def loop(self, outer: list, defined: list, depth: int):
        rng = self.rng
        i = var(f"i{depth}")
        inside = [*outer, i]
        let = var(f"k{depth}") if rng.random() < 0.3 else None
        visible = [*defined, i] if let is None else [*defined, i, let]
        body = self.loop(inside, visible, depth - 1) if depth > 1 else self.note(inside)
        condition = self.condition(visible)
        if rng.random() < 0.3:
            condition = all_of(condition, self.condition(visible))
        if rng.random() < 0.8:
            condition = likely(condition)
        body = IfThenElse(condition, body, self.note([const(-1), *inside]) if rng.random() < 0.5 else None)
        if rng.random() < 0.2:
            body = seq(body, BufferStore(self.data, i + rng.randint(0, 4), (rng.choice([0, 1]),)))
        if let is not None:
            body = LetStmt(let, rng.choice(inside) * 2 - 1, body)
        kind = ForKind.UNROLLED if rng.random() < 0.1 else ForKind.SERIAL
        extent = self.extent(defined)
        if kind is ForKind.UNROLLED and not isinstance(extent, IntImm):
            kind = ForKind.SERIAL
        marks = {"pragma_loop_partition_hint": 1, "key": "value"} if rng.random() < 0.3 else {}
        return For(i, rng.choice([0, 0, 0, 2, -1]), extent, kind, body, None, marks)

    def arrays(self) -> list:
        rng = self.rng
        holders = [np.zeros(rng.choice([0, 1, 2, 3, 5, 8, 9]), "int32") for _ in self.sizes]
        data = np.array([rng.randint(-2, 9) for _ in range(16)], "int32")
        return [np.zeros(LENGTH, "int32"), np.zeros(1, "int32"), data, *holders]


@pytest.mark.slow("transforms and runs 60 random loop nests three times each")
def test_random_nests_do_the_same_in_the_same_order(seed):
    rng = random.Random(seed)
    divided = 0
    for _ in range(60):
        nest = Nest(rng)
        for config in (ALL, LoopPartitionConfig(), HINTS):
            new = same_result(lambda f, c=config: loop_partition(f, c), nest.func, *nest.arrays())
            divided += len(of(For, new)) > len(of(For, nest.func))
            assert not any("pragma_loop_partition_hint" in f.annotations for f in of(For, new))
            assert all(isinstance(f.extent, IntImm) for f in of(For, new) if f.kind is ForKind.UNROLLED)
    assert divided > 20


def test_a_bound_is_not_taken_from_a_variable_defined_in_the_loop():
    out = decl_buffer((16,), "int32", "out")
    i, k = var("i"), var("k")
    body = LetStmt(k, i * 2 - 3, IfThenElse(likely(i + k < 11), BufferStore(out, 1, (i,))))
    func = PrimFunc([out], For(i, 0, 16, 0, body))
    same_result(lambda f: loop_partition(f, ALL), func, np.zeros(16, "int32"))


def test_a_bound_is_not_taken_from_memory_the_loop_writes():
    out, limit = decl_buffer((16,), "int32", "out"), decl_buffer((1,), "int32", "limit")
    i = var("i")
    guarded = IfThenElse(likely(i < BufferLoad(limit, (0,))), BufferStore(out, 1, (i,)))
    func = PrimFunc([out, limit], For(i, 0, 16, 0, seq(guarded, BufferStore(limit, 8 - i, (0,)))))
    same_result(lambda f: loop_partition(f, ALL), func, np.zeros(16, "int32"), np.full(1, 9, "int32"))


def test_a_loop_bound_to_threads_stays_whole():
    out = decl_buffer((16,), "int32", "out")
    i = var("i")
    thread = IterVar(Range(0, 16), var("threadIdx.x"), IterVar.ThreadIndex, "threadIdx.x")
    body = IfThenElse(likely(i < 11), BufferStore(out, 1, (i,)))
    func = PrimFunc([out], For(i, 0, 16, ForKind.THREAD_BINDING, body, thread))
    assert len(of(For, loop_partition(func, ALL))) == 1


@pytest.mark.parametrize("n", [0, 1, 5, 11, 16])
def test_thread_extents_are_relaxed_in_the_interior(n):
    out, holder = decl_buffer((64,), "int32", "out"), decl_buffer((var("n"),), "int32", "holder")
    i, t = var("i"), var("t")
    (size,) = holder.shape
    thread = IterVar(Range(0, 4), t, IterVar.ThreadIndex, "threadIdx.x")
    body = For(i, 0, (size + 3) // 4, 0, IfThenElse(likely(i * 4 + t < size), BufferStore(out, 1, (i * 4 + t,))))
    func = PrimFunc([out, holder], AttrStmt(thread, "thread_extent", const(4), body))
    interior = of(For, loop_partition(func))[0]
    assert literal(interior.body.condition)
    for place in range(4):
        extent = Analyzer().simplify(substitute(interior.extent, {size: const(n), t: const(place)}))
        assert literal(extent) == len(range(place, n, 4))


def whole_loops(func, config=ALL):
    """The function after division and simplification, without loops of one iteration."""
    return simplify(loop_partition(func, config))


@pytest.mark.parametrize("length,factor", [(21, 4), (60, 16), (130, 8)])
def test_the_remainder_is_divided_as_well(length, factor):
    out = decl_buffer((length,), "int32", "out")
    i, j = var("i"), var("j")
    store = IfThenElse(likely(i * factor + j < length), BufferStore(out, 1, (i * factor + j,)))
    func = PrimFunc([out], For(i, 0, -(-length // factor), 0, For(j, 0, factor, 0, store)))
    assert not of(IfThenElse, same_result(whole_loops, func, np.zeros(length, "int32")))


def test_a_condition_that_never_holds_is_divided_off():
    out = decl_buffer((130,), "int32", "out")
    i, j = var("i"), var("j")
    store = IfThenElse(likely(i * 8 + j < 2), BufferStore(out, 1, (i * 8 + j,)))
    func = PrimFunc([out], For(i, 0, 16, 0, For(j, 0, 8, ForKind.UNROLLED, store)))
    new = same_result(whole_loops, func, np.zeros(130, "int32"))
    assert [int(f.extent) for f in of(For, new) if of(BufferStore, f)] == [2]


def test_a_hint_divides_at_plain_conditions_until_none_is_left():
    a, out = decl_buffer((160,), "int32", "a"), decl_buffer((160,), "int32", "out")
    i = var("i")
    inner = IfThenElse(And(10 <= i, i < 150), BufferStore(out, a[i] + 2, (i,)), BufferStore(out, a[i] + 3, (i,)))
    body = IfThenElse(i < 10, BufferStore(out, a[i] + 1, (i,)), inner)
    marks = {"pragma_loop_partition_hint": True, "key": "value"}
    func = PrimFunc([a, out], For(i, 0, 160, 0, body, None, marks))
    new = same_result(whole_loops, func, np.arange(160, dtype="int32"), np.zeros(160, "int32"))
    loops = of(For, new)
    assert [int(f.extent) for f in loops] == [10, 140, 10] and not of(IfThenElse, new)
    assert all(f.annotations == {"key": "value"} for f in loops)


def thread_nest(scope: str):
    size = var("n")
    out = decl_buffer((size,), "int32", "out")
    scratch = decl_buffer((64,), "int32", "scratch", scope=scope)
    j, t = var("j"), var("t")
    thread = IterVar(Range(0, 8), t, IterVar.ThreadIndex, "threadIdx.x")
    at = t * 4 + j
    store = IfThenElse(likely(at < size), BufferStore(out, BufferLoad(scratch, (at,)) + 1, (at,)))
    loop = For(j, 0, 4, ForKind.VECTORIZED, store)
    return PrimFunc([out, scratch], AttrStmt(thread, "thread_extent", const(8), loop))


def test_threads_with_complete_vectors_branch_off():
    new = loop_partition(thread_nest("global"))
    branch = new.body.body
    assert isinstance(branch, IfThenElse) and not of(Call, branch.then_case) and of(Call, branch.else_case)
    names = [v.name for v in of(Var, branch.condition)]
    assert "t" in names and "j" not in names


def test_threads_that_share_memory_stay_together():
    func = thread_nest("shared")
    assert isinstance(loop_partition(func).body.body, For)
