"""Conversion of predicates over iterators to bounds: bounds on single iterators narrow their ranges, the others apply
to sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..dtype import info
from ..ir.prim import EQ, GE, GT, LE, LT, IntImm, PrimExpr, Range, Var
from ..ir.primop import add, maximum, minimum, subtract
from ..ir.subst import uses_var
from ..ir.visit import post_order
from .analyzer import Analyzer
from .iter_expr import short
from .linear import conjuncts
from .sums import Sum, compose, decompose

_COMPARISONS = (LT, LE, GT, GE, EQ)


class Bound(NamedTuple):
    """The bound ``low <= expr < high``; None means that the side is unbounded."""

    expr: PrimExpr
    low: PrimExpr | None
    high: PrimExpr | None


def iterator_bounds(predicate: PrimExpr, iters: Mapping[Var, Range]) -> tuple[dict[Var, Range], list[Bound]] | str:
    """Return the ranges narrowed by bounds on single iterators, and the other bounds, smaller expressions first.

    If the predicate is not a conjunction of bounds, return the reason as a string.
    """
    analyzer = Analyzer()
    ranges = dict(iters)
    bounds: list[Bound] = []
    for condition in conjuncts(predicate):
        if isinstance(condition, IntImm):
            if not condition.value:
                return "the predicate is false"
            continue
        if not uses_var(condition, ranges):
            continue
        bound = _bound(condition, ranges, analyzer)
        if bound is None:
            return f"the predicate {short(condition)} is not a bound on the iterators"
        if isinstance(bound.expr, Var):
            ranges[bound.expr] = _narrowed(ranges[bound.expr], bound, analyzer)
        else:
            bounds.append(bound)
    # Apply the bound of a sum before the bounds of sums that contain it, so that they use its narrowed range.
    return ranges, sorted(bounds, key=lambda b: _size(b.expr, ranges))


def _size(expr: PrimExpr, ranges: Mapping[Var, Range]) -> tuple[int, int]:
    nodes = list(post_order(expr))
    return sum(1 for n in nodes if isinstance(n, Var) and n in ranges), len(nodes)


def _narrowed(dom: Range, bound: Bound, analyzer: Analyzer) -> Range:
    low, high = dom.min, add(dom.min, dom.extent)
    if bound.low is not None:
        low = maximum(low, bound.low)
    if bound.high is not None:
        high = minimum(high, bound.high)
    return Range(min=analyzer.simplify(low), extent=analyzer.simplify(subtract(high, low)))


def _bound(condition: PrimExpr, ranges: Mapping[Var, Range], analyzer: Analyzer) -> Bound | None:
    kind = type(condition)
    if kind not in _COMPARISONS:
        return None
    a, b = condition.a, condition.b
    if not info(a.dtype).is_integer or info(a.dtype).lanes != 1:
        return None
    if not uses_var(b, ranges):
        expr, limit = a, b
    elif not uses_var(a, ranges):
        expr, limit = b, a
        kind = {LT: GT, LE: GE, GT: LT, GE: LE, EQ: EQ}[kind]
    else:
        if not info(a.dtype).is_int:
            return None
        expr, limit = (analyzer.simplify(part) for part in _apart(a, b, ranges, analyzer))
    if kind is LT:
        return Bound(expr, None, limit)
    if kind is LE:
        return Bound(expr, None, add(limit, 1))
    if kind is GT:
        return Bound(expr, add(limit, 1), None)
    return Bound(expr, limit, None if kind is GE else add(limit, 1))


def _apart(a: PrimExpr, b: PrimExpr, ranges: Mapping[Var, Range], analyzer: Analyzer) -> tuple[PrimExpr, PrimExpr]:
    """Return ``(x, y)`` with ``x - y = a - b`` and all iterators in ``x``."""
    total = decompose(subtract(a, b), analyzer)
    inside = {atom: c for atom, c in total.terms.items() if uses_var(atom, ranges)}
    outside = {atom: -c for atom, c in total.terms.items() if atom not in inside}
    return compose(Sum(inside, 0), a.dtype), compose(Sum(outside, -total.constant), a.dtype)
