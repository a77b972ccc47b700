"""Bounds of regions over iterator domains: boxes that a region covers, and boxes that contain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.prim import IntImm, Min, PrimExpr, Range, Sub, Var, const
from ..ir.primop import add, minimum, multiply, subtract
from .analyzer import Analyzer
from .interval_set import IntervalSet, IntSet, as_set, eval_set, from_min_extent
from .iter_map import IterMapLevel, IterSumExpr, detect_iter_map


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntSet] | None:
    """Return the box that the region fills exactly while the variables run through their domains under ``predicate``.

    Return None if the region is not a box: dimensions depend on each other, strides are wider than the region, or
    indices are not affine.
    """
    found = detect_iter_map([dom.min for dom in region], var_dom, predicate, IterMapLevel.Surjective).indices
    if not found:
        return None
    analyzer = Analyzer()
    out: list[IntSet] = []
    for form, dom in zip(found, region):
        got = _covered(form, dom.extent, analyzer)
        if got is None:
            return None
        out.append(got)
    return out


def _covered(form: IterSumExpr, extent: PrimExpr, analyzer: Analyzer) -> IntSet | None:
    """Return the union of all ``[form, form + extent)`` if it has no gaps, else None."""
    if not form.args:
        return from_min_extent(form.base, extent)
    (split,) = form.args
    steps = multiply(subtract(split.extent, const(1, split.dtype)), split.scale)
    if analyzer.can_prove(split.scale > 0) and analyzer.can_prove(extent >= split.scale):
        low, total = form.base, add(steps, extent)
    elif analyzer.can_prove(split.scale < 0) and analyzer.can_prove(add(extent, split.scale) >= 0):
        low, total = add(form.base, steps), subtract(extent, steps)
    else:
        return None
    low = analyzer.simplify(low)
    return IntervalSet(low, _end(low, analyzer.simplify(subtract(total, 1)), analyzer))


def _end(low: PrimExpr, distance: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Return ``low + distance``. The clipped end of a tile is the smaller of two ends, and ``low`` may cancel in
    each."""
    while isinstance(distance, Sub) and isinstance(distance.b, IntImm):
        low, distance = subtract(low, distance.b), distance.a
    if isinstance(distance, Min):
        return analyzer.simplify(
            minimum(analyzer.simplify(add(low, distance.a)), analyzer.simplify(add(low, distance.b)))
        )
    return analyzer.simplify(add(low, distance))


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntSet] | None:
    """Return a box that the region covers completely, or None if none is found."""
    return estimate_region_strict_bound(region, var_dom, predicate)


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntSet]:
    """Return a box that contains the region: exact if possible, else one dimension at a time, else by interval
    arithmetic."""
    found = estimate_region_strict_bound(region, var_dom, predicate)
    if found is not None:
        return found
    domains = {var: as_set(dom) for var, dom in var_dom.items()}
    out: list[IntSet] = []
    for dom in region:
        single = estimate_region_strict_bound([dom], var_dom, predicate)
        out.append(eval_set(dom, domains) if single is None else single[0])
    return out
