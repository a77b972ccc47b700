"""Iterator maps: what is found, what is refused, and that every map found is true at every point of its domain."""

from __future__ import annotations

import itertools
import random

import pytest
from integer_points import points, value_at

from tvm.arith import Analyzer
from tvm.arith.iter_map import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from tvm.ir.prim import And, IntImm, Max, Range, SizeVar, Var, const
from tvm.ir.structural import structural_equal

x, y, z, w, v, u = (Var(name) for name in "xyzwvu")
n, m = SizeVar("n"), SizeVar("m")


def domain(extents: dict) -> dict:
    return {var: Range(0, extent) for var, extent in extents.items()}


def both(*conditions):
    out = conditions[0]
    for condition in conditions[1:]:
        out = And(out, condition)
    return out


def equal(a, b) -> bool:
    return Analyzer().can_prove_equal(a, b)


def assert_true_map(indices, extents, predicate, level, forms) -> None:
    """The forms have the indices' values everywhere, and reach what the level promises."""
    exprs = [normalize_iter_map_to_expr(f) for f in forms]
    reached = []
    for point in points(extents):
        if not value_at(predicate, point):
            continue
        values = tuple(value_at(i, point) for i in indices)
        assert values == tuple(value_at(e, point) for e in exprs), (point, indices, exprs)
        reached.append(values)
    boxes = []
    for form in forms:
        base = value_at(form.base, {})
        if not form.args:
            boxes.append([base])
        else:
            (split,) = form.args
            boxes.append([base + value_at(split.scale, {}) * i for i in range(value_at(split.extent, {}))])
    assert set(reached) == set(itertools.product(*boxes)), (indices, extents, predicate, boxes)
    if level == "bijective":
        assert len(reached) == len(set(reached)), indices


