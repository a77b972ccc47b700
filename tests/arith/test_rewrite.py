"""What the rewriting simplifier does, one line per identity: before -> after [where conditions]."""

from __future__ import annotations

import pytest

import tvm.tir
from tvm.arith import Analyzer, expr_deep_equal
from tvm.error import TVMError
from tvm.ir.prim import Broadcast, Cast, Div, FloatImm, FloorDiv, FloorMod, IntImm, Let, Mod, Ramp, Var, const

from .rewrite_table import TABLE
from .text import parse, show

CASES = [line for line in TABLE.strip().splitlines() if not line.startswith("#")]
NAMES = {n: Var(n) for n in "xyz"} | {"v": Var("v", "int32x2"), "p": Var("p", "bool")}


def split_case(line: str) -> tuple[str, str, list[str]]:
    before, rest = line.split(" -> ")
    after, _, where = rest.partition(" where ")
    if where == "positive":
        where = "x >= 0, y >= 0, z >= 0"
    return before, after, [w for w in where.split(", ") if w]


@pytest.mark.parametrize("line", CASES)
def test_identity(line):
    before, after, where = split_case(line)
    an = Analyzer()
    constraint = parse(" and ".join(where) or "True", NAMES)
    with an.constraint_scope(constraint):
        got = an.rewrite_simplify(parse(before, NAMES))
    assert expr_deep_equal(got, parse(after, NAMES)), f"{before} gave {show(got)}, expected {after}"


def test_let_of_a_literal_is_substituted():
    x = NAMES["x"]
    e = Let(x, const(1, "int32"), x + 1)
    got = Analyzer().rewrite_simplify(e + e)
    assert isinstance(got, IntImm) and got.value == 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "bool"])
def test_casts_of_literals_are_folded(dtype):
    x = NAMES["x"]
    an = Analyzer()
    for e, value in ((Cast(dtype, x - x), 0), (Cast(dtype, (x == x).asobject()), 1)):
        got = an.rewrite_simplify(e)
        assert isinstance(got, (IntImm, FloatImm)) and got.value == value and got.dtype == dtype


@pytest.mark.parametrize("cls", [Div, Mod, FloorDiv, FloorMod])
def test_division_by_literal_zero_is_refused(cls):
    vector = Ramp(const(1, "int32"), const(1, "int32"), 2)
    with pytest.raises(TVMError, match="zero"):
        Analyzer().rewrite_simplify(cls(vector, Broadcast(const(0, "int32"), 2)))


@pytest.mark.parametrize("dtype, bits", [("int8", 8), ("uint8", 8), ("int32", 32), ("uint32", 32), ("int64", 64)])
def test_bits_of_literals_are_counted(dtype, bits):
    for value in (0, 1, 2, 100, 127, -1, -128):
        if value < 0 and dtype[0] == "u":
            continue
        text = format(value % 2**bits, f"0{bits}b")
        number = const(value, dtype)
        assert int(Analyzer().rewrite_simplify(tvm.tir.clz(number))) == bits - len(text.lstrip("0"))
        assert int(Analyzer().rewrite_simplify(tvm.tir.popcount(number))) == text.count("1")
