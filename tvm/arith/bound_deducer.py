"""Deduction of bounds of a variable that imply a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dtype import info
from ..ir.prim import EQ, GE, GT, LE, LT, Add, FloorDiv, IntImm, Mul, PrimExpr, Sub, Var, const, convert
from ..ir.primop import add, floordiv, floormod, multiply, negative, subtract
from ..ir.visit import post_order
from .analyzer import Analyzer
from .interval_set import IntervalSet, IntSet, as_set, neg_inf, pos_inf
from .linear import ceildiv

_MIRRORED = {LT: GT, LE: GE, GT: LT, GE: LE, EQ: EQ}


def deduce_bound(
    var: Var, cond: PrimExpr, hint_map: Mapping[Var, IntSet], relax_map: Mapping[Var, IntSet]
) -> IntervalSet:
    """Return values of ``var`` for which ``cond`` holds for all values of the variables of ``relax_map`` in their sets.

    ``hint_map`` gives the sets of the remaining variables, which determine the signs of factors. The result is one
    interval without the relaxed variables, or the empty set if no bound can be deduced. ``var`` must occur exactly
    once.
    """
    var = getattr(var, "var", var)
    cond = convert(cond)
    nothing = IntSet.nothing()
    analyzer = Analyzer()
    relation: Any = _relation(var, cond)
    if relation is None:
        return nothing
    relation = _relaxed(relation, _sets(relax_map, var), analyzer)
    if relation is None:
        return nothing
    expr, low, high = relation
    bounds = _unwind(var, expr, low, high, _sets(hint_map, var), analyzer)
    if bounds is None:
        return nothing
    low, high = bounds
    return IntervalSet(
        neg_inf() if low is None else analyzer.simplify(low), pos_inf() if high is None else analyzer.simplify(high)
    )


def _sets(domains: Mapping[Var, IntSet], excluded: Var) -> dict[Var, IntSet]:
    out: dict[Var, IntSet] = {}
    for key, value in (domains or {}).items():
        key = getattr(key, "var", key)
        if key is not excluded:
            out[key] = as_set(value)
    return out


def _occurrences(expr: PrimExpr, var: Var) -> dict[int, int]:
    """Count the occurrences of ``var`` below each node of ``expr`` as a tree; 2 means two or more."""
    counts: dict[int, int] = {}
    for node in post_order(expr):
        counts[id(node)] = 1 if node is var else min(2, sum(counts[id(c)] for c in node.children()))
    return counts


def _relation(var: Var, cond: PrimExpr) -> tuple[PrimExpr, PrimExpr | None, PrimExpr | None] | None:
    """Return ``(expr, low, high)``, where ``expr`` contains ``var`` and ``cond`` means ``low <= expr <= high``. A bound
    of None is missing."""
    kind = type(cond)
    if kind not in (LT, LE, GT, GE, EQ):
        return None
    scalar = info(cond.a.dtype)
    if not scalar.is_int or scalar.lanes != 1:
        return None
    counts = _occurrences(cond, var)
    a, b = cond.a, cond.b
    if counts[id(cond)] != 1:
        return None
    if counts[id(b)]:
        a, b, kind = b, a, _MIRRORED[kind]
    if kind is EQ:
        return a, b, b
    if kind in (GT, GE):
        return a, (add(b, 1) if kind is GT else b), None
    return a, None, (subtract(b, 1) if kind is LT else b)


def _finite(value: PrimExpr) -> bool:
    return value.dtype != "handle"


def _relaxed(relation: Any, relax: Mapping[Var, IntSet], analyzer: Analyzer) -> Any:
    """Strengthen the relation so that it holds for every value of the relaxed variables and does not contain them."""
    expr, low, high = relation
    used = {n for part in (expr, low, high) if part is not None for n in post_order(part) if isinstance(n, Var)}
    if used.isdisjoint(relax):
        return relation
    if low is not None and high is not None:
        return None
    values = analyzer.int_set(expr, relax)
    limits = analyzer.int_set(high if low is None else low, relax)
    if values.is_nothing() or limits.is_nothing():
        return None
    expr, limit = (values.max_value, limits.min_value) if low is None else (values.min_value, limits.max_value)
    if not _finite(expr) or not _finite(limit):
        return None
    return (expr, None, limit) if low is None else (expr, limit, None)


def _sign(value: PrimExpr, hints: Mapping[Var, IntSet], analyzer: Analyzer) -> int:
    """Return 1 or -1 if ``value`` is known to be positive or negative, else 0."""
    if isinstance(value, IntImm):
        return (value.value > 0) - (value.value < 0)
    values = analyzer.int_set(value, hints)
    if _finite(values.min_value) and analyzer.can_prove(values.min_value > 0):
        return 1
    if _finite(values.max_value) and analyzer.can_prove(values.max_value < 0):
        return -1
    return 0


def _unwind(var: Var, expr: PrimExpr, low: Any, high: Any, hints: Mapping[Var, IntSet], analyzer: Analyzer):
    """Convert ``low <= expr <= high`` to bounds of ``var`` by inverting the operations around it."""
    counts = _occurrences(expr, var)
    if counts[id(expr)] != 1:
        return None
    node: Any = expr
    while node is not var:
        undo = _UNDO.get(node.__class__)
        if undo is None:
            return None
        left = bool(counts[id(node.a)])
        other = node.b if left else node.a
        got = undo(other, left, low, high, hints, analyzer)
        if got is None:
            return None
        low, high = got
        node = node.a if left else node.b
    return low, high


def _apply(f: Callable[[PrimExpr], PrimExpr], value: PrimExpr | None) -> PrimExpr | None:
    return None if value is None else f(value)


def _undo_add(other: Any, left: Any, low: PrimExpr, high: PrimExpr, hints: Any, analyzer: Any):
    return _apply(lambda e: subtract(e, other), low), _apply(lambda e: subtract(e, other), high)


def _undo_sub(other: Any, left: Any, low: Any, high: Any, hints: Any, analyzer: Any):
    if left:
        return _apply(lambda e: add(e, other), low), _apply(lambda e: add(e, other), high)
    return _apply(lambda e: subtract(other, e), high), _apply(lambda e: subtract(other, e), low)


def _undo_mul(other: Any, left: Any, low: Any, high: Any, hints: Any, analyzer: Any):
    sign = _sign(other, hints, analyzer)
    if sign == 0:
        return None
    if isinstance(other, IntImm):
        if low is not None and low is high and not analyzer.can_prove_equal(floormod(low, other), 0):
            return None
        if other.value < 0:
            low, high, other = _apply(negative, high), _apply(negative, low), const(-other.value, other.dtype)
        return _apply(lambda e: ceildiv(e, other.value), low), _apply(lambda e: floordiv(e, other), high)
    if low is not None and high is not None:
        if low is not high or not analyzer.can_prove_equal(floormod(low, other), 0):
            return None
        return floordiv(low, other), floordiv(low, other)

    def round_up(e: PrimExpr):
        quotient = floordiv(e, other)
        return quotient if analyzer.can_prove_equal(floormod(e, other), 0) else add(quotient, 1)

    if sign < 0:
        low, high = high, low
    return _apply(round_up, low), _apply(lambda e: floordiv(e, other), high)


def _undo_floordiv(other: Any, left: Any, low: Any, high: Any, hints: Any, analyzer: Any):
    if not left:
        return None
    sign = _sign(other, hints, analyzer)
    if sign == 0:
        return None
    if sign > 0:
        last = _apply(lambda e: subtract(multiply(add(e, 1), other), 1), high)
        return _apply(lambda e: multiply(e, other), low), last
    first = _apply(lambda e: add(multiply(add(e, 1), other), 1), high)
    return first, _apply(lambda e: multiply(e, other), low)


_UNDO: dict[type[Any], Callable[..., Any]] = {Add: _undo_add, Sub: _undo_sub, Mul: _undo_mul, FloorDiv: _undo_floordiv}
