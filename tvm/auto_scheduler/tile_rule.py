"""The sketch rule of matrix registers (tiles): matmuls of blocks of tiles, with accumulators in registers.

The rhs is stored in the layout in which tiles are loaded: in panels, with the terms that an instruction adds
contiguous. A constant with a free layout is stored this way; other operands are copied. The lhs may be copied too;
otherwise it is read in place. A copy is a cache stage, which is stored in the order of its split loops by a cache of
its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.prim import Add
from ..target import Target
from ..te.pad import refusal
from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .dataflow_steps import PADDED_STAGES
from .intrinsic_rule import operands, step_along
from .intrinsics import BlockLengths, Blocks, SearchIntrinsic, intrinsics_of
from .loop_state import State
from .queries import has_cache_write
from .sketch_rules import FUSION_LEVELS, Condition, Found, Rule, Sketching, batch_axes, is_to_be_tiled
from .tiling import divides, follow_tiles, names_in, tile


class _Matmul(NamedTuple):
    """An operation as a matmul: its axes of rows, columns and terms, the axes of window taps, both factors, the
    dimensions of the rhs for columns, terms and taps, the row stride of the lhs, and whether rows and terms are
    dimensions of the lhs."""

    axes: tuple[Any, Any, Any]
    taps: tuple[Any, ...]
    factors: tuple[Any, Any]
    dims: tuple[Any, ...]
    stride: int
    is_matrix: bool

    @property
    def window(self) -> list[int]:
        """The height and the width of the window."""
        return [tap.dom.extent.value for tap in self.taps] or [1, 1]


def _matmul(op: Any, types: Sequence[str]) -> _Matmul | None:
    """Return an operation as a matmul of the given types, whose last axes are rows and columns."""
    found = operands(op)
    if found is None or len(op.axis) < 2 or not isinstance(found[0].combiner.result[0], Add):
        return None
    (lhs, left), (rhs, right) = found[1]
    is_other = (lhs.dtype, rhs.dtype, op.output(0).dtype) != types or {left, right} != {types[2]}
    if is_other or lhs.producer.op is rhs.producer.op or len(lhs.indices) < 2:
        return None
    (i, j), still = op.axis[-2:], [0] * len(lhs.indices)
    for number, k in enumerate(op.reduce_axis):
        *lead, stride, last = _steps(lhs, i)
        if any(lead) or stride < 1 or last or any(_steps(lhs, j)) or _steps(lhs, k) != [*still[1:], 1]:
            continue
        # The tap axes follow the channel axis, and index the two dimensions before that of the channels.
        taps = tuple(op.reduce_axis[number + 1 :])
        if [_steps(lhs, tap) for tap in taps] != [[*still[3:], 1, 0, 0], [*still[3:], 0, 1, 0]]:
            taps = ()
        dims = tuple(_dimension(rhs, axis) for axis in (j, k, *taps))
        if None not in dims and not any(_steps(rhs, i)):
            is_matrix = None not in (_dimension(lhs, i), _dimension(lhs, k))
            return _Matmul((i, j, k), taps, (lhs.producer, rhs.producer), dims, stride, is_matrix)
    return None


def _steps(read: Any, axis: Any) -> list[int]:
    """Return the strides of the indices of a read along an axis; -1 for an index that is not a sum of axes."""
    return [-1 if (step := step_along(index, axis.var)) is None else step for index in read.indices]


def _dimension(read: Any, axis: Any) -> int | None:
    """Return the dimension of a tensor that an axis indexes; None if no index equals the axis, or if several depend on
    it."""
    moved = [dim for dim, step in enumerate(_steps(read, axis)) if step]
    length = getattr(read.producer.shape[moved[0]], "value", None) if len(moved) == 1 else None
    return moved[0] if length == axis.dom.extent.value and read.indices[moved[0]] is axis.var else None


def _store_in_order(state: State, place: int, inner: Sequence[tuple[int, int]]) -> None:
    """Store the output of a stage in another order: ``inner`` contains the innermost parts of its dimensions with their
    lengths."""
    iters, parts = state.stages[place].iters, {}
    for dim in sorted({dim for dim, _ in inner}):
        parts[dim] = list(state.split(place, iters[dim], [length for own, length in inner if own == dim]))
    outer = [parts[dim].pop(0) if dim in parts else it for dim, it in enumerate(iters)]
    state.reorder(place, [*outer, *(parts[dim].pop(0) for dim, _ in inner)])
    state.cache_write(place, "global")
    state.compute_inline(place + 1)


class _BlockMatmul(NamedTuple):
    """A block matmul that computes tiles of an operation."""

    op: Any
    product: _Matmul
    name: str
    blocks: Blocks
    lengths: BlockLengths

    @property
    def multiples(self) -> list[int]:
        """The number that each axis length of the operation must be a multiple of."""
        sizes = dict(zip(self.product.axes, self.lengths.sizes))
        return [sizes.get(axis, 1) for axis in (*self.op.axis, *self.op.reduce_axis)]

    def is_worth_trying(self) -> bool:
        """Return whether the block matmul is worth trying. A padded lhs is a copy anyway, so it is copied to tiles if
        possible."""
        is_whole, is_matrix = divides(self.multiples, self.op), self.product.is_matrix
        is_wanted = is_matrix if self.blocks.is_packed else is_whole or not is_matrix
        return is_wanted and (is_whole or refusal(self.op, self.multiples) is None)

    def copies(self, state: State) -> list[tuple[int, list[tuple[int, int]]]]:
        """Return the indices of the factors to copy, with the inner parts of their dimensions in the tile layout."""
        (_, columns, terms), (over, along, *taps), depth = self.lengths.sizes, self.product.dims, self.blocks.depth
        panel = [*zip(taps, self.product.window), (along, terms // depth), (over, columns), (along, depth)]
        free = state.compute_dag.layout_free_placeholders if divides(self.multiples, self.op) else ()
        # A stored array has no dimensions of size one, but the intrinsic has.
        shape = [columns, terms // depth, *(self.product.window if max(self.product.window) > 1 else ())]
        last = len(self.product.factors[0].shape) - 1
        found = {0: [(last - 1, self.lengths.rows), (last, self.lengths.terms)], 1: panel}
        copied = (self.blocks.is_packed, self.product.factors[1] not in free or min(shape) == 1)
        return [(number, inner) for number, inner in found.items() if copied[number]]

    def sketches(self, at: Sketching) -> list[Found]:
        state, place = at.open(), at.stage_id
        target, is_whole = at.queries.matched_consumer(place), divides(self.multiples, self.op)
        places = {stage.op: number for number, stage in enumerate(at.state.stages)}
        sources = [places[factor.op] for factor in self.product.factors]
        if not is_whole:
            # All sums are computed first; the consumer, or the copy of the output, reads the valid part.
            state.pad(place, self.multiples)
            if target is not None:
                state.compute_inline(place + PADDED_STAGES)
            sources, target, place = [place, place + 1], None, place + PADDED_STAGES - 1
        # A copy is inserted before later stages, so the last one is created first.
        for number, inner in sorted(self.copies(state), key=lambda copy: -sources[copy[0]]):
            before, source = len(state.stages), sources[number]
            if is_whole:
                state.cache_read(source, "global", [place])
            _store_in_order(state, source + is_whole, inner)
            place += len(state.stages) - before
        # The order of the elements of a panel.
        rows, columns, terms = ({axis.var.name: size} for axis, size in zip(self.product.axes, self.lengths.sizes))
        taps = {tap.var.name: tap.dom.extent.value for tap in self.product.taps}
        tiles = tile(state, place, at.structure, {**rows, **taps, **terms, **columns}, batch_axes(at))
        *outer, k, j = state.stages[place].iters
        group, inner = state.split(place, k, [self.blocks.depth])
        state.reorder(place, [*outer, group, j, inner])
        state.tensorize(place, outer[-1 - len(taps)], self.lengths.named(self.name))
        below = place - 1 if is_whole else at.stage_id - 1
        if target is None:
            return [(state.state_object, below)]
        found, host = [], target + len(state.stages) - len(at.state.stages)
        for level in (level for level in FUSION_LEVELS if at.structure[level - 1] == "S"):
            made = state.copy()
            made.compute_at(place, host, follow_tiles(made, host, tiles, level))
            found.append((made.state_object, below))
        return found


def _fitting(intrinsics: Sequence[SearchIntrinsic], at: Sketching) -> list[_BlockMatmul]:
    op, found = at.stage.op, []
    is_new = is_to_be_tiled(at) and not has_cache_write(at.state, at.stage_id)
    if not is_new or names_in(op, NO_SPLIT_AT_INNER) or names_in(op, NO_SPLIT_AT_OUTER):
        return []
    for one in intrinsics:
        product = _matmul(op, one.blocks.types) if one.blocks is not None else None
        if one.blocks is not None and product is not None:
            sizes = (axis.dom.extent.value for axis in product.axes)
            lengths = one.blocks.choose(*sizes, (*product.window, product.stride))
            found += [_BlockMatmul(op, product, one.name, one.blocks, each) for each in lengths]
    return [fit for fit in found if fit.is_worth_trying()]


def tile_rules(target: Target) -> list[Rule]:
    """Return the rule for the matrix registers of a target; none if it has none."""
    intrinsics = [one for one in intrinsics_of(target) if one.blocks is not None]
    fitting = functools.partial(_fitting, intrinsics)
    return (
        [
            Rule(
                "products of tiles",
                lambda at: Condition.APPLY if fitting(at) else Condition.PASS,
                lambda at: [found for fit in fitting(at) for found in fit.sketches(at)],
            )
        ]
        if intrinsics
        else []
    )


__all__ = ["tile_rules"]
