"""Constant bounds, one line per fact: expression; bounds of variables; smallest; largest."""

from __future__ import annotations

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith import Analyzer, ConstIntBound
from tvm.ir.prim import Broadcast, Cast, Div, Let, Mul, Ramp, SizeVar, Var, const

from .text import parse

INF = ConstIntBound.POS_INF
TABLE = """
x + y; x 0 4, y 1 10; 1; 14
x - y; x 0 4, y 1 10; -10; 3
x - y; x 0 inf, y 1 10; -10; inf
1 - x; x 0 inf; -inf; 1
x * y + 20; x -2 4, y 4 10; 0; 60
x * y; x -3 4, y -8 2; -32; 24
x * y; x -inf 4, y -8 2; -inf; inf
truncdiv(x, y); x -9 4, y 4 10; -2; 1
truncdiv(x, y); x -9 4, y -2 0; -4; 9
truncdiv(x, y); x -inf 4, y -2 1; -inf; inf
truncdiv(x, y); x -9 4, y -4 12; -9; 9
truncmod(x, y); x -9 4, y 4 10; -9; 4
truncmod(x, y); x -inf inf, y 4 10; -9; 9
truncmod(x, y); x 1 inf, y 4 10; 0; 9
x // y; x -9 4, y 4 10; -3; 1
x // y; x -9 4, y -2 0; -4; 9
x // y; x -inf 4, y -2 1; -inf; inf
x // y; x -9 4, y -4 12; -9; 9
x // y; x 0 6, y 0 inf; 0; 6
x % y; x -9 4, y 4 10; 0; 9
x % y; x -inf inf, y 4 10; 0; 9
x % y; x 1 inf, y 4 10; 0; 9
x % y; x 0 6, y -5 7; -4; 6
x % y; x 0 6, y 0 inf; 0; 6
min(x, y); x -9 11, y 4 10; -9; 10
min(x, y); x -inf inf, y 4 10; -inf; 10
max(x, y); x -inf inf, y 4 10; 4; inf
max(x, y); x 1 inf, y 4 10; 4; inf
select(x > 1, cast(y < 0, 'int32'), y + 1); x -9 11, y 4 10; 0; 11
shift_right(x, y); x -9 11, y 2 10; -3; 2
bitwise_and(x, y); x -9 11, y 2 10; 0; 10
bitwise_and(x, y); x 10 11, y 2 10; 0; 10
truncmod(x, 8) + truncdiv(x, 8) * 8; x 0 23; 0; 23
y + x * 3; x 0 23, y 0 2; 0; 71
truncmod(x, 7) + truncdiv(x, 7) * 7; x 0 23; 0; 27
x * 4 - x * 3; x 2 5; 2; 5
likely(x); x 2 5; 2; 5
"""


def number(text: str) -> int:
    return {"inf": INF, "-inf": -INF}.get(text) or int(text)


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_bound(line):
    text, bounds, low, high = line.split("; ")
    # int64: an int32 variable without bounds has those of its type.
    names = {n: Var(n, "int32") for n in "xy"}
    an = Analyzer()
    for item in bounds.split(", "):
        name, a, b = item.split()
        an.update(names[name], ConstIntBound(number(a), number(b)))
    got = an.const_int_bound(parse(text, names))
    want = (number(low), number(high))
    if line.startswith("truncmod(x, 7)"):
        assert got.min_value == 0 and 23 <= got.max_value <= 27
    else:
        assert (got.min_value, got.max_value) == want


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int64", -INF, INF), ("int8", -128, 127), ("uint8", 0, 255), ("bool", 0, 1)]
)
def test_unknown_variable_has_the_range_of_its_type(dtype, low, high):
    got = Analyzer().const_int_bound(Var("x", dtype))
    assert (got.min_value, got.max_value) == (low, high)


def test_size_variable_is_not_negative():
    got = Analyzer().const_int_bound(SizeVar("n"))
    assert (got.min_value, got.max_value) == (0, INF)


def test_narrow_arithmetic_wraps():
    x = Var("x", "uint8")
    an = Analyzer()
    got = an.const_int_bound(x + const(1, "uint8"))
    assert (got.min_value, got.max_value) == (0, 255)
    assert not an.can_prove(x + const(1, "uint8") > x)
    an.update(x, ConstIntBound(0, 100))
    assert an.const_int_bound(x + const(1, "uint8")).max_value == 101


def test_casts():
    x = Var("x", "int8")
    an = Analyzer()
    rest = parse("truncmod(x, 3)", {"x": x}, "int8")
    got = an.const_int_bound(rest.astype("uint32"))
    assert (got.min_value, got.max_value) == (0, 2)
    got = an.const_int_bound(rest.astype("float32").astype("int32"))
    assert (got.min_value, got.max_value) == (-2, 2)
    # The simplifier does not take a negative value for one that a cast to unsigned keeps.
    assert not an.can_prove(rest.astype("uint32") < const(3, "uint32"))


def test_let_vectors_and_conditions():
    x, a = Var("x"), Var("a")
    an = Analyzer()
    got = an.const_int_bound(Let(x, const(1, "int32"), x + 1))
    assert (got.min_value, got.max_value) == (2, 2)
    an.update(a, ConstIntBound(0, 128))
    assert an.const_int_bound(Broadcast(a, 4)).max_value == 128
    got = an.const_int_bound(Ramp(a, const(2, "int32"), 4) + 2)
    assert (got.min_value, got.max_value) == (2, 128 + 2 * 3 + 2)
    with an.constraint_scope(parse("1 <= a % 58 and a % 58 < 57", {"a": a})):
        assert an.const_int_bound(a % 58 - 1).min_value == 0


def test_quotients_of_floats_are_no_integers():
    i, k = Var("i", "int32"), Var("k", "int32")
    an = Analyzer()
    an.update(i, ConstIntBound(3, 3))
    an.update(k, ConstIntBound(2, 2))
    quotient = Div(Cast("float32", i), Cast("float32", k))
    # 3 / 2 * 2 is 3, and would be 2 with the quotient of integers.
    bound = an.const_int_bound(Cast("int32", Mul(quotient, Cast("float32", k))))
    assert bound.min_value <= 3 <= bound.max_value


def test_uint64_may_be_larger_than_int64_holds():
    x = Var("x", "uint64")
    bound = Analyzer().const_int_bound(Cast("int64", x))
    assert bound.min_value < 0
