"""What the canonical simplifier does: before -> after [where bounds]."""

from __future__ import annotations

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith import Analyzer, ConstIntBound, expr_deep_equal
from tvm.ir.prim import Cast, Range, SizeVar, Var, const

from .text import parse, show

# Bounds after "where": name low high, inclusive.
TABLE = """
2 + (3 * x + z + y + 1) * 4 + x -> x * 13 + z * 4 + y * 4 + 6
x * 3 - 4 * x + 1 -> 1 - x
y + x * 3 - 5 * x + 1 + y -> y * 2 + 1 - x * 2
truncdiv(x + y + x + y * 3, 2) -> y * 2 + x
truncmod(x + y + x + y * 3, 2) -> 0
(x + x + y * 3) % 2 -> y * 3 % 2
(x + y + x + y * 3) // 2 -> y * 2 + x
(x + y + x + y * 3) % 2 -> 0
(x + x + y * 3) // 2 -> y * 3 // 2 + x
truncdiv(x, 3) * 3 + truncmod(x, 3) -> x
truncdiv(x, 6) * 6 + truncmod(truncdiv(x, 3), 2) * 3 + truncmod(x, 3) -> x
truncdiv(truncdiv(truncmod(x, 16), 2) * 2, 4) -> truncdiv(truncmod(x, 16), 4)
truncdiv(truncmod(x, 2), 8) -> 0
truncdiv(truncmod(x, 2), 7) -> 0
truncdiv(truncdiv(truncmod(x, 16), 2) * 2, 6) -> truncdiv(truncmod(x, 16), 6)
truncmod(x * 8, 16) -> truncmod(x, 2) * 8
truncmod(x * 8, 2) -> 0
truncdiv(x * 4 + y, 2) * 2 + truncmod(x * 4 + y, 2) -> x * 4 + y where x 0 1000, y 0 1000
truncdiv(z * 9 + y, 2) * 2 + truncmod(z * 9 + y, 2) -> z * 9 + y where x 0 1000, y 0 1000
truncdiv(x * 4 + y, 2) * 2 + truncmod(x * 4 + y, 2) -> x * 4 + y where x -100 1000, y -100 1000
x * 5 // 2 -> x * 5 // 2
x // 3 * 3 + x % 3 -> x
x // 6 * 6 + x // 3 % 2 * 3 + x % 3 -> x
z + x // y * y + x % y -> z + x
z * 4 + x // y * y * 4 + x % y * 4 -> z * 4 + x * 4
z + (x * 2 + 1) // y * y + (x * 2 + 1) % y - x * 2 -> z + 1
z + x // (y * 3) * (y * 3) + x % (y * 3) -> z + x
z + x // y * y * 2 + x % y -> x // y * y * 2 + z + x % y
z + x // y * z + x % y -> z + x // y * z + x % y
x % 16 // 2 * 2 // 4 -> x % 16 // 4
x % 2 // 8 -> 0
x % 16 // 2 * 2 // 6 -> x % 16 // 6
truncdiv(x, 6) * 2 + truncmod(x // 3, 2) -> truncdiv(x, 6) * 2 + truncmod(x // 3, 2)
truncmod(x * -1, 2) -> truncmod(x, -2) * -1
truncdiv(16 + 48 * x, 16) -> x * 3 + 1
truncdiv(17 + 48 * x, 16) -> truncdiv(x * 48 + 17, 16)
truncdiv(17 + 48 * x, 16) -> x * 3 + 1 where x 0 10
truncdiv(17 + 47 * x, 16) -> truncdiv(x * 47 + 17, 16) where x 0 10
(16 + 48 * x) // 16 -> x * 3 + 1
(17 + 48 * x) // 16 -> x * 3 + 1
(17 + 47 * x) // 16 -> (x * 47 + 17) // 16
((x * 4 + y - 466036) % 24528 - 24512) % 16 -> (x * 4 + y + 12) % 16
x * 4 % 16 % 8 -> x % 2 * 4
x * -1 % 2 -> x % -2 * -1
truncdiv(x, 9) - truncdiv(x, 9) -> 0
x - 2 < 3 -> x < 5
max(x, 1) - max(x, 1) -> 0
min(x, 1) - min(x, 1) -> 0
x * x - x * x -> 0
x * y - y * x -> 0
truncmod(truncdiv(truncmod(x, 20), 2) * 2, 4) -> truncdiv(truncmod(x, 4), 2) * 2
x // 9 - x // 9 -> 0
x * 32 * x % x -> 0
z * x * 32 * x * y % (x * z) -> 0
z * x * 32 * x * y % (x * z * y * 8 * x) -> 0
z * x * 32 * (x * y) % (6 * x * z) -> x * y * 16 % 3 * (x * z * 2)
x * 32 * x % (x * z) -> x * 32 % z * x
truncmod(x * 32 * x, x) -> 0
truncmod(z * x * 32 * (x * y), 6 * x * z) -> truncmod(x * y * 16, 3) * (x * z * 2)
x * 2 * x * z // (4 * x * x * x) -> z // (x * 2)
x * (2 * y) * 3 // (3 * y) -> x * 2
x * (2 * y) * 3 // (3 * y * z) -> x * 2 // z
truncdiv(x * (2 * y) * 3, 3 * y * z) -> truncdiv(x * 2, z)
(x * 10 + 1 + y * 2 + 2) % 2 -> 1
x * 8 + y < 16 -> x < 2 where y 0 7
x * 8 + z * 4 < 16 -> x < 2 where z 0 1
x * -8 + y < 16 -> -2 < x where y 0 7
x * 8 + y + z < 16 -> x * 8 + y + z < 16 where y 0 7, z 0 1
x * 8 + y - z < 16 -> x * 8 + y < z + 16 where y 0 7, z 0 1
x * 8 + y <= 15 -> x <= 1 where y 0 7
z // 2 % 8 + y < 8 -> z % 16 // 2 + y < 8 where z 0 31, y 0 7
truncdiv(truncdiv(truncmod(x * 128 + y, 1296), 36) * 2 + 1, 2) * 36 + truncdiv(truncmod(x * 128 + y, 36) * 2 + 1, 2) - truncmod(x * 128 + y, 1296) + 1 -> 1 where x 0 5, y 0 127
truncdiv(x * 1024 + y, 65536) + truncdiv(truncmod(x * 1024 + y, 65536), 256) + truncdiv(truncmod(x * 1024 + y, 256), 16) + truncmod(x * 1024 + y, 16) - truncdiv(y, 256) - truncdiv(truncmod(y, 256), 16) - truncmod(y, 16) - x * 4 -> 0 where x 0 5, y 0 1024
select(x >= 10, if_then_else(truncdiv(x, 3) < 2, x, 0), 0) -> 0
select(x >= 10, if_then_else(truncdiv(x, 3) > 2, x, 0), 0) -> select(10 <= x, x, 0)
select(x >= -1 and y >= 0, truncmod(x + y + 100, 3), truncmod(x + 100, 3)) -> select(-1 <= x and 0 <= y, truncmod(x + y + 1, 3), truncmod(x + 100, 3))
if_then_else(x * 4 + y >= 466036, if_then_else(24512 <= truncmod(x * 4 + y - 466036, 24528), truncmod(truncmod(x * 4 + y - 466036, 24528) - 24512, 16), x), y) -> if_then_else(466036 <= x * 4 + y, if_then_else(24512 <= truncmod(x * 4 + y - 4, 24528), truncmod(x * 4 + y - 4, 16), x), y)
if_then_else(x * 4 >= 466036 - y, if_then_else(24512 <= truncmod(x * 4 + y - 466036, 24528), truncmod(truncmod(x * 4 + y - 466036, 24528) - 24512, 16), x), y) -> if_then_else(466036 <= x * 4 + y, if_then_else(24512 <= truncmod(x * 4 + y - 4, 24528), truncmod(x * 4 + y - 4, 16), x), y)
"""  # noqa: E501

