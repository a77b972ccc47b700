"""An independent oracle for integer reasoning: evaluation of expressions at points, and enumeration of domains."""

from __future__ import annotations

import itertools

from tvm.ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Var,
)

_BINARY = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


def value_at(expr, point: dict) -> int:
    """The value of a small expression where each variable has the value given for it."""
    if isinstance(expr, (bool, int)):
        return expr
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return point[expr]
    if isinstance(expr, Not):
        return not value_at(expr.a, point)
    return _BINARY[type(expr)](value_at(expr.a, point), value_at(expr.b, point))


def points(ranges: dict):
    """Every assignment of the variables to values in their (min, extent) pairs or plain extents."""
    spans = [r if isinstance(r, tuple) else (0, r) for r in ranges.values()]
    for values in itertools.product(*(range(low, low + extent) for low, extent in spans)):
        yield dict(zip(ranges, values))
