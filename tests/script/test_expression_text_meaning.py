"""The text of random expressions, run as Python, has the value of the expression: brackets are where they must be."""

import random
from types import SimpleNamespace

import pytest

from tvm import tir

NAMES = ("x", "y", "z")
VARS = [tir.Var(n, "int32") for n in NAMES]


def trunc_div(a, b):
    return int(a / b)


T = SimpleNamespace(
    min=min, max=max, Div=trunc_div, truncmod=lambda a, b: a - b * trunc_div(a, b), bool=bool,
    Select=lambda c, a, b: a if c else b, Cast=lambda dtype, v: int(v),
    Add=lambda a, b: a + b, Sub=lambda a, b: a - b, Mul=lambda a, b: a * b, FloorDiv=lambda a, b: a // b,
    FloorMod=lambda a, b: a % b, EQ=lambda a, b: a == b, NE=lambda a, b: a != b, LT=lambda a, b: a < b,
    LE=lambda a, b: a <= b, GT=lambda a, b: a > b, GE=lambda a, b: a >= b,
)  # fmt: skip

VALUES = {
    tir.Add: T.Add, tir.Sub: T.Sub, tir.Mul: T.Mul, tir.FloorDiv: T.FloorDiv, tir.FloorMod: T.FloorMod,
    tir.Div: T.Div, tir.Mod: T.truncmod, tir.Min: min, tir.Max: max, tir.EQ: T.EQ, tir.NE: T.NE, tir.LT: T.LT,
    tir.LE: T.LE, tir.GT: T.GT, tir.GE: T.GE, tir.And: lambda a, b: a and b, tir.Or: lambda a, b: a or b,
}  # fmt: skip
ARITHMETIC = [tir.Add, tir.Sub, tir.Mul, tir.Min, tir.Max]
DIVISION = [tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod]
COMPARE = [tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE]


def integer(rng, depth):
    if depth == 0:
        return rng.choice(VARS) if rng.random() < 0.7 else tir.const(rng.randint(-5, 9), "int32")
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(ARITHMETIC)(integer(rng, depth - 1), integer(rng, depth - 1))
    if kind < 0.85:
        return rng.choice(DIVISION)(integer(rng, depth - 1), tir.const(rng.choice([-3, 2, 4, 7]), "int32"))
    return tir.Select(condition(rng, depth - 1), integer(rng, depth - 1), integer(rng, depth - 1))


def condition(rng, depth):
    if depth <= 1 or rng.random() < 0.4:
        return rng.choice(COMPARE)(integer(rng, max(depth - 1, 0)), integer(rng, max(depth - 1, 0)))
    kind = rng.random()
    if kind < 0.3:
        return tir.Not(condition(rng, depth - 1))
    if kind < 0.4:
        return tir.EQ(condition(rng, depth - 1), condition(rng, depth - 1))
    return rng.choice([tir.And, tir.Or])(condition(rng, depth - 1), condition(rng, depth - 1))


def value(e, point):
    if isinstance(e, tir.Var):
        return point[e.name]
    if isinstance(e, tir.IntImm):
        return e.value
    if isinstance(e, tir.Select):
        return value(e.true_value if value(e.condition, point) else e.false_value, point)
    if isinstance(e, tir.Not):
        return not value(e.a, point)
    return VALUES[type(e)](value(e.a, point), value(e.b, point))


@pytest.mark.parametrize("seed", range(60))
def test_text_means_the_expression(seed):
    rng = random.Random(seed)
    e = integer(rng, 5) if seed % 2 else condition(rng, 5)
    text = str(e)
    for _ in range(10):
        point = {n: rng.randint(-20, 20) for n in NAMES}
        assert eval(text, {"T": T}, point) == value(e, point), (seed, text, point)
