"""Which integers cannot be negative, by their form: division of those is cheap.

Sums and products of loop variables, sizes and literals are indices: they are taken not to overflow. Anything that was
read from memory has a range only as far as its type gives one.
"""

from __future__ import annotations

from ...dtype import info, int_range
from ...ir.prim import (
    Add,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Var,
)
from .builder import Builder

# The range of an index: from zero to something its type holds.
INDEX = -1
_DEPTH = 12


def is_nonnegative(b: Builder, node: PrimExpr) -> bool:
    return largest(b, node) is not None


def largest(b: Builder, node: PrimExpr, depth: int = 0) -> int | None:
    """The largest value a node that is not negative can have (or INDEX); None if it may be negative."""
    kind = type(node)
    if kind is IntImm:
        return node.value if node.value >= 0 else None
    if isinstance(node, Var):
        return _variable(b, node)
    data = info(node.dtype)
    rule = _RULES.get(kind)
    got = rule(b, node, depth + 1) if rule is not None and depth < _DEPTH else None
    if got is None and data.is_uint:
        return int_range(node.dtype)[1]
    return got


def _variable(b: Builder, node: Var) -> int | None:
    fixed = b.constants.get(node)
    if fixed is not None:
        return fixed if fixed >= 0 else None
    data = info(node.dtype)
    if data.is_uint:
        return int_range(node.dtype)[1]
    known = b.nonnegative.get(node, INDEX if isinstance(node, SizeVar) else None)
    return int_range(node.dtype)[1] if known == INDEX and data.bits < 32 else known


def _limit(node: PrimExpr) -> int:
    return int_range(node.dtype)[1]


def _sum(b: Builder, node: Add, depth: int) -> int | None:
    x, y = largest(b, node.a, depth), largest(b, node.b, depth)
    if x is None or y is None:
        return None
    if INDEX in (x, y):
        return INDEX if max(x, y) <= _limit(node) // 2 else None
    return x + y if x + y <= _limit(node) else None


def _product(b: Builder, node: Mul, depth: int) -> int | None:
    x, y = largest(b, node.a, depth), largest(b, node.b, depth)
    if x is None or y is None:
        return None
    if INDEX in (x, y):
        other = node.b if x == INDEX else node.a
        return INDEX if x == y or isinstance(other, (IntImm, Broadcast)) else None
    return x * y if x * y <= _limit(node) else None


def _smaller(b: Builder, node: Min, depth: int) -> int | None:
    x, y = largest(b, node.a, depth), largest(b, node.b, depth)
    if x is None or y is None:
        return None
    return max(x, y) if INDEX in (x, y) else min(x, y)


def _larger(b: Builder, node: Max, depth: int) -> int | None:
    x, y = largest(b, node.a, depth), largest(b, node.b, depth)
    if x is None and y is None:
        return None
    if x is None or y is None:
        return _limit(node)
    return INDEX if INDEX in (x, y) else max(x, y)


def _quotient(b: Builder, node: FloorDiv | Div, depth: int) -> int | None:
    return largest(b, node.a, depth) if largest(b, node.b, depth) is not None else None


def _floor_rest(b: Builder, node: FloorMod, depth: int) -> int | None:
    return largest(b, node.b, depth)


def _rest(b: Builder, node: Mod, depth: int) -> int | None:
    return largest(b, node.a, depth)


def _cast(b: Builder, node: Cast, depth: int) -> int | None:
    source = info(node.value.dtype)
    if not source.is_integer:
        return None
    got = largest(b, node.value, depth)
    if got == INDEX:
        return INDEX if info(node.dtype).bits >= 32 else None
    return got if got is not None and got <= _limit(node) else None


def _ramp(b: Builder, node: Ramp, depth: int) -> int | None:
    x, y = largest(b, node.base, depth), largest(b, node.stride, depth)
    if x is None or y is None:
        return None
    if INDEX in (x, y):
        return INDEX
    top = x + y * (node.lanes - 1)
    return top if top <= _limit(node) else None


def _broadcast(b: Builder, node: Broadcast, depth: int) -> int | None:
    return largest(b, node.value, depth)


def _select(b: Builder, node: Select, depth: int) -> int | None:
    x, y = largest(b, node.true_value, depth), largest(b, node.false_value, depth)
    if x is None or y is None:
        return None
    return INDEX if INDEX in (x, y) else max(x, y)


_RULES = {
    Add: _sum,
    Mul: _product,
    Min: _smaller,
    Max: _larger,
    FloorDiv: _quotient,
    Div: _quotient,
    FloorMod: _floor_rest,
    Mod: _rest,
    Cast: _cast,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Select: _select,
}
