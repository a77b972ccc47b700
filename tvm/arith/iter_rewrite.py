"""Detection of iterator maps: rewrites indices to splits and sums, fuses and pads them, and runs the final checks.

Marks are compared by identity; tables map equal sums to one mark. A division that is not exact pads its mark. The
divisors of each mark are collected in rounds until their common multiple is stable; only the forms of the last round
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.prim import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Range, Sub, Var, const
from ..ir.primop import add, floordiv, logical_or, maximum, minimum, multiply, subtract
from ..ir.visit import post_order
from .analyzer import Analyzer
from .iter_expr import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    NotAffine,
    normalize_iter_map_to_expr,
    short,
    whole,
)
from .iter_predicate import Bound, iterator_bounds
from .quantity import Quantities

# The divisors of a mark are stable after two or three rounds; detection fails for a map that needs more.
_ROUNDS = 8


class Fused(NamedTuple):
    """A sum as one iterator: ``mark = sum - offset``. ``flat`` contains its splits, innermost first, with smallest
    scale one. ``parts`` contains the same splits with each constrained group as one split; their value is ``sum -
    base``."""

    mark: IterMark
    offset: PrimExpr
    flat: tuple[IterSplitExpr, ...]
    parts: tuple[IterSplitExpr, ...]
    base: PrimExpr
    scale: PrimExpr


class Rewriter:
    """The state of one detection: the input iterators, the bounds of sums of them, and the padded marks."""

    def __init__(
        self, iters: Mapping[Var, Range], level: IterMapLevel, simplify_trivial: bool, analyzer: Analyzer, padding: bool
    ):
        self.level = level
        self.simplify_trivial = simplify_trivial
        # With padding, every node must have a form. Without padding, a node without a form becomes part of the base of
        # the sum.
        self.padding = padding
        self.quantities = Quantities(analyzer)
        self.iterators: dict[Var, IterSumExpr] = {}
        self.input_marks: list[IterMark] = []
        self.factors: dict[int, PrimExpr] = {}
        self._names: dict[tuple[Any, ...], int] = {}
        self._number: dict[IterMark, int] = {}
        for var, dom in iters.items():
            self._add_iterator(var, dom)
        self.start_round()

    def start_round(self) -> None:
        """Reset everything except the iterators and the collected divisors."""
        self.unsettled = False
        self.fused: dict[tuple[Any, ...], Fused] = {}
        self.constraints: dict[tuple[Any, ...], Fused] = {}
        self.padded: dict[tuple[Any, ...], IterMark] = {}
        self.origin: dict[Any, tuple[IterMark, PrimExpr, PrimExpr]] = {}
        self._forms: dict[PrimExpr, tuple[IterSumExpr, bool]] = {}

    def _add_iterator(self, var: Var, dom: Range) -> None:
        low, extent = self.quantities.simplify(dom.min), self.quantities.simplify(dom.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            raise NotAffine(f"iterator {var.name} has no values: its extent is {extent.value}")
        if self.simplify_trivial and self.quantities.is_one(extent):
            self.iterators[var] = IterSumExpr((), low)
            return
        mark = IterMark(var if self.quantities.is_zero(low) else subtract(var, low), extent)
        self._name(mark, ("iterator", var))
        self.input_marks.append(mark)
        self.iterators[var] = IterSumExpr((whole(mark),), low)

    def _name(self, mark: IterMark, key: tuple[Any, ...]) -> None:
        """Assign a mark a number that equal marks in other rounds have too."""
        self._number[mark] = self._names.setdefault(key, len(self._names))

    # -- expressions ------------------------------------------------------------------------------------------------

    def rewrite(self, expr: PrimExpr) -> IterSumExpr:
        """Return ``expr`` as a sum of splits that are not fused yet."""
        forms = self._forms
        for node in post_order(expr):
            if node not in forms:
                forms[node] = self._form(node)
        return forms[expr][0]

    def _form(self, node: PrimExpr) -> tuple[IterSumExpr, bool]:
        """Return the form of a node whose children have one, and whether its base still contains iterators."""
        if isinstance(node, Var):
            form = self.iterators.get(node)
            return IterSumExpr((), node) if form is None else form, False
        parts = [self._forms[child] for child in node.children()]
        if not any(form.args or mixed for form, mixed in parts):
            # An iterator with one value has a form without splits; replace it by its value.
            return IterSumExpr((), self._free(node, parts)), False
        rule = _FORM.get(type(node))
        got = rule(self, node, *parts) if rule is not None else None
        if got is not None:
            return got
        if self.padding:
            raise NotAffine(f"{short(node)} is not an affine form of the iterators")
        return IterSumExpr((), node), True

    def _free(self, node: PrimExpr, parts: list[Any]) -> PrimExpr:
        children = node.children()
        if not children or all(form.base is child for (form, _), child in zip(parts, children)):
            return node
        table = {id(child): form.base for (form, _), child in zip(parts, children)}
        return node.map_children(lambda child: table[id(child)])

    def sum_form(self, node: PrimExpr, a: Any, b: Any) -> tuple[IterSumExpr, bool]:
        (left, mixed_left), (right, mixed_right) = a, b
        minus = isinstance(node, Sub)
        args = list(left.args)
        for split in right.args:
            if minus:
                split = split.replace(scale=self.quantities.simplify(multiply(split.scale, -1)))
            self._add_split(args, split)
        base = subtract(left.base, right.base) if minus else add(left.base, right.base)
        return IterSumExpr(tuple(args), base), mixed_left or mixed_right

    def _add_split(self, args: list[IterSplitExpr], split: IterSplitExpr) -> None:
        for position, have in enumerate(args):
            if self.same_split(have, split):
                scale = self.quantities.plus(have.scale, split.scale)
                if self.quantities.is_zero(scale):
                    del args[position]
                else:
                    args[position] = have.replace(scale=scale)
                return
        args.append(split)

    def same_split(self, a: IterSplitExpr, b: IterSplitExpr) -> bool:
        """Return whether two splits are the same part of the same mark; their scales may differ."""
        q = self.quantities
        return a.source is b.source and q.equal(a.lower_factor, b.lower_factor) and q.equal(a.extent, b.extent)

    def product_form(self, node: PrimExpr, a: Any, b: Any) -> tuple[IterSumExpr, bool] | None:
        (form, mixed), (factor, factor_mixed) = (a, b) if a[0].args or a[1] else (b, a)
        if factor.args or factor_mixed or mixed and not form.args:
            return None
        q = self.quantities
        scale = q.simplify(factor.base)
        if q.is_zero(scale):
            return IterSumExpr((), multiply(form.base, scale)), False
        args = tuple(s.replace(scale=q.times(s.scale, scale)) for s in form.args)
        return IterSumExpr(args, multiply(form.base, factor.base)), mixed

    def quotient_form(self, node: PrimExpr, a: Any, b: Any) -> tuple[IterSumExpr, bool] | None:
        (form, mixed), (divisor, divisor_mixed) = a, b
        if mixed or divisor.args or divisor_mixed:
            return None
        q = self.quantities
        d = q.simplify(divisor.base)
        if isinstance(d, IntImm) and d.value <= 0:
            return None
        if q.is_one(d):
            return (form if isinstance(node, FloorDiv) else IterSumExpr((), const(0, node.dtype))), False
        try:
            form = self.fuse(form)
        except NotAffine:
            if self.padding:
                raise
            return None
        if not form.args:
            kind: Any = type(node)
            return IterSumExpr((), q.simplify(kind(form.base, d))), False
        got = self._divide(form.args[0], q.simplify(form.base), d, isinstance(node, FloorMod))
        return None if got is None else (got, False)

    def _divide(self, split: IterSplitExpr, base: PrimExpr, d: PrimExpr, modulo: bool) -> IterSumExpr | None:
        """Return ``(split + base) // d`` or ``% d``, or None if the scale prevents it."""
        q = self.quantities
        zero = const(0, base.dtype)
        outer, base_outer = q.quotient(split.scale, d), q.quotient(base, d)
        if outer is not None and base_outer is not None:
            return IterSumExpr((), zero) if modulo else IterSumExpr((split.replace(scale=outer),), base_outer)
        scale = split.scale
        if not q.is_one(scale):
            inner, base_inner = q.quotient(d, scale), q.quotient(base, scale)
            # Dividing by a negative scale would reverse the rounding.
            if inner is None or base_inner is None or q.product(scale)[0] < 0:
                return None
            d, base, split = inner, base_inner, split.replace(scale=const(1, base.dtype))
        got = self._divide_unit(split, base, d, modulo)
        if got is None or not modulo or q.is_one(scale):
            return got
        # (x * s) % (d * s) = (x % d) * s
        args = tuple(s.replace(scale=q.times(s.scale, scale)) for s in got.args)
        return IterSumExpr(args, multiply(got.base, scale))

    def _divide_unit(self, split: IterSplitExpr, base: PrimExpr, d: PrimExpr, modulo: bool) -> IterSumExpr | None:
        q = self.quantities
        left = const(0, base.dtype) if q.is_zero(base) else q.remainder(base, d)
        padded = self._aligned(split, left, d, modulo)
        if padded is None:
            return None
        if modulo:
            got, rest = padded.replace(extent=d), const(0, base.dtype)
        else:
            extent = q.ceildiv(padded.extent, d)
            got = padded.replace(lower_factor=q.times(padded.lower_factor, d), extent=extent)
            rest = q.simplify(floordiv(subtract(base, left), d))
        if q.is_one(got.extent):
            return IterSumExpr((), rest)
        return IterSumExpr((got,), rest)

    # -- padding ----------------------------------------------------------------------------------------------------

    def is_outermost(self, split: IterSplitExpr) -> bool:
        """Return whether the split covers all of its mark above its lower factor, so that it needs no remainder."""
        q = self.quantities
        return q.equal(q.times(split.lower_factor, split.extent), split.source.extent)

    def _aligned(self, split: IterSplitExpr, left: PrimExpr, d: PrimExpr, modulo: bool) -> IterSplitExpr | None:
        """Return ``split + left`` as a split whose mark is divisible by ``lower_factor * d``."""
        q = self.quantities
        even = q.quotient(split.extent, d) is not None
        if even and q.is_zero(left) and not self.is_outermost(split):
            return split
        if not self.is_outermost(split):
            if even and modulo:
                # (t % (k * d) + left) % d = (t + left) % d
                extent = q.quotient(split.source.extent, split.lower_factor)
                if extent is None:
                    return None
                split = split.replace(extent=extent)
            elif self.padding:
                # Padding of a remainder cannot be traced back to its mark.
                return None
            else:
                split = self.fuse(IterSumExpr((split,), const(0, split.dtype)), wrap=True).args[0]
        if not self.padding:
            return split if q.is_zero(left) else None
        return self._pad(split, left, d)

    def _pad(self, split: IterSplitExpr, left: PrimExpr, d: PrimExpr) -> IterSplitExpr:
        q = self.quantities
        mark, offset, _ = self.origin.get(split.source, (split.source, const(0, split.dtype), None))
        number = self._number[mark]
        have = self.factors.get(number)
        factor = q.times(split.lower_factor, d)
        if have is not None:
            factor = q.common_multiple(have, factor)
        if have is None or not q.equal(have, factor):
            self.factors[number] = factor
            self.unsettled = True
        offset = q.plus(offset, multiply(left, split.lower_factor))
        if not q.is_zero(offset) or q.quotient(mark.extent, factor) is None:
            if self.level == IterMapLevel.Bijective:
                raise NotAffine(f"the extent {short(mark.extent)} is padded to a multiple of {short(factor)}")
            mark = self._padded_mark(mark, offset, factor)
        extent = q.quotient(mark.extent, split.lower_factor)
        if extent is None:
            raise NotAffine(f"the extent {short(mark.extent)} is not divisible by {short(split.lower_factor)}")
        return IterSplitExpr(mark, split.lower_factor, extent, split.scale)

    def _padded_mark(self, mark: IterMark, offset: PrimExpr, factor: PrimExpr) -> IterMark:
        q = self.quantities
        key = ("padded", self._number[mark], q.product(offset), q.product(factor))
        got = self.padded.get(key)
        if got is None:
            extent = q.times(q.ceildiv(q.plus(offset, mark.extent), factor), factor)
            got = self.padded[key] = IterMark(IterSumExpr((whole(mark),), offset), extent)
            self.origin[got] = (mark, offset, factor)
            self._name(got, key)
        return got

    # -- fusing -----------------------------------------------------------------------------------------------------

    def combine(self, form: IterSumExpr) -> IterSumExpr:
        """Join adjacent splits of one mark (``x // 4 * 4 + x % 4``), and remove padding that turns out to be
        unnecessary."""
        q = self.quantities
        args, base = list(form.args), form.base
        joined = True
        while joined:
            joined = False
            for low in range(len(args)):
                for high in range(len(args)):
                    if low != high and self._adjacent(args[low], args[high]):
                        extent = q.times(args[low].extent, args[high].extent)
                        args[low] = args[low].replace(extent=extent)
                        del args[high]
                        joined = True
                        break
                if joined:
                    break
        for position, split in enumerate(args):
            source = self.origin.get(split.source)
            if source is not None and q.is_one(split.lower_factor) and q.equal(split.extent, split.source.extent):
                args[position] = whole(source[0], split.scale)
                base = add(base, multiply(source[1], split.scale))
        if len(args) == len(form.args) and base is form.base:
            return form
        merged: list[IterSplitExpr] = []
        for split in args:
            self._add_split(merged, split)
        return IterSumExpr(tuple(merged), base)

    def _adjacent(self, low: IterSplitExpr, high: IterSplitExpr) -> bool:
        if low.source is not high.source:
            return False
        q = self.quantities
        above = q.times(low.lower_factor, low.extent)
        return q.equal(above, high.lower_factor) and q.equal(q.times(low.scale, low.extent), high.scale)

    def fuse(self, form: IterSumExpr, wrap: bool = False) -> IterSumExpr:
        """Return a form with the same value and at most one split. With ``wrap``, even a single split gets a mark of
        its own."""
        form = self.combine(form)
        if not form.args or (len(form.args) == 1 and not wrap and self._constraint_at(form.args[0]) is None):
            return form
        fused = self.fused_sum(form)
        q = self.quantities
        base = q.plus(form.base, multiply(fused.offset, fused.scale))
        return IterSumExpr((whole(fused.mark, fused.scale),), base)

    def fused_sum(self, form: IterSumExpr) -> Fused:
        """Return the iterator that the splits of ``form`` represent together, and their common scale."""
        q = self.quantities
        remaining = list(form.args)
        smallest = self._smallest(remaining)
        reach, extra = smallest, const(0, form.dtype)
        flat: list[IterSplitExpr] = []
        parts: list[IterSplitExpr] = []
        while remaining:
            position, overlap = self._next(remaining, reach, smallest)
            split = remaining[position]
            scale = q.quotient(split.scale, smallest)
            if scale is None:
                raise NotAffine(f"the scale {short(split.scale)} is not divisible by {short(smallest)}")
            group = self._constraint_at(split)
            if group is None:
                del remaining[position]
                flat.append(split.replace(scale=scale))
                parts.append(flat[-1])
            else:
                flat += self._take_group(remaining, group, split.scale, smallest)
                extra = q.plus(extra, multiply(group.offset, scale))
                parts.append(whole(group.mark, scale))
            covered = q.times(split.scale, parts[-1].extent)
            reach = q.plus(reach, q.minus(covered, split.scale)) if overlap else covered
        key = self._key(flat)
        got = self.fused.get(key)
        if got is None:
            extent = q.quotient(reach, smallest)
            assert extent is not None, "every scale is a multiple of the smallest"
            mark = IterMark(IterSumExpr(tuple(parts[::-1]), const(0, form.dtype)), extent)
            self._name(mark, ("fused", key))
            got = self.fused[key] = Fused(mark, extra, tuple(flat), tuple(parts), extra, smallest)
        return got._replace(scale=smallest)

    def _key(self, flat: Sequence[IterSplitExpr]) -> tuple[Any, ...]:
        p = self.quantities.product
        return tuple((self._number[s.source], p(s.lower_factor), p(s.extent), p(s.scale)) for s in flat)

    def _smallest(self, args: Sequence[IterSplitExpr]) -> PrimExpr:
        products = [(len(p[1]), p[0]) for p in map(self.quantities.product, (s.scale for s in args))]
        if any(constant <= 0 for _, constant in products):
            raise NotAffine("iterators with a negative scale cannot be fused")
        return args[products.index(min(products))].scale

    def _next(self, remaining: Sequence[IterSplitExpr], reach: PrimExpr, smallest: PrimExpr) -> tuple[int, bool]:
        """Return the index of the split that continues the range covered so far, and whether it overlaps that range."""
        q = self.quantities
        fitting = [i for i in reversed(range(len(remaining))) if q.equal(remaining[i].scale, reach)]
        if fitting:
            # A split with one value does not extend the range, so it precedes a longer split of the same scale.
            return next((i for i in fitting if q.is_one(remaining[i].extent)), fitting[0]), False
        if self.level != IterMapLevel.Bijective and q.is_one(smallest):
            literals = [(s.scale.value, i) for i, s in enumerate(remaining) if isinstance(s.scale, IntImm)]
            if literals:
                position = min(literals)[1]
                if q.at_most(remaining[position].scale, reach):
                    return position, True
        raise NotAffine(f"no iterator has the scale {short(reach)} that would continue the fused range")

    # -- constraints ------------------------------------------------------------------------------------------------

    def _constraint_at(self, split: IterSplitExpr) -> Fused | None:
        """Return the longest constrained sum whose innermost split is ``split``."""
        best = None
        for fused in self.constraints.values():
            if self.same_split(fused.flat[0], split) and (best is None or len(fused.flat) > len(best.flat)):
                best = fused
        return best

    def _take_group(
        self, remaining: list[Any], group: Fused, scale: PrimExpr, smallest: PrimExpr
    ) -> list[IterSplitExpr]:
        """Remove the splits of a constrained sum, scaled by ``scale``. All of them must be present."""
        q = self.quantities
        taken: list[IterSplitExpr] = []
        for want in group.flat:
            wanted_scale = q.times(want.scale, scale)
            for position, split in enumerate(remaining):
                if self.same_split(split, want) and q.equal(split.scale, wanted_scale):
                    del remaining[position]
                    taken.append(split.replace(scale=q.quotient(wanted_scale, smallest)))
                    break
            else:
                raise NotAffine("an index uses only a part of a sum of iterators that the predicate bounds")
        return taken

    def constrain(self, bound: Bound) -> None:
        """Apply ``low <= expr < high`` to the sum that ``expr`` represents."""
        q = self.quantities
        form = self.combine(self.rewrite(bound.expr))
        if not form.args:
            return
        fused = self.fused_sum(form)
        base = q.plus(form.base, multiply(fused.offset, fused.scale))
        low, high = const(0, form.dtype), fused.mark.extent
        if bound.low is not None:
            low = q.simplify(maximum(low, q.ceildiv(q.minus(bound.low, base), fused.scale)))
        if bound.high is not None:
            high = q.simplify(minimum(high, q.ceildiv(q.minus(bound.high, base), fused.scale)))
        extent = q.minus(high, low)
        if isinstance(extent, IntImm) and extent.value <= 0:
            raise NotAffine(f"the predicate excludes all values of {short(bound.expr)}")
        key = self._key(fused.flat)
        offset = q.plus(fused.offset, low)
        mark = IterMark(IterSumExpr(tuple(fused.parts[::-1]), q.minus(fused.base, offset)), extent)
        self._name(mark, ("constrained", key))
        self.fused[key] = self.constraints[key] = fused._replace(mark=mark, offset=offset)

    # -- checks -----------------------------------------------------------------------------------------------------

    def check(self, indices: Sequence[IterSumExpr]) -> None:
        """Raise NotAffine unless the indices are as independent as the level requires."""
        users = self.users(self._with_constraints(indices))
        for mark, splits in users.items():
            self.normal_splits(mark, splits)
        if self.level == IterMapLevel.Bijective:
            for mark in self.input_marks:
                if mark not in users and not self.quantities.is_one(mark.extent):
                    raise NotAffine(f"{short(mark.source)} is not used, so the map is not bijective")

    def _with_constraints(self, indices: Sequence[IterSumExpr]) -> list[IterSumExpr]:
        """Return the indices, and the bounded sums that share iterators with them without being part of them.

        Such a sum must be independent of the indices; otherwise its bound would exclude some of their values.
        """
        outputs = list(indices)
        waiting = list(self.constraints.values())
        users = self.users(outputs)
        grown = True
        while grown:
            grown = False
            for fused in list(waiting):
                form = IterSumExpr((whole(fused.mark),), fused.offset)
                if fused.mark in users or users.keys().isdisjoint(self.users([form])):
                    continue
                if self.level == IterMapLevel.Bijective and not self.quantities.is_one(fused.mark.extent):
                    raise NotAffine("the predicate bounds a sum of iterators that is not an index")
                outputs.append(form)
                waiting.remove(fused)
                users = self.users(outputs)
                grown = True
        return outputs

    def users(self, indices: Sequence[IterSumExpr]) -> dict[IterMark, list[IterSplitExpr]]:
        """Return the splits of every mark that the indices use. Splits of a padded mark count as splits of the original
        mark."""
        out: dict[IterMark, list[IterSplitExpr]] = {}
        stack = [s for index in reversed(indices) for s in reversed(index.args)]
        while stack:
            split = stack.pop()
            mark = self.origin.get(split.source, (split.source,))[0]
            if mark in out:
                out[mark].append(split)
                continue
            out[mark] = [split]
            if isinstance(mark.source, IterSumExpr):
                stack.extend(reversed(mark.source.args))
        return out

    def normal_splits(self, mark: IterMark, splits: Sequence[IterSplitExpr]) -> list[IterSplitExpr]:
        """Return the splits of one mark, lowest first, after checking that they cover it without overlap."""
        q = self.quantities
        remaining = list(splits)
        ordered: list[IterSplitExpr] = []
        reach = const(1, mark.extent.dtype)
        while remaining:
            position = self._next_split(mark, remaining, reach)
            ordered.append(remaining.pop(position))
            reach = q.times(ordered[-1].lower_factor, ordered[-1].extent)
        if any(split.source is not mark for split in ordered):
            self._check_padded(mark, ordered, reach)
        elif self.level == IterMapLevel.Bijective:
            if not q.equal(reach, mark.extent):
                raise NotAffine(f"the splits of {short(mark.source)} cover {short(reach)} of {short(mark.extent)}")
        elif q.quotient(mark.extent, reach) is None:
            raise NotAffine(
                f"the splits of {short(mark.source)} cover {short(reach)}, which does not divide its extent"
            )
        return ordered

    def _next_split(self, mark: IterMark, remaining: Sequence[IterSplitExpr], reach: PrimExpr) -> int:
        q = self.quantities
        exact = [i for i, s in enumerate(remaining) if q.equal(s.lower_factor, reach)]
        if exact:
            # A split with one value does not change the lower factor of the next split.
            return next((i for i in exact if q.is_one(remaining[i].extent)), exact[0])
        if self.level != IterMapLevel.Bijective:
            above = [(q.quotient(s.lower_factor, reach), i) for i, s in enumerate(remaining)]
            above = sorted((q.product(step), i) for step, i in above if step is not None)
            if above:
                return above[0][1]
        raise NotAffine(f"the splits of {short(mark.source)} overlap or leave a gap at {short(reach)}")

    def _check_padded(self, mark: IterMark, ordered: Sequence[IterSplitExpr], reach: PrimExpr) -> None:
        """Check that all values are reached although the mark takes only some of the padded range.

        Splits with a remainder are surjective if the mark covers a whole period, wherever it starts. A split without
        remainder is surjective if the padding at either end is smaller than its lower factor.
        """
        q = self.quantities
        if q.at_most(reach, mark.extent):
            return
        split = ordered[0]
        _, offset, factor = self.origin.get(split.source, (mark, const(0, split.dtype), split.lower_factor))
        if len(ordered) == 1 and q.equal(reach, split.source.extent):
            if q.equal(factor, split.lower_factor):
                return
            right = q.minus(split.source.extent, q.plus(offset, mark.extent))
            last = q.minus(split.lower_factor, const(1, split.dtype))
            if q.at_most(offset, last) and q.at_most(right, last):
                return
        raise NotAffine(
            f"{short(mark.source)} is padded from {short(mark.extent)} values; its splits do not take all of their "
            "values"
        )

    def padding_predicate(self) -> PrimExpr:
        """Return the condition that a padded mark is outside the values of its original mark."""
        out = const(False, "bool")
        for padded, (mark, offset, _) in self.origin.items():
            value = normalize_iter_map_to_expr(padded.source)
            if not self.quantities.is_zero(offset):
                out = logical_or(out, value < offset)
            end = self.quantities.plus(offset, mark.extent)
            if not self.quantities.equal(end, padded.extent):
                out = logical_or(out, value >= end)
        return out


