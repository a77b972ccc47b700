"""The light mode of bounds: the values of expressions at extreme points lie in them, and nothing that may wrap fits."""

from __future__ import annotations

import itertools
import os
import random

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith.const_bound import NEG_INF, POS_INF, clamp, dtype_bound
from tvm.arith.ranges import Ranges
from tvm.dtype import info
from tvm.ir.prim import Add, Cast, FloorDiv, Let, Max, Mul, SizeVar, Sub, Var, const
from tvm.ir.visit import post_order

from .points import ARITHMETIC, Generator, value
from .text import show

SEED = int(os.environ.get("TVM_TEST_SEED", "0")) or 20240711
ROUNDS = int(os.environ.get("TVM_TEST_ROUNDS", "150"))


def _variables(rng: random.Random, ranges: Ranges, dtype: str):
    """Variables with bounds and without, and the values each may have: its ends, near them and between."""
    points = {}
    for name in "xyz":
        var, (low, high) = Var(name, dtype), dtype_bound(dtype)
        if rng.random() < 0.7:
            low = rng.choice([low, low // 2, -7, 0, 0, 1, 5]) if low < 0 else rng.choice([0, 1, 5])
            high = rng.choice([low + 3, low + 63, high // 2, high])
            high = min(max(low, high), dtype_bound(dtype)[1])
            ranges.bind(var, (low, high))
        points[var] = [low, min(low + 1, high), (low + high) // 2, max(high - 1, low), high]
    return points


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32"])
def test_values_that_wrap_lie_in_their_bounds(dtype):
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        ranges = Ranges()
        points = _variables(rng, ranges, dtype)
        e = Generator(rng, list(points), dtype).expr(rng.randint(2, 4))
        low, high = ranges.of(e)
        for _ in range(20):
            point = {var: rng.choice(values) for var, values in points.items()}
            got = value(e, point, wraps=True)
            inside = got is None or ((low <= got or low == NEG_INF) and got <= high)
            assert inside, (
                f"seed {SEED} round {number}: {show(e)} at { ({v.name: p for v, p in point.items()}) }: {got}"
            )


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
@pytest.mark.parametrize("kind", ARITHMETIC)
def test_values_of_one_operation_lie_in_its_bounds_at_the_ends_of_a_type(kind, dtype):
    x, y = Var("x", dtype), Var("y", dtype)
    half = 1 << info(dtype).bits - 1
    low, high = (0, 2 * half - 1) if info(dtype).is_uint else (-half, half - 1)
    ends = [(low, low), (low, low + 1), (low, high), (max(low, -1), 1), (1, high), (0, high // 2), (high, high)]
    for spans in itertools.product(ends, ends):
        ranges = Ranges()
        for var, span in zip((x, y), spans):
            ranges.bind(var, (clamp(span[0]), clamp(span[1])))
        least, most = ranges.of(kind(x, y))
        for point in itertools.product(*spans):
            got = value(kind(x, y), dict(zip((x, y), point)), wraps=True)
            inside = got is None or (least <= got or least == NEG_INF) and (got <= most or most == POS_INF)
            assert inside, f"{spans} at {point}: {got} beside {(least, most)}"


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("trust", [False, True])
def test_what_fits_has_the_value_it_has_among_all_integers(dtype, trust):
    rng = random.Random(SEED + 1)
    for number in range(ROUNDS):
        ranges = Ranges(trust)
        points = _variables(rng, ranges, dtype)
        e = Generator(rng, list(points), dtype).expr(rng.randint(2, 4))
        # Operands wrap as the program says; the operation itself is done among all integers.
        sums = [n for n in post_order(e) if type(n) in (Add, Sub, Mul) and ranges.fits(n)]
        for _ in range(20):
            point = {var: rng.choice(values) for var, values in points.items()}
            for node in sums:
                a, b = value(node.a, point, wraps=True), value(node.b, point, wraps=True)
                if a is not None and b is not None:
                    got = a + b if type(node) is Add else a - b if type(node) is Sub else a * b
                    assert got == value(node, point, wraps=True), f"seed {SEED} round {number}: {show(node)}"


def test_places_made_of_loop_variables_and_sizes_do_not_overflow_where_indices_are_trusted():
    i, n, read = Var("i", "int32"), SizeVar("n", "int32"), Var("read", "int32")
    for trust in (False, True):
        ranges = Ranges(trust)
        ranges.bind(i, (0, (1 << 31) - 1), index=True)
        assert ranges.is_nonnegative(i * 4 + n) is trust
        assert ranges.is_nonnegative(i * n) is trust
        # What was read from memory may be anything of its type.
        assert not ranges.is_nonnegative(i + Max(read, const(0)))
        assert not ranges.is_nonnegative(i * Max(read, const(0)))
        assert not ranges.is_nonnegative(Max(read, const(0)) * 2)


def test_small_values_read_from_memory_may_be_added_to_an_index():
    i, read = Var("i", "int32"), Var("read", "uint8")
    ranges = Ranges(trust_indices=True)
    ranges.bind(i, (0, (1 << 31) - 1), index=True)
    assert ranges.is_nonnegative(i + Cast("int32", read))
    assert not ranges.is_nonnegative(i * Cast("int32", read))


def test_narrow_loop_variables_wrap_even_where_indices_are_trusted():
    i = Var("i", "int8")
    ranges = Ranges(trust_indices=True)
    ranges.bind(i, (0, 100), index=True)
    assert ranges.of(i * const(2, "int8")) == (-128, 127)


def test_the_bounds_of_a_loop_variable_come_from_its_first_value_and_extent():
    i, n = Var("i", "int32"), SizeVar("n", "int32")
    ranges = Ranges()
    ranges.bind(i, (2, 5))
    assert ranges.of_loop(i, const(3), "int32") == (2, 7)
    assert ranges.of_loop(const(4), n, "int32") == (4, (1 << 31) - 1)
    assert ranges.of_loop(const(4), const(0), "int32") == (4, 4)


def test_bounds_are_asked_again_when_a_variable_is_bound_again():
    x = Var("x", "int32")
    e = x + 1
    ranges = Ranges()
    ranges.bind(x, (0, 3))
    assert ranges.of(e) == (1, 4)
    other = ranges.copy()
    ranges.bind(x, (5, 6))
    assert (ranges.of(e), other.of(e)) == ((6, 7), (1, 4))
    ranges.bind(x, None)
    assert not ranges.fits(e)


def test_the_value_of_a_let_bounds_its_variable_in_the_body_alone():
    x, y = Var("x", "int32"), Var("y", "int32")
    ranges = Ranges()
    ranges.bind(x, (0, 9))
    assert ranges.of(Let(y, x * 2, y + 1)) == (1, 19)
    assert ranges.of(y) == dtype_bound("int32")


def test_a_chain_of_any_depth_is_bounded_without_recursion_on_it():
    e = x = Var("x", "int32")
    for _ in range(5000):
        e = FloorDiv(e, const(3)) + x
    assert Ranges().of(e)
