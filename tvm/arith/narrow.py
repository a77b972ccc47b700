"""Narrowing of predicates: predicates without given parameters that imply the original for all values of the
parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    FloatImm,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    const,
    convert,
)
from ..ir.primop import add, subtract
from ..ir.visit import post_order
from .analyzer import Analyzer

# Of an integer: the smallest and the largest value. Of a condition: a condition that implies it, and one that it
# implies.
Pair = tuple[PrimExpr, PrimExpr]

_INCREASING = (Add, Min, Max)
_BELOW = (LT, LE)
_ABOVE = (GT, GE)


def narrow_predicate_expression(predicate: PrimExpr, free_parameters: Mapping[Var, Range]) -> PrimExpr:
    """Return a predicate without the parameters that implies ``predicate`` for all their values; false if none is
    found."""
    predicate = convert(predicate)
    analyzer = Analyzer()
    ends: dict[Var, Pair] = {}
    for var, dom in free_parameters.items():
        last = analyzer.simplify(subtract(add(dom.min, dom.extent), const(1, dom.min.dtype)))
        ends[getattr(var, "var", var)] = (analyzer.simplify(dom.min), last)
    pairs: dict[int, Pair | None] = {}
    for node in post_order(predicate):
        pairs[id(node)] = _pair(node, pairs, ends)
    got = pairs[id(predicate)]
    return const(False, "bool") if got is None else got[0]


def _pair(node: PrimExpr, pairs: dict[int, Pair | None], ends: Mapping[Var, Pair]) -> Pair | None:
    if isinstance(node, Var):
        return ends.get(node, (node, node))
    if isinstance(node, (IntImm, FloatImm)):
        return node, node
    rule = _RULES.get(type(node))
    parts = [pairs[id(child)] for child in node.children()]
    if rule is None:
        return None
    return rule(node, *parts)


def _same(node: PrimExpr, *parts: Pair | None) -> bool:
    """Return whether neither bound of any operand changed."""
    return all(p is not None and p[0] is c is p[1] for p, c in zip(parts, node.children()))


def _increasing(node: Any, a: Any, b: Any) -> Pair | None:
    if a is None or b is None:
        return None
    if _same(node, a, b):
        return node, node
    kind = node.__class__
    return kind(a[0], b[0]), kind(a[1], b[1])


def _difference(node: Any, a: Any, b: Any) -> Pair | None:
    if a is None or b is None:
        return None
    return (node, node) if _same(node, a, b) else (Sub(a[0], b[1]), Sub(a[1], b[0]))


def _scaled(node: Any, a: Any, b: Any) -> Pair | None:
    """Return the bounds of a product or quotient by a literal. A negative literal swaps them."""
    if a is None or b is None:
        return None
    if _same(node, a, b) and not isinstance(node, FloorDiv):
        return node, node
    kind = node.__class__
    if isinstance(node.b, IntImm) and node.b.value:
        low, high = kind(a[0], node.b), kind(a[1], node.b)
        positive = node.b.value > 0
    elif kind is Mul and isinstance(node.a, IntImm):
        low, high = kind(node.a, b[0]), kind(node.a, b[1])
        positive = node.a.value >= 0
    else:
        # A symbolic divisor may be zero, and a symbolic factor may have either sign.
        return None
    if _same(node, a, b):
        return node, node
    return (low, high) if positive else (high, low)


def _comparison(node: Any, a: Any, b: Any) -> Pair | None:
    kind = node.__class__
    if a is None or b is None:
        return None
    if _same(node, a, b):
        return node, node
    (a_low, a_high), (b_low, b_high) = a, b
    if kind in _BELOW:
        return kind(a_high, b_low), kind(a_low, b_high)
    if kind in _ABOVE:
        return kind(a_low, b_high), kind(a_high, b_low)
    if kind is EQ:
        return And(LE(a_high, b_low), LE(b_high, a_low)), And(LE(a_low, b_high), LE(b_low, a_high))
    return Or(LT(a_high, b_low), LT(b_high, a_low)), Or(LT(a_low, b_high), LT(b_low, a_high))


def _connective(node: Any, a: Any, b: Any) -> Pair:
    kind = node.__class__
    a, b = a or _UNKNOWN, b or _UNKNOWN
    return (node, node) if _same(node, a, b) else (kind(a[0], b[0]), kind(a[1], b[1]))


def _negation(node: Any, a: Any) -> Pair | None:
    if a is None:
        return None
    return (node, node) if _same(node, a) else (Not(a[1]), Not(a[0]))


_UNKNOWN: Pair = (const(False, "bool"), const(True, "bool"))
_RULES: dict[type[Any], Callable[..., Any]] = {
    **dict.fromkeys(_INCREASING, _increasing),
    Sub: _difference,
    **dict.fromkeys((Mul, FloorDiv), _scaled),
    **dict.fromkeys((LT, LE, GT, GE, EQ, NE), _comparison),
    **dict.fromkeys((And, Or), _connective),
    Not: _negation,
}
