"""Integer systems: known solutions, and equivalence of the solved system point by point."""

from __future__ import annotations

import random

import pytest
from integer_points import points, value_at

from tvm.arith import Analyzer
from tvm.arith.diagonal import diagonalize
from tvm.arith.solve import (
    IntConstraints,
    IntGroupBounds,
    solve_inequalities_as_conditions,
    solve_linear_equations,
    solve_linear_inequalities,
)
from tvm.ir.op import Op
from tvm.ir.prim import EQ, GE, GT, LE, LT, NE, Call, Cast, Range, Var, const
from tvm.ir.structural import structural_equal

x, y, z = Var("x"), Var("y"), Var("z")


def same(a, b) -> bool:
    return structural_equal(a, const(b) if isinstance(b, int) else b)


def test_without_variables_the_system_stays():
    equations = [EQ(x + y, 20), EQ(x - y, 10)]
    got = solve_linear_equations(equations)
    assert got.src_to_dst == {} and got.dst_to_src == {} and got.src.variables == ()
    assert list(got.src.relations) == equations and got.dst is got.src


def test_shared_terms_are_visited_once():
    total = x + y
    for _ in range(28):
        total = total + total
    got = solve_linear_equations([EQ(total, 1 << 28), EQ(y, 5)], [x, y])
    assert same(got.src_to_dst[x], -4)


def test_unique_solution():
    got = solve_linear_equations([EQ(x + y, 20), EQ(x - y, 10)], [x, y])
    assert got.dst.variables == () and same(got.src_to_dst[x], 15) and same(got.src_to_dst[y], 5)


def test_free_variables_of_a_system_of_low_rank():
    got = solve_linear_equations([EQ(x + y + z, 15), EQ(x + y, 10)], [x, y, z], {})
    (n0,) = got.dst.variables
    assert same(got.src_to_dst[x], n0 + 10) and same(got.src_to_dst[y], -n0) and same(got.src_to_dst[z], 5)


def test_ranges_carry_over():
    ranges = {x: Range.from_min_extent(-5, 10), y: Range.from_min_extent(0, 10)}
    got = solve_linear_equations([EQ(x + y, 0)], [x, y], ranges)
    (n0,) = got.dst.variables
    assert same(got.src_to_dst[x], n0) and same(got.src_to_dst[y], -n0)
    assert same(got.dst.ranges[n0].min, -9) and same(got.dst.ranges[n0].extent, 10)
    (relation,) = got.dst.relations
    assert isinstance(relation, LE) and same(relation.a, -5) and relation.b is n0


@pytest.mark.parametrize("equations", [[EQ(x + y, 0), EQ(x - y, 0), EQ(x, 5)], [EQ(x * 2 + y * 4, 5)]])
def test_systems_without_solution(equations):
    got = solve_linear_equations(equations, [x, y], {})
    assert got.dst.variables == () and [same(r, const(False)) for r in got.dst.relations] == [True]
    assert got.src_to_dst == {} and got.dst_to_src == {}


