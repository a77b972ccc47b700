"""Boxes covered and touched by regions of indices."""

from __future__ import annotations

import itertools
import random

import pytest
from integer_points import points, value_at

from tvm.arith import Analyzer
from tvm.arith.region import estimate_region_lower_bound, estimate_region_upper_bound
from tvm.ir.prim import And, Max, Min, Range, Var, const
from tvm.ir.primop import truncdiv

i, j, k = Var("i"), Var("j"), Var("k")


def ranges(extents: dict) -> dict:
    return {var: Range(0, extent) for var, extent in extents.items()}


def region_of(pairs) -> list[Range]:
    return [Range(min=low, extent=const(extent)) for low, extent in pairs]


def literal_boxes(sets):
    return None if sets is None else [(s.min_value.value, s.max_value.value + 1) for s in sets]


split = i * 4 + j
LOWER = [
    ([(i, 2), (i + 2, 2)], {i: 64}, True, None),
    ([(i // 4, 1), (j * 4 + i % 4, 1), (truncdiv(k, 2), 1)], {i: 16, j: 16, k: 16}, j * 4 + i % 4 > 3, None),
    ([(i * 4, 2)], {i: 64}, True, None),
    ([(i * 4, 8)], {i: 64}, True, [(0, 260)]),
    ([(split * 4, 8)], {i: 16, j: 4}, split < 63, [(0, 256)]),
    ([(1 - i, 4), (20 - j * 4, 16)], {i: 4, j: 4}, True, [(-2, 5), (8, 36)]),
    ([((i + j) // 2, 1)], {i: 8, j: 4}, True, [(0, 6)]),
    (
        [(i // 16, 1), (i % 16 // 4 * 8 + i % 4 + j // 32 * 4, 1), (j % 32, 1)],
        {i: 32, j: 64},
        True,
        [(0, 2), (0, 32), (0, 32)],
    ),
]


@pytest.mark.parametrize("row", range(len(LOWER)))
def test_lower_bounds(row):
    pairs, extents, predicate, expected = LOWER[row]
    assert literal_boxes(estimate_region_lower_bound(region_of(pairs), ranges(extents), predicate)) == expected


UPPER = [
    ([(i, 2), (i + 2, 2)], {i: 64}, True, [(0, 65), (2, 67)]),
    (
        [(i // 4, 1), (j * 4 + i % 4, 1), (truncdiv(k, 2), 1)],
        {i: 16, j: 16, k: 16},
        j * 4 + i % 4 > 3,
        [(0, 4), (4, 64), (0, 8)],
    ),
    ([(i * 4, 2)], {i: 64}, True, [(0, 254)]),
    ([(split * 4, 8), (split * 3, 5)], {i: 16, j: 4}, split < 63, [(0, 256), (0, 191)]),
]


@pytest.mark.parametrize("row", range(len(UPPER)))
def test_upper_bounds(row):
    pairs, extents, predicate, expected = UPPER[row]
    assert literal_boxes(estimate_region_upper_bound(region_of(pairs), ranges(extents), predicate)) == expected


@pytest.mark.parametrize("inner,extents", [(j, {j: 10}), (i * 5 + j, {i: 2, j: 5})])
def test_tiles_that_overhang_at_both_ends(inner, extents):
    index = k * 8 + inner
    (got,) = estimate_region_lower_bound(region_of([(index, 1)]), ranges(extents), And(1 <= index, index < 224))
    analyzer = Analyzer()
    assert analyzer.can_prove_equal(got.min_value, Max(k * 8, 1))
    assert analyzer.can_prove_equal(got.max_value, Min(k * 8 + 9, 223))
    for value, low, high in [(0, 1, 10), (10, 80, 90), (27, 216, 224)]:
        assert (value_at(got.min_value, {k: value}), value_at(got.max_value, {k: value}) + 1) == (low, high)


def test_predicates_that_exclude_each_other_leave_the_upper_bound():
    index = k * 8 + i * 5 + j
    predicate = And(1 <= index, k * 8 + j * 2 + i < 224)
    region, dom = region_of([(index, 1)]), ranges({i: 2, j: 5})
    assert estimate_region_lower_bound(region, dom, predicate) is None
    (got,) = estimate_region_upper_bound(region, dom, predicate)
    assert Analyzer().can_prove_equal(got.min_value, k * 8) and Analyzer().can_prove_equal(got.max_value, k * 8 + 9)


def test_random_regions_lie_between_the_bounds(seed):
    rng = random.Random(seed)
    exact = 0
    for _ in range(150):
        extents = {var: rng.randint(1, 6) for var in (i, j)}
        pairs = []
        for _ in range(rng.randint(1, 2)):
            index = const(rng.randint(-3, 3))
            for var in rng.sample([i, j], rng.randint(1, 2)):
                index = index + var * rng.choice([-2, -1, 1, 1, 2, 3, 4])
            pairs.append((index // 2 if rng.random() < 0.2 else index, rng.randint(1, 5)))
        predicate = const(True) if rng.random() < 0.6 else i * 2 + j < rng.randint(3, 9)
        touched = set()
        for point in points(extents):
            if value_at(predicate, point):
                starts = [value_at(low, point) for low, _ in pairs]
                touched.update(itertools.product(*(range(s, s + e) for s, (_, e) in zip(starts, pairs))))
        lower = literal_boxes(estimate_region_lower_bound(region_of(pairs), ranges(extents), predicate))
        upper = literal_boxes(estimate_region_upper_bound(region_of(pairs), ranges(extents), predicate))
        if lower is not None:
            exact += 1
            assert touched == set(itertools.product(*(range(*box) for box in lower)))
        assert touched <= set(itertools.product(*(range(*box) for box in upper)))
    assert exact > 20