_FORM: dict[type[Any], Callable[..., Any]] = {
    Add: Rewriter.sum_form,
    Sub: Rewriter.sum_form,
    Mul: Rewriter.product_form,
    FloorDiv: Rewriter.quotient_form,
    FloorMod: Rewriter.quotient_form,
}


def rewrite_all(rewriter: Rewriter, indices: Sequence[PrimExpr], bounds: Sequence[Bound]) -> list[IterSumExpr]:
    """Return the fused forms of the indices once the padding of all marks is stable."""
    for _ in range(_ROUNDS):
        rewriter.start_round()
        for bound in bounds:
            rewriter.constrain(bound)
        forms = [rewriter.fuse(rewriter.rewrite(index)) for index in indices]
        if not rewriter.unsettled:
            return [IterSumExpr(f.args, rewriter.quantities.simplify(f.base)) for f in forms]
    raise NotAffine("the divisors of the iterators have no stable common multiple")


def detect(
    indices: Sequence[PrimExpr],
    iters: Mapping[Var, Range],
    predicate: PrimExpr,
    level: IterMapLevel,
    simplify_trivial: bool,
) -> IterMapResult:
    """Implement ``iter_map.detect_iter_map``."""
    never = const(False, "bool")
    try:
        rewriter, bounds, _ = prepare(iters, predicate, level, simplify_trivial)
        forms = rewrite_all(rewriter, indices, bounds)
        if level != IterMapLevel.NoCheck:
            rewriter.check(forms)
    except NotAffine as reason:
        return IterMapResult((), (str(reason),), never)
    return IterMapResult(tuple(forms), (), rewriter.padding_predicate())


def prepare(
    iters: Mapping[Var, Range], predicate: PrimExpr, level: IterMapLevel, simplify_trivial: bool
) -> tuple[Rewriter, list[Bound], dict[Var, Range]]:
    """Return a rewriter for the iterators under the predicate, the bounds on sums of iterators, and the narrowed
    ranges."""
    got = iterator_bounds(predicate, iters)
    if isinstance(got, str):
        raise NotAffine(got)
    narrowed, bounds = got
    return Rewriter(narrowed, level, simplify_trivial, Analyzer(), padding=True), bounds, narrowed


def normalize(index: PrimExpr, iters: Mapping[Var, Range]) -> IterSumExpr:
    """Implement ``iter_map.normalize_to_iter_sum``."""
    rewriter = Rewriter(iters, IterMapLevel.NoCheck, True, Analyzer(), padding=False)
    form = rewriter.combine(rewriter.rewrite(index))
    q = rewriter.quantities

    def size(split: IterSplitExpr) -> tuple[int, int]:
        constant, symbols = q.product(split.scale)
        return -len(symbols), -constant

    return IterSumExpr(tuple(sorted(form.args, key=size)), q.simplify(form.base))
