"""Modular sets: expression -> coefficient, base [where conditions]."""

from __future__ import annotations

import pytest

import tvm.tir  # noqa: F401 - registers the intrinsics
from tvm.arith import Analyzer
from tvm.ir.prim import Let, Var

from .text import parse

TABLE = """
x * 6 + y * 4 -> 2 0
(x * 4 + 2) * (y * 6 + 1) -> 4 2
(x * 128 + y * 4) % 256 -> 4 0
truncdiv(x * 4 + 2, 2) -> 1 0
shift_right(x * 4 + 2, 1) -> 2 1
(x * 4 + 2) // 2 -> 2 1
truncdiv(x * 4 + 2, 2) -> 2 1 where x >= 0
truncmod(x * 4 + 1, 4) -> 1 0
(x * 4 + 3) % 8 -> 4 3
min(x * 3, y * 9) -> 3 0
max(x * 3 + 1, y * 9 + 4) -> 3 1
select(x > 0, x * 3 + 1, y * 9 + 2) -> 1 0
x * 4 + y * 6 + 7 -> 2 1
(x * 4 + 1) * (y * 8 + 3) -> 4 3
truncdiv(x * 4 + 1, y * 8 + 3) -> 1 0
(x * 4 + 1) * truncdiv(y * 8, 4) -> 2 0
(x * 12 + 1) - (y * 3 * 7 + 2) -> 3 2
x * 12 + min(y * 3 * 7, 2) -> 1 0
y + 1 -> 4 3 where truncmod(y, 4) == 2
y + x * 2 -> 4 0 where truncmod(y, 4) == 2 and truncmod(x, 2) == 1
x -> 12 1 where truncmod(x, 4) == 1 and truncmod(x, 3) == 1
x -> 105 23 where x % 3 == 2 and x % 5 == 3 and x % 7 == 2
bitwise_and(x * 16 + y * 4, 31) -> 4 0
bitwise_and(x * 16 + y * 4, 17) -> 1 0
"""
NAMES = {n: Var(n) for n in "xy"}


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_modular_set(line):
    text, rest = line.split(" -> ")
    want, _, where = rest.partition(" where ")
    an = Analyzer()
    with an.constraint_scope(parse(where or "True", NAMES)):
        got = an.modular_set(parse(text, NAMES))
    assert [got.coeff, got.base] == [int(w) for w in want.split()]


def test_remainders_keep_the_common_step():
    x = NAMES["x"]
    an = Analyzer()
    for text, coeff, base in (("truncmod(x * 4, 4)", 4, 0), ("(x * 4 + 3) % 2", 2, 1)):
        got = an.modular_set(parse(text, {"x": x}))
        assert (got.coeff, got.base) == (coeff, base)


def test_values_and_lets_are_followed():
    x, y = Var("x", "int64"), Var("y", "int64")
    an = Analyzer()
    an.bind(y, x * 4 + 1)
    got = an.modular_set(1 - y)
    assert (got.coeff, got.base) == (4, 0)
    got = an.modular_set(Let(x, y * 10, x + 1))
    assert got.coeff % 10 == 0 and got.base % 10 == 1


def test_narrow_products_may_wrap():
    x = Var("x", "int8")
    got = Analyzer().modular_set(parse("x * 3", {"x": x}, "int8"))
    assert (got.coeff, got.base) == (1, 0)
