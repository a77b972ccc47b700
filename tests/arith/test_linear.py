"""Linear forms, clip bounds and deduced bounds; deduced bounds are checked point by point."""

from __future__ import annotations

import random

import pytest
from integer_points import points, value_at

from tvm.arith import Analyzer, IntervalSet
from tvm.arith.bound_deducer import deduce_bound
from tvm.arith.interval_set import neg_inf, pos_inf
from tvm.arith.linear import conjuncts, detect_clip_bound, detect_linear_equation
from tvm.ir.prim import EQ, GE, GT, LE, LT, And, Cast, FloatImm, Max, Min, Not, Or, Range, Var, const
from tvm.ir.visit import post_order

a, b, c, d = (Var(name) for name in "abcd")


def equal(x, y) -> bool:
    return Analyzer().can_prove_equal(x, y)


def test_coefficients_and_base_of_one_variable():
    factor, base = detect_linear_equation(a * 4 + b * 6 + 7, [a])
    assert factor.value == 4 and equal(base, b * 6 + 7)
    factor, base = detect_linear_equation(a * 4 + (a + 1) + b * 6 + 7, [a])
    assert factor.value == 5 and equal(base, b * 6 + 8)
    assert detect_linear_equation(a * b + 7, [a])[0] is b
    assert detect_linear_equation(b * 7, [a])[0].value == 0
    (base,) = detect_linear_equation(b * 7, [])
    assert equal(base, b * 7)


def test_coefficients_of_several_variables():
    got = detect_linear_equation(a * (d + 4) + a + b * 8, [a, b, c])
    assert equal(got[0], d + 5) and got[1].value == 8 and got[2].value == 0
    got = detect_linear_equation(((a * d + b) * 8 + c + 1) * 2, [a, b, c])
    assert [g.value for g in got[1:]] == [16, 2, 2]


