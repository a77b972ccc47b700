"""Integer sets: expression; sets of variables; smallest; largest."""

from __future__ import annotations

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith import Analyzer, ConstIntBound, IntervalSet, IntSet, int_set, intersect, union, union_lower_bound
from tvm.ir.prim import Ramp, Range, SizeVar, Var, const

from .text import parse, show

TABLE = """
x + y; x 0 10; y; y + 10
x + y; x 0 10, y 1 11; 1; 21
x - y; x 0 10, y 1 11; -11; 9
x * y; x 0 10; 0; y * 10
x * 2; x 1 10; 2; 20
x * -2; x 1 10; -20; -2
truncdiv(x, y); x 0 10; 0; truncdiv(10, y)
truncdiv(x, 2); x 1 10; 0; 5
x // y; x 0 10; 0; 10 // y
x // 2; x -1 10; -1; 5
truncmod(x, y); x 0 10; 0; y - 1
truncmod(x, 10); x 1 10; 0; 9
x % 10; x -10 10; 0; 9
x % 10; x 3 5; 3; 5
x % 10; x 13 15; 3; 5
x % 10; x 3 15; 0; 9
x % 10; x 3 11; 0; 9
x % 10; x 1 21; 0; 9
max(x, x + 1); x 0 10; 1; 11
min(x - 1, x + 1); x 0 10; -1; 9
min(x, y); ; min(x, y); min(x, y)
select(x > 0, x - 1, x + 1); x 0 10; -1; 11
select(x > 3, y, z); y 0 4, z 2 9; 0; 9
cast(x, 'int64') * cast(4, 'int64'); x 0 3; 0; 12
likely(x) + 1; x 0 3; 1; 4
"""
NAMES = {n: Var(n) for n in "xyz"}


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_set_of_expression(line):
    text, sets, low, high = line.split("; ")
    an = Analyzer()
    an.update(NAMES["y"], ConstIntBound(1, 100))
    domains = {}
    for item in filter(None, sets.split(", ")):
        name, a, b = item.split()
        domains[NAMES[name]] = IntervalSet(int(a), int(b))
    got = an.int_set(parse(text, NAMES), domains)
    dtype = got.min_value.dtype
    assert an.can_prove_equal(got.min_value, parse(low, NAMES, dtype)), show(got.min_value)
    assert an.can_prove_equal(got.max_value, parse(high, NAMES, dtype)), show(got.max_value)


def test_remainder_of_an_aligned_block():
    x, y, z = NAMES["x"], NAMES["y"], NAMES["z"]
    block = {y: IntervalSet(z * 8 + x * 4, z * 8 + x * 4 + 3)}
    an = Analyzer()
    an.bind(x, Range(0, 2))
    got = an.int_set(y % 8, block)
    assert an.can_prove_equal(got.min_value, x * 4)
    assert an.can_prove_equal(got.max_value, x * 4 + 3)
    an = Analyzer()
    an.bind(x, Range(0, 3))
    got = an.int_set(y % 8, block)
    whole = (z * 8 + x * 4) // 8 * 8
    assert an.can_prove_equal(got.min_value, z * 8 + x * 4 - whole)
    assert an.can_prove_equal(got.max_value, z * 8 + x * 4 + 3 - whole)


def test_points_vectors_and_limits():
    point = IntSet.single_point(2)
    assert point.min_value.value == point.max_value.value == 2 and point.is_single_point()
    lanes = IntSet.vector(Ramp(const(10, "int32"), const(3, "int32"), 2))
    assert (lanes.min_value.value, lanes.max_value.value) == (10, 13)
    assert IntSet.nothing().is_nothing() and IntSet.everything().is_everything()
    assert not IntSet.everything().has_lower_bound()


def test_union_and_intersection():
    a, b = IntervalSet(0, 4), IntervalSet(3, 9)
    got = union([a, b])
    assert (got.min_value.value, got.max_value.value) == (0, 9)
    got = intersect([a, b])
    assert (got.min_value.value, got.max_value.value) == (3, 4)
    assert intersect([IntervalSet(0, 1), IntervalSet(3, 4)]).is_nothing()
    n = SizeVar("n")
    got = union([IntervalSet(0, n), IntervalSet(0, n + 3)])
    assert show(got.max_value) == "(n + 3)"


def test_union_lower_bound_merges_what_meets():
    low, high = int_set.neg_inf(), int_set.pos_inf()
    halves = [IntervalSet(low, 0), IntervalSet(1, high)]
    for sets in (halves, [*halves, IntervalSet(high, low)]):
        got = union_lower_bound(sets)
        assert got.min_value is low and got.max_value is high
    got = union_lower_bound([IntervalSet(0, 1), IntervalSet(5, 6)])
    assert (got.min_value.value, got.max_value.value) == (0, 1)


def test_ends_that_range_are_relaxed_too():
    i, j = Var("i"), Var("j")
    got = Analyzer().int_set(j + 1, {j: Range(i, i + 4), i: Range(0, 8)})
    assert (got.min_value.value, got.max_value.value) == (1, 11)


def test_range_of_a_set():
    x = NAMES["x"]
    got = IntervalSet(x * 4, x * 4 + 3).range()
    assert got.min is not None and got.extent.value == 4
    with pytest.raises(ValueError, match="no finite range"):
        IntSet.everything().range()