def test_parameters_on_the_right_hand_side():
    got = solve_linear_equations([EQ(x * 3, z)], [x], {})
    assert same(got.src_to_dst[x], z // 3) and got.dst.variables == ()
    (relation,) = got.dst.relations
    assert Analyzer().can_prove(EQ(z % 3, 0)) is False and value_at(relation, {z: 6}) and not value_at(relation, {z: 7})


def test_relations_of_other_kinds_are_kept():
    got = solve_linear_equations([EQ(x + y, 4), NE(x, 1), x * y < 9], [x, y], {})
    (n0,) = got.dst.variables
    values = {n0: 3}
    at = {v: value_at(e, values) for v, e in got.src_to_dst.items()}
    assert at[x] + at[y] == 4 and len(got.dst.relations) == 2


def test_two_bounded_variables():
    ranges = {x: Range(-100, 100), y: Range(0, 10)}
    problem = [LE(x + y, 20), GE(x - y, 10)]
    conditions = solve_inequalities_as_conditions([x, y], ranges, problem)
    expected = [GE(x, y + 10), LE(x, 20 - y), GE(y, 0), LE(y, 5)]
    assert [structural_equal(a, b) for a, b in zip(conditions, expected)] == [True] * 4 and len(conditions) == 4
    got = solve_linear_inequalities(problem, [x, y], ranges)
    assert (got.ranges[y].min.value, got.ranges[y].extent.value) == (0, 6)
    assert same(got.ranges[x].min, y + 10) and got.ranges[x].extent.value == 11


def test_deskewed_ranges_start_at_zero():
    ranges = {x: Range(-100, 100), y: Range(0, 10)}
    got = solve_linear_inequalities([LE(x + y, 20), GE(x - y, 10)], [x, y], ranges, deskew_range=True)
    new_x, new_y = got.dst.variables
    (relation,) = got.dst.relations
    assert structural_equal(relation, new_y * 2 + new_x <= 10)
    assert [same(got.dst.ranges[v].min, 0) for v in (new_x, new_y)] == [True, True]
    assert (got.dst.ranges[new_x].extent.value, got.dst.ranges[new_y].extent.value) == (11, 6)
    assert same(got.src_to_dst[x], new_x + (new_y + 10)) and got.src_to_dst[y] is new_y
    assert same(got.dst_to_src[new_x], x - y - 10) and got.dst_to_src[new_y] is y


def test_bounds_that_meet_give_a_value():
    problem = [GE(x + y, 10), GE(x - y, 2), LE(x, 6)]
    got = solve_linear_inequalities(problem, [x, y])
    assert [(got.ranges[v].min.value, got.ranges[v].extent.value) for v in (x, y)] == [(6, 1), (4, 1)]
    got = solve_linear_inequalities(problem, [x, y], deskew_range=True)
    assert got.dst.variables == () and got.dst.ranges == {} and got.dst.relations == ()
    assert same(got.src_to_dst[x], 6) and same(got.src_to_dst[y], 4)


def test_products_of_variables_stay_relations():
    problem = [LE(x, 6), GE(x, 6), GE(x - z * y, 0), LE(x - z * y, 0)]
    got = solve_linear_inequalities(problem, [x, y, z])
    assert (got.ranges[x].min.value, got.ranges[x].extent.value) == (6, 1)
    assert len(got.relations) == 3 and structural_equal(got.relations[0], EQ(x, z * y))
    low, high = got.relations[1:]
    assert isinstance(low, LE) and isinstance(high, LE) and same(low.b, 0) and same(high.b, 0)
    assert Analyzer().can_prove_equal(low.a + high.a, 0)
    assert structural_equal(low.a, z * y - 6) or structural_equal(high.a, z * y - 6)
    got = solve_linear_inequalities(problem, [x, y, z], deskew_range=True)
    assert got.src_to_dst[y] is y and got.src_to_dst[z] is z and same(got.src_to_dst[x], 6)


def test_contradictory_inequalities():
    problem = [-x - 4 <= -5 * x + 2, x * 4 + 5 <= x * 5]
    ranges = {x: Range.from_min_extent(-20, 41)}
    got = solve_linear_inequalities(problem, [x], ranges, deskew_range=True)
    assert got.dst.variables == () and [bool(r) for r in got.dst.relations] == [False]
    assert got.src_to_dst == {} and got.dst_to_src == {}
    got = solve_linear_inequalities(problem, [x], ranges)
    assert got.variables == () and got.ranges == {} and [bool(r) for r in got.relations] == [False]


def test_a_range_that_nothing_is_known_about():
    free = Var("free", "float32")
    extent = Cast("int32", Call("float32", Op.get("tir.log"), (free,)) + const(1.0))
    got = solve_linear_inequalities([x > 3], [x], {x: Range.from_min_extent(0, extent)})
    assert got.variables == (x,) and got.ranges == {} and len(got.relations) == 3


def test_group_bounds_of_a_range():
    group = IntGroupBounds.from_range(Range(3, 9))
    assert same(group.coef, 1) and same(group.lower[0], 3) and same(group.upper[0], 8) and group.equal == ()
    best = IntGroupBounds(4, [2], [], [9, y]).find_best_range({y: Range(0, 8)})
    assert (value_at(best.min, {}), value_at(best.extent, {})) == (1, 1)


def test_constraints_can_be_given_as_one_object():
    system = IntConstraints([x, y], {}, [EQ(x + y, 20), EQ(x - y, 10)])
    got = solve_linear_equations(system)
    assert got.src is system and same(got.src_to_dst[x], 15)


def test_diagonal_form_of_random_matrices(seed):
    rng = random.Random(seed)

    def product(a, b):
        return [[sum(p * q for p, q in zip(row, column)) for column in zip(*b)] for row in a]

    for _ in range(60):
        rows, columns = rng.randint(1, 4), rng.randint(1, 5)
        matrix = [[rng.randint(-6, 6) for _ in range(columns)] for _ in range(rows)]
        got = diagonalize(matrix, columns)
        rank = len(got.diagonal)
        expected = [[got.diagonal[i] if i == j and i < rank else 0 for j in range(columns)] for i in range(rows)]
        assert product(product(got.left, matrix), got.right) == expected
        unit = [[int(i == j) for j in range(columns)] for i in range(columns)]
        assert product(got.right, got.right_inverse) == unit


def random_relations(rng: random.Random, variables, count: int, largest: int, kinds) -> list:
    out = []
    for _ in range(count):
        sides = []
        for _ in range(2):
            total = const(rng.randint(-largest, largest))
            for var in variables:
                total = total + var * rng.randint(-largest, largest)
            sides.append(total)
        out.append(rng.choice(kinds)(*sides))
    return out


def holds(system: IntConstraints, point: dict) -> bool:
    inside = all(
        value_at(r.min, point) <= point[v] < value_at(r.min, point) + value_at(r.extent, point)
        for v, r in system.ranges.items()
        if v in point
    )
    return inside and all(value_at(r, point) for r in system.relations)


def assert_equivalent(got, extents: dict, parameters=()) -> None:
    """Solutions of the source map to solutions of the target and back, and every small target point maps to one."""
    solved = not any(isinstance(r.dtype, str) and same(r, const(False)) for r in got.dst.relations)
    images = set()
    for point in points(extents):
        if not holds(got.src, point):
            continue
        assert solved, point
        image = {v: value_at(e, point) for v, e in got.dst_to_src.items()}
        image.update({p: point[p] for p in parameters})
        assert holds(got.dst, image), (point, image)
        assert {v: value_at(e, image) for v, e in got.src_to_dst.items()} == {v: point[v] for v in got.src.variables}
        images.add(tuple(image[v] for v in got.dst.variables))
    if solved and not parameters and all(v in got.dst.ranges for v in got.dst.variables):
        spans = {v: (value_at(r.min, {}), value_at(r.extent, {})) for v, r in got.dst.ranges.items()}
        for point in points(spans):
            if holds(got.dst, point):
                assert tuple(point[v] for v in got.dst.variables) in images


def test_solved_equations_are_equivalent(seed):
    rng = random.Random(seed)
    for _ in range(60):
        variables = [x, y, z][: rng.randint(1, 3)]
        extents = dict.fromkeys(variables, (-4, 9))
        relations = random_relations(rng, variables, rng.randint(1, 3), 3, [EQ, EQ, EQ, LE, GT])
        ranges = {v: Range(-4, 5) for v in variables}
        assert_equivalent(solve_linear_equations(relations, variables, ranges), extents)
        if len(variables) > 1:
            got = solve_linear_equations(relations, variables[:-1], ranges)
            assert_equivalent(got, extents, variables[-1:])


def test_solved_inequalities_are_equivalent(seed):
    rng = random.Random(seed)
    for _ in range(40):
        variables = [x, y, z][: rng.randint(1, 3)]
        extents = dict.fromkeys(variables, (-4, 9))
        relations = random_relations(rng, variables, rng.randint(1, 3), 3, [EQ, LE, LT, GE, GT])
        ranges = {v: Range(-4, 5) for v in variables}
        system = IntConstraints(variables, ranges, relations)
        conditions = solve_inequalities_as_conditions(variables, ranges, relations)
        solved = solve_linear_inequalities(relations, variables, ranges)
        for point in points(extents):
            expected = holds(system, point)
            assert all(value_at(c, point) for c in conditions) == expected
            if solved.variables:
                assert holds(solved, point) == expected, (point, relations, solved)
            else:
                assert not expected
        # points outside the ranges are no solutions either
        outside = dict.fromkeys(variables, 5)
        assert not all(value_at(c, outside) for c in conditions)
        assert_equivalent(solve_linear_inequalities(relations, variables, ranges, deskew_range=True), extents)
