"""Random expressions keep their values through every simplifier, and every analysis contains the values it bounds."""

from __future__ import annotations

import os
import random

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet, eval_set
from tvm.ir.prim import IntImm, Range, SizeVar, Var, const

from .points import Generator, value
from .text import show

SEED = int(os.environ.get("TVM_TEST_SEED", "0")) or 20240711
ROUNDS = int(os.environ.get("TVM_TEST_ROUNDS", "150"))


def _context(rng: random.Random, dtype: str = "int32"):
    """An analyzer with bound variables, and a function that draws a point in its context."""
    an = Analyzer()
    variables, ranges = [], {}
    for name in "xyz":
        kind = rng.random()
        if kind < 0.6:
            low = rng.choice([0, 0, 0, 1, -7, 5]) if dtype in ("int32", "int64") else 0
            high = low + rng.choice([1, 3, 7, 15, 31, 63])
            var = Var(name, dtype)
            an.bind(var, Range(const(low, dtype), const(high + 1, dtype)))
        elif kind < 0.7 and dtype in ("int32", "int64"):
            var = Var(name, dtype)
            step, rest = rng.choice([(4, 1), (2, 0), (6, 3)])
            an.update(var, ModularSet(step, rest))
            an.update(var, ConstIntBound(-60, 60))
            ranges[var] = [v for v in range(-60, 61) if v % step == rest]
            variables.append(var)
            continue
        elif kind < 0.8 and dtype in ("int32", "int64"):
            var, low, high = SizeVar(name, dtype), 0, 50
        else:
            var = Var(name, dtype)
            low, high = (-40, 40) if dtype in ("int32", "int64") else (0, 127)
        ranges[var] = list(range(low, high + 1))
        variables.append(var)

    def draw():
        return {v: rng.choice(ranges[v]) for v in variables}

    return an, variables, draw


@pytest.mark.parametrize("method", ["rewrite_simplify", "canonical_simplify", "simplify"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_simplified_expressions_keep_their_values(method, dtype):
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        an, variables, draw = _context(rng, dtype)
        gen = Generator(rng, variables, dtype)
        e = gen.expr(rng.randint(2, 4)) if rng.random() < 0.7 else gen.condition(rng.randint(2, 4))
        got = getattr(an, method)(e)
        assert got.dtype == e.dtype
        for _ in range(20):
            point = draw()
            want = value(e, point)
            if want is not None:
                where = {v.name: p for v, p in point.items()}
                assert value(got, point) == want, f"seed {SEED} round {number}: {show(e)} -> {show(got)} at {where}"


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32"])
def test_types_that_wrap_keep_their_values(dtype):
    rng = random.Random(SEED + 1)
    for number in range(ROUNDS):
        an, variables, draw = _context(rng, dtype)
        gen = Generator(rng, variables, dtype)
        e = gen.expr(rng.randint(2, 3)) if rng.random() < 0.6 else gen.condition(rng.randint(2, 3))
        got = an.simplify(e)
        for _ in range(20):
            point = draw()
            want = value(e, point)
            if want is not None:
                where = {v.name: p for v, p in point.items()}
                assert value(got, point) == want, f"seed {SEED} round {number}: {show(e)} -> {show(got)} at {where}"


def test_bounds_and_moduli_contain_the_values():
    rng = random.Random(SEED + 2)
    for number in range(ROUNDS * 2):
        dtype = rng.choice(["int32", "int32", "int64", "uint8", "int8"])
        an, variables, draw = _context(rng, dtype)
        e = Generator(rng, variables, dtype).expr(rng.randint(1, 4))
        bound, modulus = an.const_int_bound(e), an.modular_set(e)
        for _ in range(20):
            got = value(e, draw())
            if got is None:
                continue
            assert bound.min_value <= got <= bound.max_value, f"seed {SEED} round {number}: {show(e)} is {got}: {bound}"
            same = got == modulus.base if modulus.coeff == 0 else got % modulus.coeff == modulus.base
            assert same, f"seed {SEED} round {number}: {show(e)} is {got}: {modulus}"


def test_sets_contain_the_values():
    rng = random.Random(SEED + 3)
    for number in range(ROUNDS):
        x, y, n = Var("x"), Var("y"), Var("n")
        low, size = rng.randint(-6, 6), rng.randint(1, 12)
        symbolic = rng.random() < 0.4
        domain = {x: Range(const(low, "int32"), const(low + size, "int32"))}
        domain[y] = Range(n, n + size) if symbolic else IntervalSet(0, size)
        e = Generator(rng, [x, y, n]).expr(rng.randint(1, 3))
        got = eval_set(e, domain)
        for _ in range(20):
            point = {x: rng.randrange(low, low + size), n: rng.randint(-9, 9)}
            point[y] = point[n] + rng.randrange(size) if symbolic else rng.randint(0, size)
            v = value(e, point)
            if v is None:
                continue
            text = f"seed {SEED} round {number}: {show(e)} is {v} at {[(k.name, p) for k, p in point.items()]}"
            if got.has_lower_bound():
                end = value(got.min_value, point)
                assert end is None or end <= v, f"{text}: below {show(got.min_value)}"
            if got.has_upper_bound():
                end = value(got.max_value, point)
                assert end is None or v <= end, f"{text}: above {show(got.max_value)}"


def test_nothing_false_is_proved():
    rng = random.Random(SEED + 4)
    proved = 0
    for number in range(ROUNDS * 2):
        an, variables, draw = _context(rng)
        gen = Generator(rng, variables)
        given, goal = gen.condition(1), gen.condition(rng.randint(1, 2))
        with an.constraint_scope(given):
            ok = an.can_prove(goal)
        outside = an.can_prove(goal)
        proved += ok
        for _ in range(30):
            point = draw()
            if outside:
                assert value(goal, point) in (1, None), f"seed {SEED} round {number}: {show(goal)}"
            if ok and value(given, point) == 1:
                assert value(goal, point) in (1, None), f"seed {SEED} round {number}: {show(goal)} given {show(given)}"
    assert proved > 0


def test_values_under_a_constraint_are_kept():
    rng = random.Random(SEED + 5)
    for number in range(ROUNDS):
        an, variables, draw = _context(rng)
        gen = Generator(rng, variables)
        given, e = gen.condition(1), gen.expr(rng.randint(2, 3))
        with an.constraint_scope(given):
            got = an.simplify(e)
        for _ in range(30):
            point = draw()
            want = value(e, point)
            if value(given, point) == 1 and want is not None:
                assert value(got, point) == want, (
                    f"seed {SEED} round {number}: {show(e)} -> {show(got)} given {show(given)}"
                )


def test_symbolic_ranges_keep_values():
    rng = random.Random(SEED + 6)
    for number in range(ROUNDS):
        an = Analyzer()
        n, i, j = SizeVar("n"), Var("i"), Var("j")
        factor = rng.choice([2, 4, 8])
        an.bind(i, Range(const(0, "int32"), (n + (factor - 1)) // factor))
        an.bind(j, Range(0, factor))
        e = Generator(rng, [i, j, n]).condition(3)
        got = an.simplify(e)
        for _ in range(20):
            size = rng.randint(1, 40)
            point = {n: size, i: rng.randrange((size + factor - 1) // factor), j: rng.randrange(factor)}
            want = value(e, point)
            if want is not None:
                assert value(got, point) == want, f"seed {SEED} round {number}: {show(e)} -> {show(got)}"
        assert isinstance(an.simplify(i * factor + j < (n + (factor - 1)) // factor * factor), IntImm)