FOUND = [
    # indices with (extent, base, scale), extents of the iterators, predicate, level
    ([(x, (3, 0, 1)), (y, (4, 0, 1)), (const(3), (1, 3, 1))], {x: 3, y: 4}, True, "surjective"),
    ([(x, (3, 0, 1)), (y, (4, 0, 1))], {x: 3, y: 4, z: 1}, True, "bijective"),
    ([(y * 3 + 1 + x, (12, 1, 1))], {x: 3, y: 4}, True, "bijective"),
    ([(x * 4 + y * 2, (6, 0, 2))], {x: 3, y: 2}, True, "bijective"),
    ([(x // 3, (8, 0, 1)), (x % 3 * 2 + 5, (3, 5, 2))], {x: 24}, True, "bijective"),
    ([(x // 6, (4, 0, 1)), (x % 6 // 2, (3, 0, 1)), (x % 2, (2, 0, 1))], {x: 24}, True, "bijective"),
    ([(x // 6, (4, 0, 1)), (x % 2, (2, 0, 1))], {x: 24}, True, "surjective"),
    ([(x * 2 // 4, (4, 0, 1)), (x * 2 % 4, (2, 0, 2))], {x: 8}, True, "bijective"),
    ([(x * 2 // 4 * 4 + x * 2 % 4, (8, 0, 2))], {x: 8}, True, "bijective"),
    ([((x * 6 + y) // 4, (6, 0, 1)), ((x * 6 + y) % 4, (4, 0, 1))], {x: 4, y: 6}, True, "bijective"),
    # predicates on sums
    ([(x * 10 + y, (128, 0, 1))], {x: 13, y: 10}, x * 10 + y < 128, "bijective"),
    ([(x * 10 + y, (124, 6, 1))], {x: 13, y: 10}, x * 10 + y > 5, "bijective"),
    ([(x * 10 + y, (122, 6, 1))], {x: 13, y: 10}, both(x * 10 + y >= 6, x * 10 + y <= 127), "bijective"),
    ([(x * 10 + y, (128, 0, 1))], {x: 13, y: 10}, x * 10 < 128 - y, "bijective"),
    ([(x * 10 + y, (130, 0, 1))], {x: 13, y: 10}, x * 10 + y < 140, "bijective"),
    (
        [(x * 64 + y * 4 + z, (16, 16, 1))],
        {x: 4, y: 16, z: 4},
        both(x * 64 + y * 4 + z < 32, 4 <= x * 16 + y),
        "surjective",
    ),
    ([(x * 8 + y * 2 + z, (88, 1, 1))], {x: 11, y: 5, z: 2}, both(1 <= y * 2 + z, y * 2 + z < 9), "bijective"),
    ([(x, (10, 0, 1))], {x: 48}, x < 10, "bijective"),
    ([(x * 16 + y * 4, (10, 0, 4))], {x: 3, y: 4}, x * 4 + y < 10, "bijective"),
    (
        [(x * 8 + y * 2 + z, (22, 3, 1))],
        {x: 11, y: 5, z: 2},
        both(1 <= y * 2 + z, y * 2 + z < 9, 3 <= x * 8 + y * 2 + z, x * 8 + y * 2 + z < 25),
        "bijective",
    ),
    (
        [(x * 6 + y * 2 + z, (66, 2, 1))],
        {x: 11, y: 5, z: 2},
        both(1 <= y * 2 + z, 2 <= y * 2 + z, y * 2 + z < 8, y * 2 + z < 9),
        "bijective",
    ),
    (
        [(x * 45 + y * 45 + z * 9 + w * 4 + v, (135, 28, 1))],
        {x: 3, y: 2, z: 5, w: 3, v: 4},
        both(3 <= y * 5 + z, y * 5 + z < 8, 1 <= w * 4 + v, w * 4 + v < 10),
        "bijective",
    ),
    (
        [(x * 20 + y * 10 + z * 3 + w, (128, 0, 1))],
        {x: 7, y: 2, z: 4, w: 3},
        both(x * 2 + y < 13, x * 20 + y * 10 + z * 3 + w < 128, z * 3 + w < 10),
        "bijective",
    ),
    (
        [(x % 16, (7, 3, 1)), (x // 16, (8, 4, 1))],
        {x: 1024},
        both(3 <= x % 16, x % 16 < 10, 4 <= x // 16, x // 16 < 12),
        "bijective",
    ),
    (
        [((x * 32 + y) % 16, (7, 3, 1))],
        {x: 5, y: 32},
        both(3 <= (x * 32 + y) % 16, (x * 32 + y) % 16 < 10),
        "surjective",
    ),
    ([((x * 32 + y) % 16, (16, 0, 1))], {x: 5, y: 32}, both(1 <= x * 32 + y, x * 32 + y <= 32), "surjective"),
    (
        [((x * 32 + y - 1) % 16, (16, 0, 1)), ((x * 32 + y - 1) // 16, (4, 0, 1))],
        {x: 5, y: 32},
        both(1 <= x * 32 + y, x * 32 + y <= 64),
        "bijective",
    ),
    ([(x * 129 + y, (128, 0, 1)), (z, (8, 0, 1))], {x: 1, y: 129, z: 8}, x * 129 + y < 128, "bijective"),
    # padding
    ([((64 + y) // 32, (6, 2, 1)), ((64 + y) % 32, (32, 0, 1))], {y: 192}, True, "bijective"),
    ([((80 + y) // 32, (6, 2, 1))], {y: 176}, True, "surjective"),
    ([((80 + y) // 2 % 16, (16, 0, 1)), ((80 + y) % 2, (2, 0, 1))], {y: 176}, True, "surjective"),
    ([((x * 32 + y * 8) // 16, (10, 0, 1)), ((x * 32 + y * 8) % 16, (2, 0, 8))], {x: 5, y: 4}, True, "bijective"),
    ([(x // 15, (2, 0, 1))], {x: 26}, True, "surjective"),
    ([(x // 3 % 5, (5, 0, 1)), (x % 3, (3, 0, 1))], {x: 26}, True, "surjective"),
    ([((x + 71) // 32, (2, 2, 1))], {x: 45}, True, "surjective"),
    (
        [((x + 10) % 3, (3, 0, 1)), ((x + 10) // 3 % 4, (4, 0, 1)), ((x + 10) // 3 // 4 % 5, (5, 0, 1))],
        {x: 240},
        True,
        "surjective",
    ),
    (
        [((x + 1) % 3, (3, 0, 1)), (((x + 10) // 3 + 2) % 4, (4, 0, 1)), (((x + 10) // 3 // 4 + 3) % 5, (5, 0, 1))],
        {x: 240},
        True,
        "surjective",
    ),
    # overlap
    ([(x * 7 + y, (22, 0, 1))], {x: 3, y: 8}, True, "surjective"),
    ([(x * 18 + y * 7 + z, (40, 0, 1))], {x: 2, y: 3, z: 8}, True, "surjective"),
    ([(x + y, (230, 0, 1))], {x: 224, y: 7}, True, "surjective"),
    (
        [(u * 40 + v * 20 + x * 18 + y * 3 + z, (125, 6, 1))],
        {u: 3, v: 2, x: 2, y: 6, z: 8},
        both(z < 4, 1 < x * 6 + y, x * 6 + y < 10),
        "surjective",
    ),
]


@pytest.mark.parametrize("row", range(len(FOUND)))
def test_found_maps_have_the_expected_form_and_are_true(row):
    expected, extents, predicate, level = FOUND[row]
    indices = [index for index, _ in expected]
    got = detect_iter_map(indices, domain(extents), predicate, level)
    assert len(got.indices) == len(indices), got.errors
    for form, (_, (extent, base, scale)) in zip(got.indices, expected):
        assert isinstance(form, IterSumExpr)
        assert len(form.args) == (0 if extent == 1 else 1)
        assert value_at(form.base, {}) == base
        for split in form.args:
            assert (value_at(split.extent, {}), value_at(split.scale, {})) == (extent, scale)
    assert_true_map(indices, extents, predicate, level, got.indices)


REFUSED = [
    ([x, x, const(3)], {x: 3, y: 4}, True, "surjective"),
    ([x, z], {x: 3, y: 4, z: 1}, True, "bijective"),
    ([y * 3 + x, y], {x: 3, y: 4}, True, "surjective"),
    ([y * 4 + x], {x: 3, y: 4}, True, "surjective"),
    ([x // (y % 8 % 6)], {x: 24, y: 8}, True, "surjective"),
    ([x // 2 * 2 - x % 2 + 1], {x: 8}, True, "surjective"),
    ([x, y, z], {x: 8, y: 8, z: 8}, x * 64 + y * 8 + z < 10, "surjective"),
    ([x * 8 + y, z], {x: 8, y: 8, z: 8}, x * 64 + y * 8 + z < 10, "surjective"),
    # the bounded sum is used through its outer iterators only
    ([x, y], {x: 8, y: 8, z: 8}, x * 64 + y * 8 + z < 10, "surjective"),
    ([x * 8 + y * 2 + z], {x: 11, y: 5, z: 2}, both(2 <= y * 2 + z, 0 <= x * 4 + y), "surjective"),
    ([(x * 32 + y) % 16], {x: 5, y: 32}, both(1 <= x * 32 + y, x * 32 + y <= 32), "bijective"),
    (
        [x * 20 + y * 10 + z * 3 + w],
        {x: 7, y: 2, z: 4, w: 3},
        both(x * 2 + y < 13, x * 20 + y * 10 + z * 3 + w < 128, z * 3 + w < 7),
        "surjective",
    ),
    (
        [x * 20 + y * 10 + z * 3 + w],
        {x: 7, y: 2, z: 4, w: 3},
        both(x * 2 + y < 13, x * 20 + y * 10 + z * 3 + w < 128, z * 3 + w < 10, x * 4 + z < 20),
        "surjective",
    ),
    ([x], {x: 8}, x % 3 != 1, "surjective"),
    ([x], {x: 8}, x > 9, "surjective"),
    ([z * 19 + y * 3 + x], {x: 3, y: 3, z: 3}, True, "surjective"),
    ([(80 + y) // 32, (80 + y) % 32], {y: 176}, True, "surjective"),
    ([(80 + y) // 32, (80 + y) // 4], {y: 176}, True, "surjective"),
    ([(x * 32 + y * 8) // 5], {x: 5, y: 4}, True, "surjective"),
    ([x % 16], {x: 3}, True, "surjective"),
    ([x % 255 // 16], {x: 255}, True, "surjective"),
    ([x * 7 + y], {x: 3, y: 8}, True, "bijective"),
    ([x * -7 + y], {x: 3, y: 8}, True, "surjective"),
    ([x * 7 - y], {x: 3, y: 8}, True, "surjective"),
    ([x * 5 + y * 2], {x: 4, y: 3}, True, "surjective"),
    ([Max(x, y)], {x: 4, y: 3}, True, "surjective"),
    ([x * y], {x: 4, y: 3}, True, "surjective"),
]


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_maps_without_the_property_are_refused_with_a_reason(row):
    indices, extents, predicate, level = REFUSED[row]
    got = detect_iter_map(indices, domain(extents), predicate, level)
    assert len(got.indices) == 0
    assert got.errors and all(isinstance(e, str) and e for e in got.errors)


def test_the_reason_names_what_is_in_the_way():
    got = detect_iter_map([x * 7 - y], domain({x: 3, y: 8}))
    assert "negative scale" in got.errors[0]
    got = detect_iter_map([x], domain({x: 8}), x > 9)
    assert "has no values" in got.errors[0]


SYMBOLIC = [
    ([(y * 3 + 1 + n + x, (const(12), 1 + n, const(1)))], {x: 3, y: 4}),
    ([((y + 1) * n + x, (4 * n, n, const(1)))], {x: n, y: 4}),
    ([(x * 2 * n + y * 2, (3 * n, const(0), const(2)))], {x: 3, y: n}),
    ([(x // n, (m, const(0), const(1))), (x % n, (n, const(0), const(1)))], {x: m * n}),
    ([(z * 19 + y * 3 + x, (const(9), z * 19, const(1)))], {x: 3, y: 3}),
    ([(z * z + y * 3 + x, (const(9), z * z, const(1)))], {x: 3, y: 3}),
    ([((x * 360 + y) // 16, (const(23), (x * 360 - x % 2 * 8) // 16, const(1)))], {y: 360}),
    ([((x * 360 + y) % 16, (const(16), const(0), const(1)))], {y: 360}),
]


@pytest.mark.parametrize("row", range(len(SYMBOLIC)))
def test_symbolic_extents_and_free_variables(row):
    expected, extents = SYMBOLIC[row]
    got = detect_iter_map([e for e, _ in expected], domain(extents))
    assert len(got.indices) == len(expected), got.errors
    for form, (_, (extent, base, scale)) in zip(got.indices, expected):
        (split,) = form.args
        assert equal(split.extent, extent) and equal(split.scale, scale) and equal(form.base, base)


def test_a_trivial_iterator_takes_its_only_value():
    got = detect_iter_map([((x % 49) + y) // 49], domain({y: 1}))
    (form,) = got.indices
    assert not form.args and equal(form.base, (x % 49) // 49)


def test_an_iterator_that_does_not_start_at_zero():
    dom = {x: Range(5, 29), y: Range(-2, 1)}
    got = detect_iter_map([(x * 3 + y + 2 - 15) // 8, (x * 3 + y + 2 - 15) % 8], dom, True, "bijective")
    extents = {x: (5, 24), y: (-2, 3)}
    assert_true_map([(x * 3 + y + 2 - 15) // 8, (x * 3 + y + 2 - 15) % 8], extents, True, "bijective", got.indices)


def test_fused_marks_keep_the_order_of_scales():
    index = y // 3 * 6 + x // 5 * 3 + y % 3
    got = detect_iter_map([index, x % 5], domain({x: 10, y: 9}))
    mark_x, mark_y = IterMark(x, 10), IterMark(y, 9)
    parts = [IterSplitExpr(mark_y, 3, 3, 6), IterSplitExpr(mark_x, 5, 2, 3), IterSplitExpr(mark_y, 1, 3, 1)]
    expected = IterSumExpr([IterSplitExpr(IterMark(IterSumExpr(parts, 0), 18), 1, 18, 1)], 0)
    assert structural_equal(got.indices[0], expected)
    assert structural_equal(normalize_iter_map_to_expr(got.indices[0]), index)


def test_normalize_to_expr_leaves_a_complex_source_alone():
    split = IterSplitExpr(IterMark(x * y + 1, 1024), 1, 1024, 1)
    assert structural_equal(normalize_iter_map_to_expr(split), x * y + 1)


def test_level_names():
    assert IterMapLevel.from_str("Bijective") is IterMapLevel.Bijective
    assert IterMapLevel.from_str("none of these") is None
    with pytest.raises(ValueError, match="check_level must be"):
        detect_iter_map([x], domain({x: 4}), check_level="complete")


def test_normalize_to_iter_sum_orders_by_scale_and_keeps_the_rest_in_the_base():
    a, c = Var("a", "int64"), Var("c", "int64")
    i, j, k = (Var(name, "int64") for name in "ijk")

    def check(index, extents, parts, base):
        got = normalize_to_iter_sum(index, domain(extents))
        assert [equal(s.scale, scale) for s, (_, scale) in zip(got.args, parts)] == [True] * len(parts)
        for split, (value, scale) in zip(got.args, parts):
            assert equal(normalize_iter_map_to_expr(split), value * scale)
        assert len(got.args) == len(parts) and equal(got.base, base)

    check(k + (j + i * 4 + 2) * c + 3, {i: 9, j: 4, k: 3}, [(i, c * 4), (j, c), (k, 1)], 2 * c + 3)
    check(Max(k, a) + (j + i * 4 + 2) * c, {i: 9, j: 4, k: 3}, [(i, c * 4), (j, c)], Max(k, a) + 2 * c)
    check(k + (j * 4 * a + i * 4) * c, {j: a * c, i: c, k: a}, [(j, a * c * 4), (i, c * 4), (k, 1)], const(0, "int64"))
    check(k + 2 * j * 3 + 4 * i, {j: a, i: c, k: a}, [(j, 6), (i, 4), (k, 1)], const(0, "int64"))
    check(k * 2 + 6 * j + 4 * (i // 4) + i % 4, {j: a, i: c * 4, k: a}, [(j, 6), (k, 2), (i, 1)], const(0, "int64"))
    uneven = normalize_to_iter_sum(i // 5, {i: Range(0, const(4096, "int64"))})
    assert [s.extent.value for s in uneven.args] == [820] and uneven.args[0].source.source is i


def test_simplify_undoes_split_and_fuse_with_symbolic_sizes():
    i, j = Var("i", "int64"), Var("j", "int64")
    c = SizeVar("c", "int64")
    whole = i * 32 + j

    def once(e):
        return e // c * c + e % c

    def twice(e):
        return e // (c * c) % 32 * (c * c) + e // c % c * c + e % c

    def nested(e):
        return (e // (c * c) * c + e % (c * c) // c) * c + e % c

    for index, extents, expected in [
        (once(i), {i: c * 32}, i),
        (once(whole), {i: c, j: 32}, whole),
        (twice(i), {i: c * c * 32}, i),
        (twice(whole), {i: c * c, j: 32}, whole),
        (nested(i), {i: c * c * 32}, i),
    ]:
        (got,) = iter_map_simplify([index], domain(extents))
        assert structural_equal(got, expected)


def test_simplify_uses_a_symbolic_predicate():
    i, j = Var("i", "int64"), Var("j", "int64")
    c = SizeVar("c", "int64")
    whole = i * 32 + j
    (got,) = iter_map_simplify([whole // c * c + whole % c], domain({i: (c + 1) // 2, j: 32}), whole < c * 16)
    assert structural_equal(got, whole)


def test_simplify_through_a_reshape():
    size, fused = Var("size", "int64"), Var("fused", "int64")
    first, second, third = fused // 4096 // size, fused // 4096 % size, fused % 4096
    index = ((third // 4096 + first * size + second) % size) * 4096 + third % 4096
    (got,) = iter_map_simplify([index], domain({fused: size * 4096}))
    assert got is fused


def test_simplify_keeps_the_order_of_unit_loops():
    for index, extents, expected in [
        (x + y + z, {x: 1, y: 1, z: 1}, x + y + z),
        (x + y + z // 4 * 4 + z % 4, {x: 1, y: 1, z: 32}, z + x + y),
        (x // 128 + y + z, {x: 128, y: 128, z: 1}, y + z),
        (y + 64 - x % 2 * 64, {x: 6, y: 64}, y + 64 - x % 2 * 64),
    ]:
        (got,) = iter_map_simplify([index], domain(extents), simplify_trivial_iterators=False)
        assert structural_equal(got, expected)


def test_simplify_gives_the_index_back_when_there_is_no_map():
    index = Max(x, y) - z
    assert iter_map_simplify([index], domain({x: 4, y: 4, z: 4})) == [index]


def divided(*args, **kwargs):
    got = subspace_divide(*args, **kwargs)
    sources = [[normalize_iter_map_to_expr(mark.source) for mark in pair] for pair in got[:-1]]
    return sources + [[mark.extent for mark in got[-1]]] if got else []


def assert_pairs(got, expected) -> None:
    assert len(got) == len(expected), got
    for pair, wanted in zip(got, expected):
        for part, want in zip(pair, wanted):
            want = const(want) if isinstance(want, (bool, int)) else want
            assert structural_equal(part, want), (part, want)


def test_subspace_divide_separates_outer_and_inner():
    index = z * 12 + y * 3 + x + n
    dom = domain({x: 3, y: 4, z: 5})
    assert_pairs(divided([index], dom, [x]), [(z * 4 + y, x + n), (True, True)])
    assert_pairs(divided([index], dom, [x], z * 4 + y < 18), [(z * 4 + y, x + n), (z * 4 + y < 18, True)])


def test_subspace_divide_of_split_and_fused_iterators():
    dom = domain({x: 4, y: 8, z: 2})
    first, second = x * 2 + y // 4, y % 4 * 2 + z
    assert_pairs(divided([first, second], dom, [z]), [(first, 0), (y % 4, z), (True, True)])
    assert_pairs(divided([first, second], dom, [y, z]), [(x, y // 4), (0, second), (True, True)])
    assert divided([first, second], dom, [x, z]) == []
    assert_pairs(divided([first, second], dom, [z], first < 7), [(first, 0), (y % 4, z), (first < 7, True)])
    assert_pairs(divided([first, second], dom, [y, z], second < 7), [(x, y // 4), (0, second), (True, second < 7)])
    assert divided([first, second], dom, [z], both(first < 7, second < 7)) == []


def test_subspace_divide_inside_a_fused_mark():
    dom = domain({x: 4, y: 2, z: 6, w: 3})
    fused = y * 6 + z
    indices = [x * 2 + fused // 3 // 2, fused // 3 % 2, fused % 3 * 3 + w]
    assert_pairs(divided(indices, dom, [z, w]), [(x * 2 + y, 0), (0, z // 3), (0, z % 3 * 3 + w), (True, True)])
    assert_pairs(
        divided(indices, dom, [y, z, w]),
        [(x, fused // 6), (0, fused % 6 // 3), (0, fused % 3 * 3 + w), (True, True)],
    )
    assert divided(indices, dom, [y, w]) == []
    assert divided(indices, dom, [w], indices[2] < 8) == []


def test_subspace_divide_keeps_unit_iterators_on_their_side():
    dom = domain({x: 1, y: 16})
    assert_pairs(divided([x * 16 + y], dom, [y], simplify_trivial_iterators=False), [(x, y), (True, True)])
    dom = domain({x: 1, y: 1})
    assert_pairs(divided([x, y], dom, [y], simplify_trivial_iterators=False), [(x, 0), (0, y), (True, True)])


def inverse_of(indices, extents):
    got = detect_iter_map(indices, domain(extents), True, "bijective")
    assert len(got.indices) == len(indices), got.errors
    outputs = [Var(f"output_{i}") for i in range(len(indices))]
    return outputs, inverse_affine_iter_map(got.indices, outputs)


@pytest.mark.parametrize(
    "indices,extents",
    [
        ([x % 16 * 4 + y % 4, x // 16, y // 4], {x: 64, y: 64}),
        ([(z // 4 % 4) * 16 + z % 4 * 4 + z // 16], {z: 64}),
        ([(z % 16 * 4 + z // 16) % 8 * 8 + (z % 16 * 4 + z // 16) // 8], {z: 64}),
        ([const(0), x, y], {x: 6, y: 5}),
    ],
)
def test_inverse_of_a_bijective_map(indices, extents):
    outputs, inverse = inverse_of(indices, extents)
    assert set(inverse) == set(extents)
    for point in points(extents):
        image = {o: value_at(i, point) for o, i in zip(outputs, indices)}
        assert {var: value_at(e, image) for var, e in inverse.items()} == point


def test_inverse_refuses_a_wrong_number_of_outputs():
    with pytest.raises(ValueError, match="got 1 maps and 2 outputs; pass one map for each output"):
        inverse_affine_iter_map(detect_iter_map([x], domain({x: 4})).indices, [x, y])


def test_deep_expressions_are_rewritten_without_recursion():
    e = x
    for _ in range(20000):
        e = e + 1
    (form,) = detect_iter_map([e], domain({x: 4})).indices
    assert isinstance(form.base, IntImm) and form.base.value == 20000


def test_shared_expressions_are_rewritten_once():
    e = x + 1
    for _ in range(20):
        e = e + e
    (form,) = detect_iter_map([e], domain({x: 4})).indices
    assert form.args[0].scale.value == form.base.value == 1 << 20
    square = n
    for _ in range(30):
        square = square * square
    assert len(detect_iter_map([x * square], domain({x: 4})).indices) == 1


def random_index(rng: random.Random, variables: list, extents: dict):
    """A sum of random splits; most are affine, few are onto."""
    e = const(rng.choice([0, 0, 1, 5]))
    for var in rng.sample(variables, rng.randint(1, len(variables))):
        part = var
        for _ in range(rng.randint(0, 2)):
            factor = rng.choice([2, 3, 4, 6])
            part = part // factor if rng.random() < 0.5 else (part + rng.choice([0, 0, 1, 3])) % factor
        e = e + part * rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 8, 12, -1, -2])
    if rng.random() < 0.4:
        factor = rng.choice([2, 3, 4, 5])
        e = e // factor if rng.random() < 0.5 else e % factor
    return e


def test_random_maps_are_true_wherever_they_are_found(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(400):
        variables = [x, y, z][: rng.randint(1, 3)]
        extents = {var: rng.choice([1, 2, 3, 4, 6, 8, 12]) for var in variables}
        indices = [random_index(rng, variables, extents) for _ in range(rng.randint(1, 2))]
        predicate = const(True)
        if rng.random() < 0.4:
            bounded = random_index(rng, variables, extents)
            predicate = bounded < rng.randint(1, 12) if rng.random() < 0.6 else bounded >= rng.randint(1, 4)
        level = rng.choice(["bijective", "surjective"])
        got = detect_iter_map(indices, domain(extents), predicate, level)
        if got.indices and any(value_at(predicate, p) for p in points(extents)):
            found += 1
            assert_true_map(indices, extents, predicate, level, got.indices)
    assert found > 30


def test_random_divisions_put_the_parts_together_again(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(200):
        variables = [x, y, z]
        extents = {var: rng.choice([2, 3, 4, 6]) for var in variables}
        order = rng.sample(variables, 3)
        fused = (order[0] * extents[order[1]] + order[1]) * extents[order[2]] + order[2]
        factor = rng.choice([2, 3, 4, 6])
        last = extents[order[2]]
        indices = rng.choice([[fused], [fused // factor, fused % factor], [fused // last, fused % last], order])
        upper = order[0] * extents[order[1]] + order[1]
        predicate = rng.choice([const(True), upper < rng.randint(2, 8), fused >= 2, order[1] < 2, order[2] >= 1])
        sub = order[rng.randint(0, 2) :]
        got = subspace_divide(indices, domain(extents), sub, predicate)
        if not got:
            continue
        found += 1
        outer_predicate, inner_predicate = (mark.extent for mark in got[-1])
        for point in points(extents):
            holds = bool(value_at(predicate, point))
            assert holds == bool(value_at(outer_predicate, point) and value_at(inner_predicate, point))
            for index, (outer, inner) in zip(indices, got):
                parts = [value_at(normalize_iter_map_to_expr(mark.source), point) for mark in (outer, inner)]
                if holds:
                    assert value_at(index, point) == parts[0] * value_at(inner.extent, {}) + parts[1]
    assert found > 30
