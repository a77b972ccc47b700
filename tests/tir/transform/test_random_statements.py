"""Random statements, not made by any schedule: every pass keeps what they compute.

Indices are taken modulo the size of their buffer, so all accesses are legal; in vectorized loops each iteration writes
places of its own and reads only what no iteration writes.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from interpreter import run

import tvm
from tvm.ir import primop
from tvm.ir.prim import Let, Select, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import if_then_else, likely
from tvm.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, seq
from tvm.tir.transform.common_subexpr_elim import common_subexpr_elim
from tvm.tir.transform.convert_ssa import convert_ssa
from tvm.tir.transform.hoist_if_then_else import hoist_if_then_else
from tvm.tir.transform.loop_partition import loop_partition
from tvm.tir.transform.lower_intrin import lower_intrin
from tvm.tir.transform.narrow_data_type import narrow_data_type
from tvm.tir.transform.remove_no_op import remove_no_op
from tvm.tir.transform.rewrite_unsafe_select import rewrite_unsafe_select
from tvm.tir.transform.simplify import simplify
from tvm.tir.transform.storage_rewrite import storage_rewrite
from tvm.tir.transform.unroll_loop import unroll_loop
from tvm.tir.transform.unswitch_loops import unswitch_loops
from tvm.tir.transform.vectorize_loop import vectorize_loop

SIZE = 48


class Generator:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.dtype = rng.choice(["int32", "int32", "int64"])
        self.a = decl_buffer((SIZE,), "int32", "A")
        self.b = decl_buffer((SIZE,), "int32", "B")
        self.n = Var("n", self.dtype)
        self.names = 0
        self.temporaries: list = []

    def fresh(self, letter: str, dtype: str) -> Var:
        self.names += 1
        return Var(f"{letter}{self.names}", dtype)

    # Expressions ----------------------------------------------------------------------------------------------
    def index(self, loops, depth=3):
        """Arithmetic on loop variables, small enough never to overflow."""
        rng = self.rng
        if not depth or rng.random() < 0.25:
            choices = [*loops, const(rng.randint(0, 9), self.dtype)]
            return rng.choice([*choices, self.n] if rng.random() < 0.2 else choices)
        a, b = self.index(loops, depth - 1), self.index(loops, depth - 1)
        c = const(rng.randint(1, 7), self.dtype)
        build = rng.choice([
            lambda: a + b, lambda: a - b, lambda: a * c, lambda: a // c, lambda: a % c, lambda: primop.minimum(a, b),
            lambda: primop.maximum(a, b), lambda: a + c, lambda: primop.div(a, c), lambda: primop.truncmod(a, c),
            lambda: Select(self.condition(loops, 1), a, b), lambda: (a * c + b) // c, lambda: (a * c + b) % c,
        ])  # fmt: skip
        return build()

    def condition(self, loops, depth=2):
        rng = self.rng
        compare = rng.choice([primop.less, primop.less_equal, primop.greater, primop.equal, primop.not_equal])
        made = compare(self.index(loops, depth), self.index(loops, depth))
        if rng.random() < 0.2:
            made = rng.choice([primop.logical_and, primop.logical_or])(made, self.condition(loops, 1))
        if rng.random() < 0.1:
            made = primop.logical_not(made)
        return made

    def place(self, loops):
        return self.index(loops) % const(SIZE, self.dtype)

    def value(self, loops, sources, depth=2):
        rng = self.rng
        if not depth or rng.random() < 0.3:
            pick = rng.random()
            if pick < 0.5 and sources:
                return rng.choice(sources)[self.place(loops)]
            return self.index(loops, 1).astype("int32") if pick < 0.8 else const(rng.randint(-9, 9))
        a, b = self.value(loops, sources, depth - 1), self.value(loops, sources, depth - 1)
        kind = rng.randrange(6)
        if kind == 0:
            return if_then_else(self.condition(loops), a, b)
        if kind == 1:
            return Select(self.condition(loops), a, b)
        if kind == 2:
            x = self.fresh("x", "int32")
            return Let(x, a, x * 3 + b)
        return (a + b, a - b, a * b)[kind - 3]

    # Statements -----------------------------------------------------------------------------------------------
    def statement(self, loops, depth):
        rng = self.rng
        kinds = ["store", "store", "loop", "loop", "branch", "let", "sequence", "memory"]
        kind = rng.choice(kinds) if depth else "store"
        if kind == "store":
            sources = [self.a, self.b, *self.temporaries]
            target = rng.choice([self.b, self.b, *self.temporaries])
            return BufferStore(target, self.value(loops, sources), [self.place(loops)])
        if kind == "loop":
            if rng.random() < 0.25:
                return self.vector_loop(loops)
            v = self.fresh("i", self.dtype)
            extent = const(rng.choice([0, 1, 2, 3, 5]), self.dtype) if rng.random() < 0.8 else self.n
            mark = ForKind.UNROLLED if rng.random() < 0.15 and extent is not self.n else ForKind.SERIAL
            return For(v, 0, extent, mark, self.statement([*loops, v], depth - 1))
        if kind == "branch":
            condition = self.condition(loops)
            condition = likely(condition) if rng.random() < 0.4 else condition
            other = self.statement(loops, depth - 1) if rng.random() < 0.4 else None
            return IfThenElse(condition, self.statement(loops, depth - 1), other)
        if kind == "let":
            x = self.fresh("x", self.dtype)
            return LetStmt(x, self.index(loops), self.statement([*loops, x], depth - 1))
        if kind == "sequence":
            return seq(*[self.statement(loops, depth - 1) for _ in range(rng.randint(2, 3))])
        return self.memory(loops, depth)

    def memory(self, loops, depth):
        t = decl_buffer((SIZE,), "int32", f"t{self.names}")
        i = self.fresh("i", self.dtype)
        start = For(i, 0, SIZE, 0, BufferStore(t, self.value([*loops, i], [self.a, self.b], 1), [i]))
        self.temporaries.append(t)
        body = seq(start, *[self.statement(loops, depth - 1) for _ in range(self.rng.randint(1, 2))])
        self.temporaries.pop()
        return Allocate(t.data, "int32", [SIZE], const(True), body)

    def vector_loop(self, loops):
        rng = self.rng
        v = self.fresh("v", self.dtype)
        lanes = rng.choice([2, 4, 5])
        step = rng.choice([1, 2, 3, -1])
        base = self.index(loops, 1) % const(SIZE - 4 * 4, self.dtype) + (lanes * 2 if step < 0 else 0)
        store = BufferStore(self.b, self.value([*loops, v], [self.a]), [base + v * step])
        if rng.random() < 0.3:
            store = IfThenElse(self.condition([*loops, v]), store)
        return For(v, 0, lanes, ForKind.VECTORIZED, store)

    def function(self):
        return PrimFunc([self.a, self.b, self.n], self.statement([], 5))


def outcome(func):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 10, SIZE).astype("int32") for _ in range(2))
    run(func, a, b, 4)
    return b


PASSES = (
    simplify, vectorize_loop, unroll_loop, narrow_data_type, rewrite_unsafe_select, hoist_if_then_else, unswitch_loops,
    remove_no_op, loop_partition, storage_rewrite, common_subexpr_elim, convert_ssa, lower_intrin,
)  # fmt: skip


@pytest.mark.parametrize("case", range(20))
def test_passes_keep_what_statements_compute(case, seed):
    rng = random.Random(seed * 1000 + case)
    func = Generator(rng).function()
    want = outcome(func)
    for function_pass in PASSES:
        np.testing.assert_array_equal(outcome(function_pass(func)), want, err_msg=function_pass.__name__)
    order = list(PASSES)
    rng.shuffle(order)
    for function_pass in order:
        func = function_pass(func)
    np.testing.assert_array_equal(outcome(func), want, err_msg=" ".join(p.__name__ for p in order))


@pytest.mark.parametrize("case", range(6))
def test_compiled_statements_compute_the_same(case, seed):
    func = Generator(random.Random(seed * 1000 + 500 + case)).function()
    built = tvm.build(func.with_attr("global_symbol", "f"), target="llvm")
    rng = np.random.default_rng(1)
    a, b = (tvm.nd.array(rng.integers(-9, 10, SIZE).astype("int32")) for _ in range(2))
    built["f"](a, b, 4)
    np.testing.assert_array_equal(b.numpy(), outcome(func))