NAMES = {n: Var(n) for n in "xyz"}


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_canonical_form(line):
    before, rest = line.split(" -> ")
    after, _, where = rest.partition(" where ")
    an = Analyzer()
    for item in filter(None, where.split(", ")):
        name, low, high = item.split()
        an.update(NAMES[name], ConstIntBound(int(low), int(high)))
    got = an.canonical_simplify(parse(before, NAMES))
    assert expr_deep_equal(got, parse(after, NAMES)), f"{before} gave {show(got)}, expected {after}"


def test_casts_move_into_sums_where_nothing_can_overflow():
    an = Analyzer()
    i, j = Var("i", "int32"), Var("j", "int32")
    got = an.canonical_simplify(Cast("int64", i + j + 1) - Cast("int64", i))
    assert expr_deep_equal(got, Cast("int64", j) + const(1, "int64"))
    i, j = Var("i", "int64"), Var("j", "int64")
    an.update(i, ConstIntBound(0, 10))
    an.update(j, ConstIntBound(0, 10))
    got = an.canonical_simplify(Cast("int32", i + j + 1) - Cast("int32", i))
    assert expr_deep_equal(got, Cast("int32", j) + 1)
    i = Var("i", "int64")
    an.update(i, ConstIntBound(0, 2**31 - 1))
    e = Cast("int32", i + j - 100)
    assert expr_deep_equal(an.canonical_simplify(e), e)
    axis = Var("axis", "int64")
    an.update(axis, ConstIntBound(0, 42))
    twice = axis % const(7, "int64") * const(2, "int64")
    got = an.canonical_simplify(Cast("int32", twice + const(1, "int64")) + 1 - Cast("int32", twice))
    assert got.value == 2


