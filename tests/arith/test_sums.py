"""Sums with integer coefficients: one linear form, linear in the nodes of an expression however they are shared."""

from __future__ import annotations

import random

import pytest

from tvm import tir
from tvm.arith import sums
from tvm.arith.compare import Interner
from tvm.arith.sums import Sum, combine, integer_sum, linear_sum, scaled, weighted, written
from tvm.codegen.linear import linear_form


def variables(dtype="int32"):
    return [tir.Var(name, dtype) for name in "xyz"]


def value(e, at):
    """The value of an expression by Python's own arithmetic."""
    kind = type(e)
    if kind is tir.IntImm:
        return e.value
    if kind is tir.Var:
        return at[e]
    if kind is tir.FloorDiv:
        return value(e.a, at) // value(e.b, at)
    a, b = value(e.a, at), value(e.b, at)
    return a + b if kind is tir.Add else a - b if kind is tir.Sub else a * b


def sum_value(total: Sum, at):
    return total.constant + sum(c * value(atom, at) for atom, c in total.terms.items())


def random_sum(rng: random.Random, names, depth: int):
    if not depth:
        return rng.choice([*names, tir.IntImm("int32", rng.randint(-5, 5)), tir.FloorDiv(rng.choice(names), 3)])
    a, b = random_sum(rng, names, depth - 1), random_sum(rng, names, depth - 1)
    kind = rng.choice("+-*")
    return tir.Add(a, b) if kind == "+" else tir.Sub(a, b) if kind == "-" else tir.Mul(a, rng.randint(-3, 3))


def test_a_sum_has_the_value_of_its_expression_by_both_ways_of_collecting_it(seed):
    rng = random.Random(seed)
    names = variables()
    for _ in range(200):
        e = random_sum(rng, names, rng.randint(0, 5))
        at = {v: rng.randint(-20, 20) for v in names}
        direct, shared = linear_sum(e), sums._shared_sum(e, False)
        assert direct == shared and list(direct.terms) == list(shared.terms)
        assert all(direct.terms.values())
        assert sum_value(direct, at) == value(e, at) == value(written(direct, "int32"), at)


def test_shared_additions_are_visited_once():
    x, y, _ = variables()
    e = x + y
    for _ in range(60):
        e = tir.Add(e, e)
    assert linear_sum(e) == Sum({x: 2**60, y: 2**60}, 0)
    assert integer_sum(e) is None


def test_atoms_are_in_order_of_appearance_though_they_contain_each_other():
    x, y, _ = variables()
    quotient = tir.FloorDiv(x, 4)
    assert list(linear_sum(quotient * 8 + y + x).terms) == [quotient, y, x]


def test_a_widened_index_is_the_narrow_one_for_addresses_only():
    x, y, _ = variables()
    wide = tir.Cast("int64", x + y * 3) * 2 + 1
    assert linear_form(wide) == Sum({x: 2, y: 6}, 1)
    assert len(linear_sum(wide).terms) == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32"])
def test_addresses_of_types_that_wrap_are_atoms(dtype):
    x = tir.Var("x", dtype)
    e = tir.Add(x, x)
    assert linear_form(e) == Sum({e: 1}, 0)


def test_a_sum_whose_numbers_are_no_values_of_the_type_is_none():
    x = tir.Var("x", "int8")
    hundred, two = tir.IntImm("int8", 100), tir.IntImm("int8", 2)
    assert integer_sum(tir.Mul(tir.Mul(x, hundred), two)) is None
    assert integer_sum(tir.Mul(x, hundred)) == Sum({x: 100}, 0)
    assert integer_sum(tir.Var("f", "float32")) is None


def test_terms_that_cancel_are_gone():
    x, y, z = variables()
    a, b = linear_sum(x * 2 + y), linear_sum(x * 2 - z)
    assert combine(a, b, -1) == Sum({y: 1, z: 1}, 0)
    assert scaled(a, 0) == Sum({}, 0) and weighted(a, 3, b, 0) == scaled(a, 3)
    assert a == Sum({x: 2, y: 1}, 0)
    gone = []
    quotient = tir.FloorDiv(x, 3)
    assert integer_sum(quotient + y - quotient, gone) == Sum({y: 1}, 0) and gone == [quotient]


def test_equal_atoms_are_one_where_an_interner_says_so():
    x, *_ = variables()
    total = tir.Add(tir.FloorDiv(x, 3), tir.FloorDiv(x, 3))
    assert len(linear_sum(total).terms) == 2
    assert list(sums.decompose(total, Interner()).terms.values()) == [2]