@pytest.mark.parametrize("expr", [a * 4 * (a + 1), a * b, Max(a, b), a // 2 + b, Cast("int64", a) + 1])
def test_expressions_that_are_not_linear_give_nothing(expr):
    assert detect_linear_equation(expr, [a, b]) == []


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_differences_of_unsigned_numbers_have_negative_coefficients(dtype):
    x, y = Var("x", dtype), Var("y", dtype)
    number = const(100, dtype)
    assert [e.value for e in detect_linear_equation(number - x, [x])] == [-1, 100]
    three, five = (const(v, dtype) for v in (3, 5))
    assert [e.value for e in detect_linear_equation(x * three - x * five - number, [x])] == [-2, -100]
    assert [e.value for e in detect_linear_equation((number - x) * three + x * five + y, [x, y])] == [2, 1, 300]
    assert [e.dtype for e in detect_linear_equation(x * three + number, [x])] == [dtype, dtype]


def test_linear_forms_of_deep_and_shared_expressions():
    e = a
    for _ in range(20000):
        e = e + b
    assert detect_linear_equation(e, [a])[0].value == 1
    e = a + b
    for _ in range(28):
        e = e + e
    factor, base = detect_linear_equation(e, [a])
    assert factor.value == 1 << 28 and len(list(post_order(base))) < 100


def test_clip_bound_of_one_variable():
    low, high = detect_clip_bound(And(a * 1 < b * 6, a - 1 > 0), [a])
    assert low.value == 2 and equal(high, b * 6 - 1)
    low, high = detect_clip_bound(And(Not(a * 1 > b * 6), a - 1 > 0), [a])
    assert low.value == 2 and equal(high, b * 6)
    low, high = detect_clip_bound(And(a * 3 < 10, a * -2 <= 7), [a])
    assert (low.value, high.value) == (-3, 3)


def test_clip_bound_of_two_variables():
    got = detect_clip_bound(And(a + 10 * c <= 20, b - 1 > 0), [a, b])
    assert got[0] is None and equal(got[1], 20 - 10 * c) and got[2].value == 2 and got[3] is None
    got = detect_clip_bound(And(Min(a, b) > 3, a - 10 < 0), [a, b])
    assert [g and g.value for g in got] == [4, 9, 4, None]
    got = detect_clip_bound(And(EQ(a, 4), EQ(b, 3)), [a, b])
    assert [g.value for g in got] == [4, 4, 3, 3]


@pytest.mark.parametrize(
    "condition",
    [
        And(a * 1 < b * 6, a - 1 > 0),  # one condition names both variables
        Or(a < 3, b < 3),
        EQ(a * 2, 3),
        a * c < 3,
        c < 3,
        Var("p", "uint32") < Var("q", "uint32"),
    ],
)
def test_conditions_that_say_more_than_bounds_give_nothing(condition):
    assert detect_clip_bound(condition, [a, b]) == []


def test_conjuncts_open_negations_and_extrema():
    parts = conjuncts(And(Not(Or(a < b, Not(c < d))), Max(a, b) <= c))
    assert [type(p) for p in parts] == [GE, LT, LE, LE]
    shared = And(a < b, c < d)
    for _ in range(40):
        shared = And(shared, shared)
    assert len(conjuncts(shared)) == 2
    # not (x < y) is no comparison when x may be NaN
    x, y = Var("x", "float32"), Var("y", "float32")
    assert type(conjuncts(Not(x < y))[0]) is Not


def interval(low, high):
    return IntervalSet(low, high)


HINTS = {b: interval(2, 3), c: interval(10, 15), d: interval(-3, -1)}


@pytest.mark.parametrize(
    "condition,low,high",
    [
        ((-b) * a + c - d >= 0, None, (d - c) // (b * -1)),
        (LE(const(0), (-b) * a + c - d), None, (d - c) // (b * -1)),
        (d * a + c - d >= 0, None, (d - c) // d),
        (a * 4 + b < c, None, (c - 1 - b) // 4),
        (c > a * 4 + b, None, (c - 1 - b) // 4),
        (EQ(a, b), b, b),
        (EQ(const(10), a), const(10), const(10)),
        (EQ(a - c, b + d), b + d + c, b + d + c),
        (EQ(5 * a, -10), const(-2), const(-2)),
        (EQ(b * a, b), const(1), const(1)),
        (EQ(d * a, d * c), c, c),
        (EQ(a // 4, b), b * 4, b * 4 + 3),
        (a // 6 >= 4, const(24), None),
        (a // 6 <= 4, None, const(29)),
        (a // d < 3, d * 3 + 1, None),
        (3 - a > b, None, 2 - b),
    ],
)
def test_deduced_bounds(condition, low, high):
    got = deduce_bound(a, condition, HINTS, {})
    assert got.min_value is neg_inf() if low is None else equal(got.min_value, low)
    assert got.max_value is pos_inf() if high is None else equal(got.max_value, high)


def test_deduced_bound_free_of_relaxed_variables():
    got = deduce_bound(a, (-b) + a * c - d >= 0, HINTS, {b: HINTS[b], d: HINTS[d]})
    assert equal(got.min_value, const(2) // c + 1) and got.max_value is pos_inf()


@pytest.mark.parametrize(
    "condition,relax",
    [
        (Max(5, a * 4) < 0, {}),
        (LT(const(0), Max(5, a * 4)), {}),
        (EQ(a, b), {b: HINTS[b]}),
        (EQ(4 * a, b), {}),
        (EQ(c * a, b), {}),
        (a + b, {}),
        (Cast("int32", a + b > 3) > c, {}),
        (a * 2 - a > b, {}),
        (a * Var("free") > b, {}),
        (a > Var("x") + 0 * a + a, {}),
    ],
)
def test_nothing_is_deduced_without_certainty(condition, relax):
    assert deduce_bound(a, condition, HINTS, relax).is_nothing()


def test_sets_may_be_given_as_ranges():
    got = deduce_bound(a, a + b < 17, {b: Range(0, 5)}, {b: Range(0, 5)})
    assert got.max_value.value == 12


def random_side(rng: random.Random, others: list):
    """An expression with ``a`` in it once."""
    e = a
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(5)
        other = rng.choice([*others, const(rng.randint(-4, 4))])
        if kind == 0:
            e = e + other
        elif kind == 1:
            e = other - e if rng.random() < 0.5 else e - other
        elif kind == 2:
            e = e * (rng.choice([-3, -2, 2, 3, 4]) if rng.random() < 0.8 else rng.choice(others))
        elif kind == 3:
            e = e // rng.choice([2, 3, 5])
        else:
            e = other * 2 + e
    return e


def test_deduced_bounds_are_sufficient_at_every_point(seed):
    rng = random.Random(seed)
    deduced = 0
    for _ in range(300):
        domains = {}
        for var in (b, c):
            low = rng.randint(-4, 5)
            domains[var] = (low, rng.randint(1, 4))
        sets = {var: interval(low, low + extent - 1) for var, (low, extent) in domains.items()}
        relax = {var: s for var, s in sets.items() if rng.random() < 0.5}
        left, right = random_side(rng, [b, c]), rng.choice([b, c, b * 2 - c, const(rng.randint(-9, 9))])
        condition = rng.choice([LT, LE, GT, GE, EQ])(left, right)
        if rng.random() < 0.5:
            condition = rng.choice([LT, LE, GT, GE, EQ])(right, left)
        got = deduce_bound(a, condition, sets, relax)
        if got.is_nothing():
            continue
        deduced += 1
        assert not any(n in relax for end in (got.min_value, got.max_value) for n in post_order(end))
        for point in points({a: (-30, 61), **domains}):
            low = -(10**9) if got.min_value is neg_inf() else value_at(got.min_value, point)
            high = 10**9 if got.max_value is pos_inf() else value_at(got.max_value, point)
            if low <= point[a] <= high:
                assert value_at(condition, point), (point, low, high)
    assert deduced > 100


def test_conditions_on_floats_give_nothing():
    assert deduce_bound(a, FloatImm("float32", 1.0) > Cast("float32", a), {}, {}).is_nothing()
