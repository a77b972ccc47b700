"""The sketch rules of tensor cores: matmuls of fragments, the small matrices in the registers of a warp.

A block has tiles of both operands in shared memory. Its warps load fragments of them, accumulate their products, and
store the accumulators to memory, or to shared memory for a consumer. The innermost part of every loop has a fixed
length: that of the intrinsic, or one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtype import info
from ..ir.prim import Var
from ..ir.visit import post_order
from ..target import Target
from ..te.pad import lanes_of, refusal
from ..te.tensor_intrin import TensorIntrin
from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .annotation_steps import TensorizeStep
from .dataflow_steps import PADDED_STAGES
from .fragment_features import VECTOR_BYTES
from .gpu_rules import BLOCK, THREAD, free_consumer, fused_loops, is_plain
from .intrinsic_rule import operands, tile_of
from .intrinsics import ACCUMULATOR, FRAGMENTS, SearchIntrinsic, intrinsics_of
from .iterator import Iterator, IteratorKind
from .loop_state import State
from .loop_steps import SplitStep
from .queries import has_cache_read, has_cache_write, is_padding, is_tensorized
from .sketch_rules import Condition, Found, Rule, Sketching
from .state import StateObject
from .tiling import Tiles, divides, follow_tiles, names_in, tile

SHARED, WARP = "shared.dyn", "threadIdx.y"
# Tile levels: blocks, warps, the parts of a reduction in shared memory and in fragments, and the fragments of a warp.
_STRUCTURE = "SSRRS"
# The index of the number of warps among the inner lengths of a split; and the tile levels that the store follows.
_WARP_LENGTH, _STORE_LEVELS = 0, 3
# The row stride of accumulators in shared memory is 32 k + 8 elements, so that rows that are stored together use
# different banks.
_SUM_FACTOR, _SUM_OFFSET = 32, 8


class _Fragments:
    """The rules for the fragment matmul intrinsics of a target."""

    def __init__(self, intrinsics: Sequence[SearchIntrinsic], warp: int):
        self.warp = warp
        self.made: dict[str, TensorIntrin] = {one.name: one.make() for one in intrinsics}
        self.products = {one.name: one for one in intrinsics if one.fragments is not None}

    # -- the matmul
    # -----------------------------------------------------------------------------------------------------

    def _fitting(self, op: Any) -> list[tuple[SearchIntrinsic, list[int]]]:
        """Return the intrinsics that can compute tiles of an operation, possibly padded, with the innermost lengths of
        all its axes; axes that are only bound to blocks have no length."""
        if names_in(op, NO_SPLIT_AT_INNER) or names_in(op, NO_SPLIT_AT_OUTER):
            return []
        found = []
        for name, one in self.products.items():
            lengths = tile_of(op, self.made[name], is_padded=True)
            if lengths is None or len(set(_factors(op))) < 2:
                continue
            apart = _axes_of_blocks(op, lengths)
            each = [0 if axis in apart else lengths.get(axis.var.name, 1) for axis in (*op.axis, *op.reduce_axis)]
            if divides(_multiples(each), op) or refusal(op, _multiples(each)) is None:
                found.append((one, each))
        return found

    def condition(self, at: Sketching) -> Condition:
        is_new = at.queries.needs_multi_level_tiling(at.stage_id) and is_plain(at.stage)
        is_new = is_new and not has_cache_write(at.state, at.stage_id)
        return Condition.APPLY if is_new and self._fitting(at.stage.op) else Condition.PASS

    def apply(self, at: Sketching) -> list[Found]:
        return [self._sketch(at, *one) for one in self._fitting(at.stage.op)]

    def _sketch(self, at: Sketching, intrinsic: SearchIntrinsic, lengths: list[int]) -> Found:
        state, place, target = at.open(), at.stage_id, None if at.stage.is_output else free_consumer(at)
        if not divides(_multiples(lengths), at.stage.op):
            # The consumer, or the copy of the output, reads the valid part of the padded accumulators.
            state.pad(place, _multiples(lengths))
            if target is None:
                target = place
            else:
                state.compute_inline(place + PADDED_STAGES)
            place += PADDED_STAGES - 1
        below = place - 1
        if target is not None:
            # The consumer reads the copy in shared memory.
            state.cache_write(place, SHARED)
            state.compute_inline(place + 1)
        state.cache_write(place, ACCUMULATOR)
        tiles, first = self._tile_accumulators(state, place, lengths)
        state.tensorize(place, state.stages[place].iters[first], intrinsic.name)
        assert intrinsic.fragments is not None
        if target is not None:
            host = target + len(state.stages) - len(at.state.stages)
            where = self._share_consumer(state, host, tiles, lengths[len(at.stage.op.axis) - 1])
            state.storage_align(place + 1, state.stages[place + 1].iters[-2], _SUM_FACTOR, _SUM_OFFSET)
            state.compute_at(place + 1, host, where)
        warps = _tile_store(state, place + 1, tiles, intrinsic.fragments.store, target is None)
        state.compute_at(place, place + 1, warps)
        return state.state_object, below

    @staticmethod
    def _tile_accumulators(state: State, place: int, lengths: list[int]) -> tuple[Tiles, int]:
        """Divide accumulators in fragments among blocks and warps. Return the tiles, and the first loop of the
        intrinsic, counted from the last loop."""
        iters = state.stages[place].iters
        names = {it.name: length for it, length in zip(iters, lengths)}
        # The innermost reduction loops are those of the fragments, during which the operands are copied.
        ordered = sorted(iters, key=lambda it: it.kind is IteratorKind.REDUCTION and 1 + (names[it.name] > 1))
        if ordered != list(iters):
            state.reorder(place, ordered)
        # The loops of the intrinsic are innermost.
        fixed = {name: names[name] for name in sorted(names, key=lambda name: names[name] > 1) if names[name]}
        tiles = tile(state, place, _STRUCTURE, fixed, frozenset(names) - frozenset(fixed))
        first = -len([length for length in lengths if length > 1])
        op = state.stages[place].op
        for it in state.stages[place].iters[_reduction_at(op, len(tiles.steps))[0] + 1 : first]:
            state.unroll(place, it)
        return tiles, first

    def _share_consumer(self, state: State, host: int, tiles: Tiles, columns: int) -> Iterator:
        """Divide the consumer among blocks and warps, and the tile of a warp among its threads, which access vectors of
        some rows of a fragment. Return the loop of blocks."""
        follow_tiles(state, host, tiles, 2)
        state.bind(host, fused_loops(state, host, 0, len(tiles.splits)), BLOCK)
        state.bind(host, fused_loops(state, host, 1, len(tiles.steps)), WARP)
        dtype = state.stages[host].op.output(0).dtype
        most = 1 if dtype == "bool" else VECTOR_BYTES // max(info(dtype).bits // 8, 1)
        lanes = min(most, lanes_of(state.stages[host].op.axis[-1].dom.extent.value))
        *rest, row, column = state.stages[host].iters[2:]
        vectors = columns // lanes
        rows, row = state.split(host, row, [self.warp // vectors])
        groups, column, vector = state.split(host, column, [vectors, lanes])
        state.reorder(host, [*state.stages[host].iters[:2], *rest, rows, groups, row, column, vector])
        state.vectorize(host, vector)
        threads = fused_loops(state, host, len(state.stages[host].iters) - 3, 2)
        if any(axis.dom.extent.value < columns for axis in state.stages[host].op.axis[-2:]):
            # The valid part of a padded fragment may be smaller than what a warp copies at a time.
            threads = state.split(host, threads, [self.warp])[1]
        state.bind(host, threads, THREAD)
        return state.stages[host].iters[0]

    def _share(self, state: State, place: int, loop: Iterator, lanes: int, splits: Sequence[int]) -> None:
        """Divide a loop among the threads of a block: adjacent vectors go to the threads of a warp."""
        loop, vector = state.split(place, loop, [lanes])
        state.vectorize(place, vector)
        loop, threads = state.split(place, loop, [self.warp])
        state.bind(place, threads, THREAD)
        _, warps = state.follow_fused_split(place, loop, splits, _WARP_LENGTH, True)
        state.bind(place, warps, WARP)

    # -- the operands
    # ---------------------------------------------------------------------------------------------------

    def _readers(self, at: Sketching) -> list[tuple[int, str]]:
        """Return the fragment matmuls that read a stage, with the names of their intrinsics."""
        if has_cache_read(at.state, at.stage_id):
            return []
        places = {stage.op: place for place, stage in enumerate(at.state.stages)}
        found = [places[op] for op in at.queries.analyzer.consumers(at.stage.op)]
        named = [(place, _intrinsic_of(at.state, place)) for place in found if is_tensorized(at.state.stages[place])]
        return [(place, name) for place, name in named if name in self.products]

    def operand_condition(self, at: Sketching) -> Condition:
        return Condition.APPLY_AND_SKIP_REST if self._readers(at) else Condition.PASS

    def copy_operand(self, at: Sketching) -> list[Found]:
        """Create a copy in shared memory, which all threads of a block load, and a copy in fragments of a warp."""
        state, place = at.open(), at.stage_id
        for reader, name in reversed(self._readers(at)):
            fragments, op = self.products[name].fragments, at.state.stages[reader].op
            assert fragments is not None
            number = _factors(op).index(at.stage.op)
            splits = _splits_of_accumulators(at.state, reader)
            for source, scope in ((place, SHARED), (place + 1, FRAGMENTS[number])):
                state.cache_read(source, scope, [reader + len(state.stages) - len(at.state.stages)])
            reader += len(state.stages) - len(at.state.stages)
            for copy, loop in zip((place + 1, place + 2), _reduction_at(op, len(splits))):
                state.compute_at(copy, reader, state.stages[reader].iters[loop])
            state.storage_align(place + 1, state.stages[place + 1].iters[-2], *fragments.rows)
            lanes = min(VECTOR_BYTES * 8 // info(at.stage.op.output(0).dtype).bits, _lanes_of_rows(at))
            count = len(state.stages[place + 1].iters)
            self._share(state, place + 1, fused_loops(state, place + 1, 0, count), lanes, splits)
            self._load(state, place + 2, fragments.loads[number])
        return [(state.state_object, place)]

    def _load(self, state: State, place: int, name: str) -> None:
        """Load the fragments of a warp one after the other."""
        iters = state.stages[place].iters
        shape = [axis.dom.extent.value for axis in self.made[name].op.axis]
        shape = [1] * (len(iters) - len(shape)) + shape
        parts = [state.split(place, it, [length]) for it, length in zip(iters, shape)]
        state.reorder(place, [it for level in zip(*parts) for it in level])
        first = 2 * len(iters) - len(self.made[name].op.axis)
        for it in state.stages[place].iters[:first]:
            state.unroll(place, it)
        state.tensorize(place, state.stages[place].iters[first], name)


def _factors(op: Any) -> list[Any]:
    """Return the operations from which the two factors of a sum of products are read."""
    found = operands(op)
    assert found is not None
    return [read.producer.op for read, _ in found[1]]


def _multiples(lengths: Sequence[int]) -> list[int]:
    """Return the number that each axis length must be a multiple of."""
    return [length or 1 for length in lengths]


def _lanes_of_rows(at: Sketching) -> int:
    """Return the maximum vector width of a copy of an operand. A padded operand is limited by the rows of its source,
    so that a vector is either completely inside or completely outside them."""
    source = at.stage.op
    if is_padding(at.state, at.stage_id):
        (source,) = at.queries.analyzer.producers(source)
    return lanes_of(source.output(0).shape[-1].value)


def _axes_of_blocks(op: Any, lengths: Mapping[str, int]) -> set[Any]:
    """Return the axes that are only bound to blocks: batch axes, along which both factors are read, and axes that share
    an index with an axis of the intrinsic, such as parts of a reduction, whose tiles would not be contiguous."""
    found = operands(op)
    assert found is not None
    reads = [
        [{node for node in post_order(index) if isinstance(node, Var)} for index in read.indices]
        for read, _ in found[1]
    ]
    matched = {axis.var for axis in (*op.axis, *op.reduce_axis) if axis.var.name in lengths}
    apart = set()
    for axis in op.axis:
        is_batch = all(any(axis.var in index for index in read) for read in reads)
        is_beside = any(axis.var in index and index & matched for read in reads for index in read)
        if axis.var not in matched and (is_batch or is_beside):
            apart.add(axis)
    return apart


def _reduction_at(op: Any, tiled: int) -> tuple[int, int]:
    """Return the loops of a tiled matmul inside which an operand is copied to shared memory and to fragments: the
    innermost loops of the two reduction levels."""
    outer = len(op.axis) + tiled + len(op.reduce_axis) - 1
    return outer, outer + len(op.reduce_axis)


def _tile_store(state: State, place: int, tiles: Tiles, name: str, is_root: bool) -> Iterator:
    """Let warps store their fragments; return the loop of warps."""
    follow_tiles(state, place, tiles, _STORE_LEVELS)
    blocks, count = len(tiles.splits), len(tiles.steps)
    if is_root:
        state.bind(place, fused_loops(state, place, 0, blocks), BLOCK)
        state.bind(place, fused_loops(state, place, 1, count), WARP)
    else:
        # The whole tile belongs to one block.
        state.bind(place, fused_loops(state, place, 0, blocks + count), WARP)
    warps = 1 if is_root else 0
    for it in state.stages[place].iters[warps + 1 : -2]:
        state.unroll(place, it)
    state.tensorize(place, state.stages[place].iters[-2], name)
    return state.stages[place].iters[warps]


def _steps_of(state: StateObject, place: int) -> list[int]:
    """Return the numbers of the steps that changed the loops of a stage after it was created."""
    found = []
    for number in reversed(range(len(state.transform_steps))):
        step = state.transform_steps[number]
        if step.changes_ops:
            before = step.place_before(place)
            if before is None or step.takes_loops and step.stage_id == place:
                break
            place = before
        elif step.stage_id == place:
            found.append(number)
    return found[::-1]


def _intrinsic_of(state: StateObject, place: int) -> str:
    """Return the name of the intrinsic that computes the innermost loops of a stage."""
    steps = (state.transform_steps[number] for number in _steps_of(state, place))
    return next(step.intrinsic for step in steps if isinstance(step, TensorizeStep))


def _splits_of_accumulators(state: StateObject, place: int) -> list[int]:
    """Return the splits of the spatial loops of a fragment matmul."""
    count = _STRUCTURE.count("S")
    return [
        number
        for number in _steps_of(state, place)
        if isinstance(step := state.transform_steps[number], SplitStep) and len(step.lengths) == count
    ]


def fragment_rules(target: Target) -> list[Rule]:
    """Return the rules for the fragment matmul intrinsics of a target; none if it has none."""
    found = intrinsics_of(target)
    if not any(one.fragments is not None for one in found):
        return []
    made = _Fragments(found, target.features.warp_size)
    return [
        Rule("operands in fragments", made.operand_condition, made.copy_operand),
        Rule("products of fragments", made.condition, made.apply),
    ]


__all__ = ["SHARED", "fragment_rules"]
