"""The sketch rule of matrix registers (tiles): products of blocks of them, whose sums are in registers meanwhile.

The rhs is stored as tiles are loaded: in panels, the terms that are summed at once side by side. A constant that is
free to be stored in the order of the loops lies so; of others there is a copy, and so there may be of the lhs, which is
read where it lies else. A copy is a cache of an operand whose own cache has the order of its split loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.prim import Add
from ..target import Target
from ..te.pad import refusal
from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .dataflow_steps import PADDED_STAGES
from .intrinsic_rule import operands, step_along
from .intrinsics import BlockLengths, SearchIntrinsic, block_name, intrinsics_of
from .loop_state import State
from .queries import has_cache_write
from .sketch_rules import FUSION_LEVELS, Condition, Found, Rule, Sketching, batch_axes, is_to_be_tiled
from .tiling import follow_tiles, names_in, tile


class _Product(NamedTuple):
    """A sum of products of matrices: its axes of rows, of columns and of terms, those of the ``taps`` of a window, the
    operations of both factors, the dimensions of the rhs that columns, terms and taps go along, by how much rows of the
    lhs are apart, and whether these are one dimension alone."""

    axes: tuple[Any, Any, Any]
    taps: tuple[Any, ...]
    factors: tuple[Any, Any]
    of_rhs: tuple[int, ...]
    stride: int
    is_matrix: bool

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(axis.dom.extent.value for axis in self.axes)

    @property
    def window(self) -> tuple[int, int, int]:
        height, width = (axis.dom.extent.value for axis in self.taps) if self.taps else (1, 1)
        return height, width, self.stride


def _product(op: Any, types: Sequence[str]) -> _Product | None:
    """An operation as a product of matrices of some types, its last axes those of rows and of columns."""
    found = operands(op)
    if found is None or len(op.axis) < 2 or not isinstance(found[0].combiner.result[0], Add):
        return None
    (lhs, left), (rhs, right) = found[1]
    if (lhs.dtype, rhs.dtype, op.output(0).dtype) != types or {left, right} != {types[2]}:
        return None
    if lhs.producer.op is rhs.producer.op or len(lhs.indices) < 2:
        return None
    i, j = op.axis[-2:]
    for number, k in enumerate(op.reduce_axis):
        moves = {axis: _steps(lhs, axis) for axis in (*op.axis, *op.reduce_axis)}
        *before, stride, _ = moves[i]
        if any(before) or not stride or moves[i][-1] != 0 or any(moves[j]) or moves[k] != [*[0] * (len(before) + 1), 1]:
            continue
        # Taps follow channels, and go along the two dimensions in front of theirs.
        taps, last = tuple(op.reduce_axis[number + 1 :]), [0] * (len(before) - 1)
        is_window = len(taps) == 2 and [moves[tap] for tap in taps] == [[*last, 1, 0, 0], [*last, 0, 1, 0]]
        taps = taps if is_window and all(tap.var in rhs.indices for tap in taps) else ()
        alone = (j, k, *taps)
        if any(_steps(rhs, i)) or any(sum(map(bool, _steps(rhs, axis))) != 1 for axis in alone):
            continue
        if all(any(index is axis.var for index in rhs.indices) for axis in alone):
            dims = tuple(next(d for d, index in enumerate(rhs.indices) if index is axis.var) for axis in alone)
            is_matrix = lhs.indices[-2] is i.var and lhs.indices[-1] is k.var
            return _Product((i, j, k), taps, (lhs.producer.op, rhs.producer.op), dims, stride, is_matrix)
    return None


def _steps(read: Any, axis: Any) -> list[int | None]:
    """By how much the indices of a read move along an axis."""
    return [step_along(index, axis.var) for index in read.indices]


def _factors(op: Any, product: _Product, lengths: BlockLengths) -> list[int]:
    """What the lengths of the axes of a product are to be multiples of."""
    sizes = dict(zip(product.axes, lengths.sizes))
    return [sizes.get(axis, 1) for axis in (*op.axis, *op.reduce_axis)]


def _is_whole(product: _Product, lengths: BlockLengths) -> bool:
    return all(length % size == 0 for length, size in zip(product.lengths, lengths.sizes))


def _pack(
    state: State, place: int, reader: int | None, splits: Mapping[int, Sequence[int]], order: Sequence[tuple[int, int]]
) -> None:
    """Store what a stage makes, or a copy of it for a ``reader``, in another order: dimensions are split, and their
    parts, each a dimension and a number, are in this ``order`` behind the other dimensions."""
    if reader is not None:
        state.cache_read(place, "global", [reader])
        place += 1
    iters = state.stages[place].iters
    parts = {dim: state.split(place, iters[dim], lengths) for dim, lengths in splits.items()}
    others = [it for dim, it in enumerate(iters) if dim not in splits]
    state.reorder(place, [*others, *(parts[dim][part] for dim, part in order)])
    state.cache_write(place, "global")
    state.compute_inline(place + 1)


class _Tiles:
    """The rule for the products of blocks of a target."""

    def __init__(self, intrinsics: Sequence[SearchIntrinsic]):
        self.intrinsics = intrinsics

    def _fitting(self, op: Any) -> list[tuple[SearchIntrinsic, _Product, BlockLengths]]:
        found = []
        for one in self.intrinsics:
            assert one.blocks is not None
            product = _product(op, one.blocks.types)
            if product is None or names_in(op, NO_SPLIT_AT_INNER) or names_in(op, NO_SPLIT_AT_OUTER):
                continue
            for lengths in one.blocks.choose(*product.lengths, product.window):
                is_whole = _is_whole(product, lengths)
                # An lhs that is padded is a copy anyway, so it is one in tiles where it can be.
                is_apt = product.is_matrix if one.blocks.is_packed else is_whole or not product.is_matrix
                if is_apt and (is_whole or refusal(op, _factors(op, product, lengths)) is None):
                    found.append((one, product, lengths))
        return found

    def condition(self, at: Sketching) -> Condition:
        is_new = is_to_be_tiled(at) and not has_cache_write(at.state, at.stage_id)
        return Condition.APPLY if is_new and self._fitting(at.stage.op) else Condition.PASS

    def apply(self, at: Sketching) -> list[Found]:
        return [found for one in self._fitting(at.stage.op) for found in self._sketches(at, *one)]

    def _sketches(
        self, at: Sketching, intrinsic: SearchIntrinsic, product: _Product, lengths: BlockLengths
    ) -> list[Found]:
        state, place, below = at.open(), at.stage_id, at.stage_id - 1
        target = at.queries.matched_consumer(place)
        if _is_whole(product, lengths):
            places = {stage.op: number for number, stage in enumerate(at.state.stages)}
            sources, reader = [places[op] for op in product.factors], place
        else:
            # All sums are computed first; the consumer, or the copy of the result, reads what there is of them.
            state.pad(place, _factors(at.stage.op, product, lengths))
            if target is not None:
                state.compute_inline(place + PADDED_STAGES)
            sources, reader, target = [place, place + 1], None, None
            place += PADDED_STAGES - 1
        place = self._pack_operands(state, place, sources, reader, intrinsic, product, lengths)
        # The order in which a panel lies.
        (rows, columns, terms), (of_rows, of_columns, of_terms) = product.axes, lengths.sizes
        taps = {tap.var.name: tap.dom.extent.value for tap in product.taps}
        fixed = {rows.var.name: of_rows, **taps, terms.var.name: of_terms, columns.var.name: of_columns}
        tiles = tile(state, place, at.structure, fixed, batch_axes(at))
        *outer, k, j = state.stages[place].iters
        assert intrinsic.blocks is not None
        group, inner = state.split(place, k, [intrinsic.blocks.depth])
        state.reorder(place, [*outer, group, j, inner])
        state.tensorize(place, outer[-1 - len(taps)], block_name(intrinsic.name, lengths))
        if target is None:
            return [(state.state_object, below)]
        found, host = [], target + len(state.stages) - len(at.state.stages)
        for level in FUSION_LEVELS:
            if at.structure[level - 1] == "S":
                made = state.copy()
                made.compute_at(place, host, follow_tiles(made, host, tiles, level))
                found.append((made.state_object, place - 1))
        return found

    @staticmethod
    def _pack_operands(
        state: State, place: int, sources: Sequence[int], reader: int | None, intrinsic: SearchIntrinsic,
        product: _Product, lengths: BlockLengths,
    ) -> int:
        """Store operands in the order in which tiles are loaded; the place of the product."""
        assert intrinsic.blocks is not None
        depth, (columns, terms, *taps), before = intrinsic.blocks.depth, product.of_rhs, len(state.stages)
        panels: dict[int, list[int]] = {columns: [lengths.sizes[1]], terms: [lengths.sizes[2] // depth, depth]}
        panels |= {tap: [length] for tap, length in zip(taps, product.window)}
        copies = []
        free = state.compute_dag.layout_free_placeholders
        if reader is None or product.factors[1].output(0) not in free:
            order = [*((tap, 0) for tap in taps), (columns, 0), (terms, 0), *((tap, 1) for tap in taps)]
            order += [(terms, 1), (columns, 1), (terms, 2)]
            copies.append((sources[1], panels, order))
        if intrinsic.blocks.is_packed:
            last = len(state.stages[sources[0]].op.output(0).shape) - 1
            order = [(last - 1, 0), (last, 0), (last - 1, 1), (last, 1)]
            copies.append((sources[0], {last - 1: [lengths.rows], last: [lengths.terms]}, order))
        # A copy is in front of what follows, so the last one is made first.
        for source, splits, order in sorted(copies, key=lambda copy: copy[0], reverse=True):
            where = None if reader is None else reader + len(state.stages) - before
            _pack(state, source, where, splits, order)
        return place + len(state.stages) - before


def tile_rules(target: Target) -> list[Rule]:
    """The rule for the matrix registers of a target; none where it has none."""
    found = [one for one in intrinsics_of(target) if one.blocks is not None]
    made = _Tiles(found)
    return [Rule("products of tiles", made.condition, made.apply)] if found else []


__all__ = ["tile_rules"]
