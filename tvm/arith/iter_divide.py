"""Division of an iterator map into an outer and an inner part: ``value = outer * inner_extent + inner``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.prim import PrimExpr, Range, Sub, Var, const
from ..ir.primop import logical_and
from .iter_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    NotAffine,
    normalize_iter_map_to_expr,
    whole,
)
from .iter_rewrite import Rewriter, prepare, rewrite_all
from .quantity import Quantities


class Division(NamedTuple):
    """The division ``outer * inner_extent + inner``; a side without iterators is None."""

    outer: IterSplitExpr | IterSumExpr | None
    outer_extent: PrimExpr
    inner: IterSplitExpr | IterSumExpr | None
    inner_extent: PrimExpr


class Divider:
    """A divider of the splits of one map, which also collects the predicates of the outer and the inner side."""

    def __init__(self, rewriter: Rewriter, forms: Sequence[IterSumExpr], sub_iters: Sequence[Var]):
        self.quantities: Quantities = rewriter.quantities
        self.origin = rewriter.origin
        self.sub_iters = set(sub_iters)
        self.outer_predicate: PrimExpr = const(True, "bool")
        self.inner_predicate: PrimExpr = const(True, "bool")
        self.users = _users(forms)
        if any(fused.mark not in self.users for fused in rewriter.constraints.values()):
            raise NotAffine("the predicate bounds a sum of iterators that is not part of a binding")
        self._done: dict[IterSplitExpr, Division] = {}

    def add_single_bounds(self, iters: Mapping[Var, Range], narrowed: Mapping[Var, Range]) -> None:
        """Add the bounds on single iterators to the predicate of the side that contains the iterator."""
        q = self.quantities
        for var, dom in iters.items():
            new = narrowed[var]
            if new is dom:
                continue
            condition = const(True, "bool")
            if not q.equal(new.min, dom.min):
                condition = var >= new.min
            end = q.plus(new.min, new.extent)
            if not q.equal(end, q.plus(dom.min, dom.extent)):
                condition = logical_and(condition, var < end)
            if var in self.sub_iters:
                self.inner_predicate = logical_and(self.inner_predicate, condition)
            else:
                self.outer_predicate = logical_and(self.outer_predicate, condition)

    def divide_sum(self, form: IterSumExpr, extent: PrimExpr | None) -> Division:
        """Divide a sum. ``extent`` is the extent of its mark, or None for an index, which has at most one split."""
        one = const(1, form.dtype)
        if not form.args:
            return Division(None, one, form, one)
        if extent is None:
            split = form.args[0]
            if len(form.args) != 1 or not self.quantities.is_one(split.scale):
                raise NotAffine("an index with a stride cannot be divided")
            return self._shifted(self.divide_split(split), form.base)
        return self._divide_fused(form, extent)

    def _divide_fused(self, form: IterSumExpr, extent: PrimExpr) -> Division:
        q = self.quantities
        reach = const(1, form.dtype)
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        for split in reversed(form.args):
            if not q.equal(split.scale, reach):
                raise NotAffine("a sum of overlapping iterators cannot be divided")
            got = self.divide_split(split)
            if got.outer is not None and got.inner is not None:
                raise NotAffine("an iterator is split across both sides")
            if got.outer is None and outer:
                raise NotAffine("an inner iterator has a larger scale than an outer one")
            side, part = (inner, got.inner) if got.outer is None else (outer, got.outer)
            side_extent = got.inner_extent if got.outer is None else got.outer_extent
            side.append(_as_split(part, side_extent))
            reach = q.times(reach, side_extent)
        if not q.equal(reach, extent) or not q.is_zero(form.base):
            return self._bounded(form, extent, outer, inner)
        outer_sum, outer_extent = self._fused(outer, form.base)
        inner_sum, inner_extent = self._fused(inner, form.base)
        return Division(outer_sum if outer else None, outer_extent, inner_sum if inner else None, inner_extent)

    def _bounded(self, form: IterSumExpr, extent: PrimExpr, outer: list[Any], inner: list[Any]) -> Division:
        """Divide a sum with its own predicate. The sum must be entirely on one side, to which its predicate is
        added."""
        q = self.quantities
        if outer and inner:
            raise NotAffine("a predicate bounds outer and inner iterators together")
        total, reach = self._fused(outer or inner, form.base)
        value = normalize_iter_map_to_expr(total)
        condition = const(True, "bool")
        if not q.equal(q.plus(reach, form.base), extent):
            condition = value < extent
        if not q.is_zero(form.base):
            condition = logical_and(value >= 0, condition)
        one = const(1, form.dtype)
        if outer:
            self.outer_predicate = logical_and(self.outer_predicate, condition)
            return Division(total, extent, None, one)
        self.inner_predicate = logical_and(self.inner_predicate, condition)
        return Division(None, one, total, extent)

    def _fused(self, splits: list[IterSplitExpr], base: PrimExpr) -> tuple[IterSumExpr, PrimExpr]:
        """Return the compact sum of splits, given innermost first, and its extent."""
        q = self.quantities
        reach = const(1, base.dtype)
        args: list[IterSplitExpr] = []
        for split in splits:
            args.append(split.replace(scale=reach))
            reach = q.times(reach, split.extent)
        return IterSumExpr(tuple(args[::-1]), base), reach

    def _shifted(self, got: Division, base: PrimExpr) -> Division:
        if self.quantities.is_zero(base):
            return got
        if got.inner is None:
            return got._replace(inner=IterSumExpr((), base))
        inner = got.inner
        if isinstance(inner, IterSumExpr):
            return got._replace(inner=IterSumExpr(inner.args, self.quantities.plus(inner.base, base)))
        return got._replace(inner=IterSumExpr((inner,), base))

    def divide_split(self, split: IterSplitExpr) -> Division:
        got = self._done.get(split)
        if got is None:
            self._divide_mark(split.source)
            got = self._done[split]
        return got

    def _divide_mark(self, mark: IterMark) -> None:
        """Divide every split of a mark."""
        splits, source = self.users[mark], mark.source
        one = const(1, mark.extent.dtype)
        if not isinstance(source, IterSumExpr):
            var = source.a if isinstance(source, Sub) else source
            for split in splits:
                part = split.replace(scale=one)
                inner = Division(None, one, part, split.extent)
                self._done[split] = inner if var in self.sub_iters else Division(part, split.extent, None, one)
            return
        if mark in self.origin:
            self._divide_padded(mark, splits)
            return
        got = self.divide_sum(source, mark.extent)
        if len(splits) == 1 and self._is_whole(splits[0]):
            self._done[splits[0]] = got
            return
        self._divide_at_boundary(mark, splits, got)

    def _is_whole(self, split: IterSplitExpr) -> bool:
        return self.quantities.equal(split.extent, split.source.extent)

    def _divide_padded(self, mark: IterMark, splits: Sequence[IterSplitExpr]) -> None:
        """Divide a padded mark, which is on the same side as the original mark. Its splits are assigned to that side
        unchanged."""
        got = self.divide_split(mark.source.args[0])
        one = const(1, mark.extent.dtype)
        if got.outer is not None and got.inner is not None:
            raise NotAffine("a padded iterator is split across both sides")
        side, extent = (got.inner, got.inner_extent) if got.outer is None else (got.outer, got.outer_extent)
        padded = IterMark(IterSumExpr((_as_split(side, extent),), mark.source.base), mark.extent)
        for split in splits:
            part = split.replace(source=padded, scale=one)
            inner = Division(None, one, part, split.extent)
            self._done[split] = inner if got.outer is None else Division(part, split.extent, None, one)

    def _divide_at_boundary(self, mark: IterMark, splits: Sequence[IterSplitExpr], got: Division) -> None:
        """Assign splits below the inner extent to the inner side and splits above it to the outer side."""
        q = self.quantities
        one = const(1, mark.extent.dtype)
        outer = None if got.outer is None else IterMark(got.outer, got.outer_extent)
        inner = None if got.inner is None else IterMark(got.inner, got.inner_extent)
        for split in splits:
            above = q.times(split.lower_factor, split.extent)
            if inner is not None and (outer is None or q.quotient(got.inner_extent, above) is not None):
                part = IterSplitExpr(inner, split.lower_factor, split.extent, one)
                self._done[split] = Division(None, one, part, split.extent)
                continue
            lower = q.quotient(split.lower_factor, got.inner_extent)
            if lower is None or outer is None:
                raise NotAffine("a split crosses the boundary between the inner and the outer part")
            part = IterSplitExpr(outer, lower, split.extent, one)
            self._done[split] = Division(part, split.extent, None, one)


def _users(forms: Sequence[IterSumExpr]) -> dict[IterMark, list[IterSplitExpr]]:
    out: dict[IterMark, list[IterSplitExpr]] = {}
    stack = [s for form in reversed(forms) for s in reversed(form.args)]
    while stack:
        split = stack.pop()
        if split.source in out:
            out[split.source].append(split)
            continue
        out[split.source] = [split]
        if isinstance(split.source.source, IterSumExpr):
            stack.extend(reversed(split.source.source.args))
    return out


def _as_split(part: IterSplitExpr | IterSumExpr | None, extent: PrimExpr) -> IterSplitExpr:
    assert part is not None, "a division has an outer or an inner side"
    return part if isinstance(part, IterSplitExpr) else whole(IterMark(part, extent))


def _as_mark(part: IterSplitExpr | IterSumExpr | None, extent: PrimExpr, dtype: str) -> IterMark:
    if part is None:
        return IterMark(IterSumExpr((), const(0, dtype)), extent)
    return IterMark(part if isinstance(part, IterSumExpr) else IterSumExpr((part,), const(0, dtype)), extent)


def divide(
    bindings: Sequence[PrimExpr],
    iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: PrimExpr,
    level: IterMapLevel,
    simplify_trivial: bool,
) -> list[list[IterMark]]:
    """Implement ``iter_map.subspace_divide``."""
    try:
        rewriter, bounds, narrowed = prepare(iters, predicate, level, simplify_trivial)
        forms = rewrite_all(rewriter, bindings, bounds)
        if level != IterMapLevel.NoCheck:
            rewriter.check(forms)
        divider = Divider(rewriter, forms, sub_iters)
        divider.add_single_bounds(iters, narrowed)
        out: list[list[IterMark]] = []
        for form in forms:
            got = divider.divide_sum(form, None)
            dtype = form.dtype
            out.append([_as_mark(got.outer, got.outer_extent, dtype), _as_mark(got.inner, got.inner_extent, dtype)])
    except NotAffine:
        return []
    nothing = IterSumExpr((), const(0, "int32"))
    out.append([IterMark(nothing, divider.outer_predicate), IterMark(nothing, divider.inner_predicate)])
    return out
