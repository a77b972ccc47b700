"""Random integer expressions and their values at points: the oracle of the property tests."""

from __future__ import annotations

import random

from tvm.arith.const_bound import dtype_bound
from tvm.ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
    const,
)
from tvm.ir.primop import trunc_div, trunc_mod, wrap_int
from tvm.ir.visit import post_order

ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Div, Mod)
COMPARISON = (LT, LE, GT, GE, EQ, NE)

_VALUES = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: trunc_div,
    Mod: trunc_mod,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
    And: lambda a, b: int(bool(a) and bool(b)),
    Or: lambda a, b: int(bool(a) or bool(b)),
}


def value(e: PrimExpr, point: dict[Var, int], wraps: bool = False) -> int | None:
    """The value at a point; None where a division by zero is reached. Narrow types wrap, index types if ``wraps``."""
    got: dict[PrimExpr, int | None] = {}
    for n in post_order(e):
        cls = type(n)
        if isinstance(n, Var):
            v = point[n]
        elif isinstance(n, IntImm):
            v = n.value
        elif cls is Select:
            v = got[n.true_value] if got[n.condition] else got[n.false_value]
            v = None if got[n.condition] is None else v
        elif cls is Call and n.op.name == "tir.if_then_else":
            v = None if got[n.args[0]] is None else got[n.args[1] if got[n.args[0]] else n.args[2]]
        elif cls is Call and n.op.name == "tir.likely":
            v = got[n.args[0]]
        else:
            kids = [got[c] for c in n.children()]
            if None in kids:
                v = None
            elif cls is Not:
                v = int(not kids[0])
            elif cls is Cast:
                v = wrap_int(kids[0], n.dtype)
            elif cls in (Div, Mod, FloorDiv, FloorMod) and kids[1] == 0:
                v = None
            else:
                v = _VALUES[cls](*kids)
        if v is not None and n.dtype != "bool" and (wraps or n.dtype not in ("int32", "int64")):
            v = wrap_int(v, n.dtype)
        got[n] = v
    return got[e]


class Generator:
    """Random expressions over a few variables."""

    def __init__(self, rng: random.Random, variables: list[Var], dtype: str = "int32"):
        self.rng, self.variables, self.dtype = rng, variables, dtype
        self.low, self.high = max(-20, dtype_bound(dtype)[0]), min(20, dtype_bound(dtype)[1])

    def literal(self) -> PrimExpr:
        return const(self.rng.choice([1, 2, 3, 4, 5, 8, 16, self.rng.randint(self.low, self.high)]), self.dtype)

    def expr(self, depth: int) -> PrimExpr:
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            return rng.choice(self.variables) if rng.random() < 0.7 else self.literal()
        pick = rng.random()
        if pick < 0.06:
            return Select(self.condition(depth - 1), self.expr(depth - 1), self.expr(depth - 1))
        cls = rng.choice(ARITHMETIC)
        if cls in (FloorDiv, FloorMod, Div, Mod):
            divisor = rng.choice([2, 3, 4, 5, 8, 16])
            if rng.random() < 0.1 and self.low < 0:
                divisor = -divisor
            right = const(divisor, self.dtype) if rng.random() < 0.85 else self.expr(depth - 1)
            if isinstance(right, IntImm) and right.value == 0:
                right = const(7, self.dtype)
            return cls(self.expr(depth - 1), right)
        if cls is Mul and rng.random() < 0.8:
            return cls(self.expr(depth - 1), self.literal())
        return cls(self.expr(depth - 1), self.expr(depth - 1))

    def condition(self, depth: int) -> PrimExpr:
        rng = self.rng
        pick = rng.random()
        if depth > 0 and pick < 0.2:
            return rng.choice((And, Or))(self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and pick < 0.27:
            return Not(self.condition(depth - 1))
        return rng.choice(COMPARISON)(self.expr(max(depth - 1, 0)), self.expr(max(depth - 1, 0)))
