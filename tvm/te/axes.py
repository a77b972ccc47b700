"""Iteration axes: propagation of ranges, index values and marks between a stage's root axes and its loops.

A relation connects a parent axis with the axes made from it by a split, a fusion or a layout. Relations are kept in the
order of their creation: a forward pass over them propagates from the root axes to the leaves, a backward pass from the
leaves to the root axes.

The variable of an axis takes values from the minimum of its range on. Loops count from zero only in the lowered
statement.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Set
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer, detect_linear_equation
from ..arith import interval_set as sets
from ..ir.prim import IntImm, IterVar, Min, PrimExpr, Range, Var, const
from ..ir.primop import cast, floordiv, floormod, minimum
from ..ir.visit import post_order, rewrite

if TYPE_CHECKING:
    from ..tir.index_map import IndexMap


class Relation:
    __slots__ = ()


class Split(Relation):
    """parent = outer * extent(inner) + inner + min(parent). If the split ``overlaps``, the last inner loop starts
    earlier so that it ends with the parent, which has at least ``factor`` iterations."""

    __slots__ = ("parent", "outer", "inner", "factor", "nparts", "overlaps")

    def __init__(
        self, parent: IterVar, outer: IterVar, inner: IterVar, factor: Any, nparts: Any, overlaps: bool = False
    ):  # fmt: skip
        self.parent, self.outer, self.inner, self.factor, self.nparts = parent, outer, inner, factor, nparts
        self.overlaps = overlaps

    def first(self, outer: PrimExpr, ranges: Ranges) -> PrimExpr:
        """Return the position in the parent, relative to its minimum, at which the inner loop of iteration ``outer``
        starts."""
        inner = ranges[self.inner].extent
        begin = outer * inner
        return minimum(begin, ranges[self.parent].extent - inner) if self.overlaps else begin


class Fuse(Relation):
    """fused = outer * extent(inner) + inner"""

    __slots__ = ("outer", "inner", "fused")

    def __init__(self, outer: IterVar, inner: IterVar, fused: IterVar):
        self.outer, self.inner, self.fused = outer, inner, fused


class Singleton(Relation):
    """A relation that makes an axis of one iteration."""

    __slots__ = ("iter",)

    def __init__(self, iter: IterVar):
        self.iter = iter


class Transform(Relation):
    """made = forward(parents), parents = inverse(made): the axes of another layout of the same data."""

    __slots__ = ("parents", "made", "forward", "inverse")

    def __init__(self, parents: list[IterVar], made: list[IterVar], forward: IndexMap, inverse: IndexMap):
        self.parents, self.made, self.forward, self.inverse = parents, made, forward, inverse

    def is_exact(self, ranges: Ranges, analyzer: Analyzer) -> bool:
        """Return whether the ranges of the new axes contain exactly the elements of the old ones. The map is bijective,
        so comparing the number of elements is enough."""
        sizes = (math.prod((ranges[a].extent for a in axes), start=one("int64")) for axes in (self.parents, self.made))
        return analyzer.can_prove_equal(*sizes)


Ranges = dict[IterVar, Range]


def made_by(r: Relation) -> list[IterVar]:
    """Return the axes that a relation makes."""
    if isinstance(r, Split):
        return [r.outer, r.inner]
    if isinstance(r, Fuse):
        return [r.fused]
    return r.made if isinstance(r, Transform) else [r.iter] if isinstance(r, Singleton) else []


def range_of(axis: IterVar) -> Range:
    """Return the range of an axis. Only thread axes made without an extent have none."""
    assert axis.dom is not None, f"axis {axis.var.name} has no range"
    return axis.dom


def one(dtype: str = "int32") -> PrimExpr:
    return const(1, dtype)


def zero(dtype: str = "int32") -> PrimExpr:
    return const(0, dtype)


def ceil_div(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    return analyzer.simplify(floordiv(a + b - one(a.dtype), b))


def pass_down_domain(
    relations: Any, ranges: Ranges, analyzer: Analyzer, fixed_size: Set[IterVar] = frozenset()
) -> None:
    """Compute the ranges of derived axes from those of the root axes. Axes in ``fixed_size`` (bound to hardware threads
    or vectorized) keep the requested extent even if the parent is smaller."""

    def put(axis: IterVar, extent: PrimExpr) -> None:
        ranges[axis] = Range(min=zero(extent.dtype), extent=extent)

    def tight(axis: IterVar, asked: PrimExpr, limit: PrimExpr) -> PrimExpr:
        # A symbolic limit would leave vectorized and unrolled loops without a constant extent.
        if axis not in fixed_size and isinstance(limit, IntImm) and analyzer.can_prove(limit < asked):
            return limit
        return asked

    for r in relations:
        if isinstance(r, Split):
            if r.parent not in ranges:
                continue
            extent = ranges[r.parent].extent
            if r.factor is not None:
                factor = tight(r.inner, r.factor, extent)
                put(r.inner, factor)
                put(r.outer, ceil_div(extent, factor, analyzer))
            else:
                nparts = tight(r.outer, r.nparts, extent)
                put(r.outer, nparts)
                put(r.inner, ceil_div(extent, nparts, analyzer))
        elif isinstance(r, Fuse):
            if r.outer not in ranges or r.inner not in ranges:
                continue
            outer = cast(r.fused.var.dtype, ranges[r.outer].extent)
            put(r.fused, analyzer.simplify(outer * ranges[r.inner].extent))
        elif isinstance(r, Transform):
            if all(a in ranges for a in r.parents):
                ranges.update(zip(r.made, _transformed(r, ranges, analyzer)))
        elif isinstance(r, Singleton):
            put(r.iter, one())


def _transformed(r: Transform, ranges: Ranges, analyzer: Analyzer) -> list[Range]:
    """Return the ranges of the axes of a layout. If only a part of the data is computed, they cover more than that part
    unless it starts and ends at multiples of the factors by which the layout divides."""
    if all(ranges[a] is a.dom for a in r.parents):
        return [range_of(a) for a in r.made]
    return r.forward.map_ranges([ranges[a] for a in r.parents], analyzer)


def fused_dtype(roots: Any, relations: Any, outer: IterVar, inner: IterVar) -> str:
    """Return the dtype of the fusion of two axes: int64 if either axis is int64 or together they have at least 2^31
    iterations."""
    if "int64" in (outer.var.dtype, inner.var.dtype):
        return "int64"
    sizes = {a: a.dom.extent.value for a in roots if a.dom is not None and isinstance(a.dom.extent, IntImm)}
    if math.prod(sizes.values()) < 1 << 31:
        return outer.var.dtype
    for r in relations:
        if isinstance(r, Split) and r.parent in sizes:
            asked, rest, parts = (r.inner, r.outer, r.factor) if r.factor is not None else (r.outer, r.inner, r.nparts)
            if isinstance(parts, IntImm):
                sizes[asked], sizes[rest] = parts.value, -(-sizes[r.parent] // parts.value)
        elif isinstance(r, Fuse) and r.outer in sizes and r.inner in sizes:
            sizes[r.fused] = sizes[r.outer] * sizes[r.inner]
    return "int64" if sizes.get(outer, 1) * sizes.get(inner, 1) >= 1 << 31 else outer.var.dtype


def pass_up_index(relations: Any, ranges: Ranges, values: dict[IterVar, PrimExpr]) -> None:
    """Compute the values of parent axes from those of the axes made from them."""
    for r in reversed(relations):
        if isinstance(r, Split):
            if r.outer not in values or r.inner not in values:
                continue
            value = r.first(values[r.outer], ranges) + values[r.inner]
            low = ranges[r.parent].min
            values[r.parent] = value if _is_zero(low) else value + low
        elif isinstance(r, Fuse):
            if r.fused not in values:
                continue
            value = values[r.fused]
            extent = ranges[r.inner].extent
            # A fused axis may have a wider dtype than the axes it is made of.
            outer = cast(r.outer.var.dtype, floordiv(value, extent))
            inner = cast(r.inner.var.dtype, floormod(value, extent))
            values[r.outer] = _shift(outer, ranges[r.outer].min)
            values[r.inner] = _shift(inner, ranges[r.inner].min)
        elif isinstance(r, Transform) and all(a in values for a in r.made):
            _put_mapped(values, r.made, r.inverse, r.parents)


def _put_mapped(values: dict[IterVar, PrimExpr], given: list[IterVar], index_map: IndexMap, wanted: list[IterVar]):
    mapped = index_map.map_indices([values[a] for a in given])
    values.update({a: cast(a.var.dtype, e) for a, e in zip(wanted, mapped)})


def pass_down_index(relations: Any, ranges: Ranges, values: dict[IterVar, PrimExpr]) -> None:
    """Compute the values of derived axes from those of their parents."""
    for r in relations:
        if isinstance(r, Split):
            if r.parent not in values:
                continue
            low, extent = ranges[r.parent].min, ranges[r.inner].extent
            value = values[r.parent] if _is_zero(low) else values[r.parent] - low
            values[r.outer], values[r.inner] = floordiv(value, extent), floormod(value, extent)
            if r.overlaps:
                values[r.inner] = value - r.first(values[r.outer], ranges)
        elif isinstance(r, Fuse):
            if r.outer not in values or r.inner not in values:
                continue
            outer, inner = (
                v if _is_zero(low) else v - low
                for v, low in ((values[r.outer], ranges[r.outer].min), (values[r.inner], ranges[r.inner].min))
            )
            values[r.fused] = outer * ranges[r.inner].extent + inner
        elif isinstance(r, Transform):
            if all(a in values for a in r.parents):
                _put_mapped(values, r.parents, r.forward, r.made)
        elif isinstance(r, Singleton):
            values[r.iter] = zero()


def least(e: PrimExpr, analyzer: Analyzer) -> int | None:
    """Return a constant lower bound of an expression, or None if none is known."""
    smaller = next((n for n in post_order(e) if isinstance(n, Min)), None)
    if smaller is None:
        found = analyzer.const_int_bound(analyzer.simplify(e)).min_value
        return found if abs(found) < 1 << 31 else None
    chosen = Var("chosen", smaller.dtype)
    coefficients = detect_linear_equation(rewrite(e, lambda n: chosen if n is smaller else None), [chosen])
    if not coefficients or not isinstance(coefficients[0], IntImm):
        return None
    ends = [least(coefficients[0] * side + coefficients[1], analyzer) for side in (smaller.a, smaller.b)]
    known = [end for end in ends if end is not None]
    if coefficients[0].value < 0:
        # ``a - min(b, c)`` is at least ``a - b`` and at least ``a - c``.
        return max(known, default=None)
    return min(known) if len(known) == 2 else None


def _is_zero(e: PrimExpr) -> bool:
    return getattr(e, "value", None) == 0


def _shift(value: PrimExpr, low: PrimExpr) -> PrimExpr:
    return value if _is_zero(low) else value + low


def covers(s: Any, r: Range, analyzer: Analyzer) -> bool:
    """Return whether the set is exactly this range."""
    return (
        s.has_lower_bound()
        and s.has_upper_bound()
        and (s.min_value is r.min or analyzer.can_prove_equal(s.min_value, r.min))
        and analyzer.can_prove_equal(s.max_value, r.min + r.extent - one(r.extent.dtype))
    )


def pass_up_domain(relations: Any, ranges: Ranges, state: dict[Any, Any], analyzer: Analyzer) -> None:
    """Compute the sets of values of parent axes from those of the axes made from them."""
    for r in reversed(relations):
        if isinstance(r, Split):
            if r.outer not in state or r.inner not in state:
                continue
            parent = ranges[r.parent]
            if covers(state[r.outer], ranges[r.outer], analyzer) and covers(state[r.inner], ranges[r.inner], analyzer):
                state[r.parent] = sets.from_range(parent)
                continue
            outer, inner = r.outer.var, r.inner.var
            value = r.first(outer, ranges) + inner + parent.min
            got = sets.eval_set(value, {outer: state[r.outer], inner: state[r.inner]}, analyzer)
            state[r.parent] = clip(got, parent, analyzer)
        elif isinstance(r, Fuse):
            if r.fused not in state:
                continue
            state[r.outer], state[r.inner] = _unfuse(r, ranges, state[r.fused], analyzer)
        elif isinstance(r, Transform) and all(a in state for a in r.made):
            state.update(_untransform(r, ranges, state, analyzer))


def _untransform(r: Transform, ranges: Ranges, state: dict[Any, Any], analyzer: Analyzer) -> dict[Any, Any]:
    if all(covers(state[a], ranges[a], analyzer) for a in r.made):
        return {a: sets.from_range(ranges[a]) for a in r.parents}
    given = {v: state[a] for v, a in zip(r.inverse.initial_indices, r.made)}
    found = {a: sets.eval_set(e, given, analyzer) for a, e in zip(r.parents, r.inverse.final_indices)}
    return {a: clip(s, ranges[a], analyzer) for a, s in found.items()}


def clip(s: Any, r: Range, analyzer: Analyzer):
    """Limit a set that starts inside the range to the end of the range. It may extend further after an uneven split."""
    if not s.has_lower_bound() or not s.has_upper_bound():
        return sets.from_range(r)
    last = r.min + r.extent - one(r.extent.dtype)
    if s.is_single_point():
        return s
    if analyzer.can_prove(s.max_value <= last):
        return s
    if analyzer.can_prove(s.min_value <= r.min) and analyzer.can_prove(s.max_value >= last):
        return sets.from_range(r)
    return s


def _unfuse(r: Fuse, ranges: Ranges, fused: Any, analyzer: Analyzer):
    outer_range, inner_range = ranges[r.outer], ranges[r.inner]
    if covers(fused, ranges[r.fused], analyzer):
        return sets.from_range(outer_range), sets.from_range(inner_range)
    extent = inner_range.extent
    if fused.is_single_point():
        value = fused.min_value
        return (
            sets.IntSet.single_point(analyzer.simplify(_shift(floordiv(value, extent), outer_range.min))),
            sets.IntSet.single_point(analyzer.simplify(_shift(floormod(value, extent), inner_range.min))),
        )
    if not fused.has_lower_bound() or not fused.has_upper_bound():
        return sets.from_range(outer_range), sets.from_range(inner_range)
    low, high = fused.min_value, fused.max_value
    first = analyzer.simplify(floordiv(low, extent))
    last = analyzer.simplify(floordiv(high, extent))
    outer = sets.IntervalSet(
        analyzer.simplify(_shift(first, outer_range.min)), analyzer.simplify(_shift(last, outer_range.min))
    )
    if analyzer.can_prove_equal(first, last):
        inner = sets.IntervalSet(
            analyzer.simplify(_shift(floormod(low, extent), inner_range.min)),
            analyzer.simplify(_shift(floormod(high, extent), inner_range.min)),
        )
    else:
        inner = sets.from_range(inner_range)
    return outer, inner


def pass_down_mark(relations: Any, marked: dict[IterVar, bool]) -> None:
    """Mark every axis that is made from a marked one."""
    for r in relations:
        if isinstance(r, Split):
            if r.parent in marked:
                flag = marked[r.parent]
                marked[r.outer] = marked.get(r.outer, False) or flag
                marked[r.inner] = marked.get(r.inner, False) or flag
        elif isinstance(r, Fuse):
            if r.outer in marked or r.inner in marked:
                marked[r.fused] = marked.get(r.outer, False) or marked.get(r.inner, False)
        elif isinstance(r, Transform):
            flag = any(marked.get(a, False) for a in r.parents)
            marked.update(dict.fromkeys(r.made, flag))
        elif isinstance(r, Singleton):
            marked.setdefault(r.iter, False)


def fused_of(relations: Any, axis: IterVar) -> list[IterVar]:
    """Return the axes that were fused into ``axis``, or ``axis`` alone if it is not a fusion."""
    made = next((r for r in relations if isinstance(r, Fuse) and r.fused is axis), None)
    return [axis] if made is None else [a for part in (made.outer, made.inner) for a in fused_of(relations, part)]


def mixed(relations: Any) -> list[IterVar]:
    """Return the axes that mix data and reduction: those fused from both, and those made from such an axis."""
    found: list[IterVar] = []
    for r in relations:
        if isinstance(r, Split) and r.parent in found:
            found += [r.outer, r.inner]
        elif isinstance(r, Fuse) and (r.outer.iter_type != r.inner.iter_type or r.outer in found or r.inner in found):
            found.append(r.fused)
    return found


def needs_guard(
    relations: Any, ranges: Ranges, uneven: set[IterVar], analyzer: Analyzer, guarded: Collection[IterVar] = ()
) -> set[IterVar]:  # fmt: skip
    """Return the axes whose loops may exceed their range: those made by splits that do not divide evenly or listed in
    ``uneven``. If a fused axis is ``guarded``, its quotient and remainder are within their ranges."""
    need = set(uneven)
    for r in reversed(relations):
        if isinstance(r, Split):
            if r.parent not in ranges:
                continue
            covered = ranges[r.outer].extent * ranges[r.inner].extent
            exact = r.overlaps or analyzer.can_prove_equal(covered, ranges[r.parent].extent)
            # No overlapping loop starts past the last one.
            if r.outer in need and not r.overlaps or r.inner in need or not exact:
                need.add(r.parent)
        elif isinstance(r, Fuse) and r.fused in need and r.fused not in guarded:
            need.add(r.outer)
            need.add(r.inner)
        elif isinstance(r, Transform) and all(a in ranges for a in r.parents):
            if any(a in need for a in r.made) or not r.is_exact(ranges, analyzer):
                need.update(r.parents)
    return need


def repeats(relations: Any, ranges: Ranges, uneven: set[IterVar], analyzer: Analyzer) -> list[IterVar]:
    """Return the derived axes whose loops exceed their extent, so that the same root value occurs twice."""
    roots_made = [x for r in relations if not isinstance(r, Singleton) for x in made_by(r)]
    out = [a for a in roots_made if a in uneven]
    for r in relations:
        if isinstance(r, Split) and r.parent in roots_made and r.parent in ranges and not r.overlaps:
            if not analyzer.can_prove_equal(ranges[r.outer].extent * ranges[r.inner].extent, ranges[r.parent].extent):
                out.append(r.parent)
    return out