def test_smallest_literal_of_the_type_is_safe():
    x = Var("x", "int32")
    low = const(-(2**31), "int32")
    an = Analyzer()
    for e in ((low - x).equal(0), (-x + low).equal(0)):
        assert expr_deep_equal(an.canonical_simplify(e), x.equal(low))
    for e in ((low + x).equal(0), (x + low).equal(0)):
        assert an.canonical_simplify(e).value == 0


def test_reshaped_index_is_joined_again():
    an = Analyzer()
    i, j = Var("i", "int64"), Var("j", "int64")
    an.bind(i, Range(0, 8))
    an.bind(j, Range(0, 3))
    flat = i * 3 + j
    assert expr_deep_equal(an.simplify(flat // 12 * 12 + flat % 12 // 4 * 4 + flat % 4), flat)


def test_tiled_guard_loses_what_is_below_the_tile():
    an = Analyzer()
    names = {n: Var(n) for n in ("a", "b", "ty", "tx", "vec")}
    for name, extent in (("a", 2), ("b", 3), ("ty", 8), ("tx", 32), ("vec", 8)):
        an.bind(names[name], Range(0, extent))
    got = an.canonical_simplify(parse("a * 5632 + (((b * 8 + ty) * 32 + tx) * 8 + vec) % 5632 < 11008", names))
    assert expr_deep_equal(got, parse("a * 22 + (b * 8 + ty) % 22 < 43", names)), show(got)


def test_padded_symbolic_loop_needs_no_guard():
    an = Analyzer()
    i, j, n, m = Var("i", "int64"), Var("j", "int64"), SizeVar("n", "int64"), SizeVar("m", "int64")
    outer = (n + 31) // 32
    an.bind(i, Range(const(0, "int64"), outer))
    an.bind(j, Range(const(0, "int64"), const(32, "int64")))
    assert an.can_prove(i * 32 + j < outer * 32)
    assert an.can_prove(i * 32 + j < outer * 32 + m)
    assert an.can_prove(i * 32 + j + 1 <= outer * 32)
    assert an.can_prove(outer * 32 >= i * 32 + j + 1)
    assert not an.can_prove(i * 32 + j < n)


def test_fused_symbolic_index_splits_back():
    an = Analyzer()
    i, j, n = Var("i"), Var("j"), SizeVar("n")
    an.bind(j, Range(const(0, "int32"), n))
    assert an.simplify((i * n + j) // n) is i
    assert an.simplify((i * n + j) % n) is j


def test_guard_of_a_fused_symbolic_loop_needs_no_division():
    an = Analyzer()
    f, n, m = Var("f"), SizeVar("n"), SizeVar("m")
    an.bind(f, Range(const(0, "int32"), n * m))
    assert an.can_prove(f // m < n)
    an = Analyzer()
    g = Var("g")
    an.bind(g, Range(const(0, "int32"), (n * m + 31) // 32))
    assert show(an.simplify((g * 32) // m < n)) == "((g * 32) < (n * m))"
