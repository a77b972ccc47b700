"""Sketch rules for GPUs: multi-level tiles bound to blocks and threads, operands in shared memory, cross-thread
reductions.

A sketch determines the loops that are bound to blocks and threads; their extents follow from the lengths of its splits,
which are open.
"""

from __future__ import annotations

from collections.abc import Iterator as Walk
from functools import partial

from .access import SIMPLIFY_CONST_TENSOR_INDICES
from .attach_steps import INLINED, ROOT
from .gpu_limits import ALIGN_FACTOR, ALIGN_OFFSET, dimension_of_threads
from .iterator import Annotation, Iterator, IteratorKind
from .loop_state import State
from .loop_steps import SplitStep
from .queries import (
    axis_of_parts,
    extents_product,
    has_cache_read,
    has_cache_write,
    has_cross_thread_reduction,
    has_reduce_iter,
    has_rfactor,
    is_constant_transform,
    outer_reduction,
)
from .sketch_rules import Condition, Found, Rule, Sketching
from .state import Stage, StateObject
from .tiling import follow_tiles, fuse_reduction, names_in, tile

BLOCK, VIRTUAL, THREAD = "blockIdx.x", "vthread", "threadIdx.x"
# The outer tile levels, which are bound to blocks, virtual threads and threads; the levels inside are the thread tile.
BOUND_LEVELS = 3
# The index, among the inner lengths of a split, of the number of threads.
_THREAD_LENGTH = 1
# The minimum extent of a reduction for which a cross-thread reduction is tried.
_LONG_REDUCTION = 32
# A tiled stage may also be reduced across threads if it has at most this many elements per thread of a block, and at
# most this many times as many elements as reduction terms.
_FEW_ELEMENTS, _MORE_THAN_TERMS = 16, 4
# Split-k is tried if blocks of this many elements do not occupy all multiprocessors, and for at least this extent of k.
# The other constants are the numbers of parts, the minimum extent of a part, and the maximum number of such blocks per
# multiprocessor.
_SMALL_BLOCK, _SPLIT_K_LEAST_TERMS = 1024, 256
_SPLIT_K, _LEAST_PART, _MOST_BLOCKS = (2, 4, 8, 16), 64, 16


# -- queries -------------------------------------------------------------------------------------------------------


def is_plain(stage: Stage) -> bool:
    """Return whether the loops of a stage are the unchanged axes of its operation."""
    op = stage.op
    return (
        not stage.is_placeholder
        and [it.name for it in stage.iters] == [axis.var.name for axis in (*op.axis, *op.reduce_axis)]
        and all(it.annotation is Annotation.NONE for it in stage.iters)
    )


def is_on_threads(stage: Stage) -> bool:
    return any(Annotation.VTHREAD <= it.annotation <= Annotation.THREAD_Z for it in stage.iters)


def free_consumer(at: Sketching) -> int | None:
    """Return the only consumer of a stage if it reads elementwise and its loops are unchanged."""
    target = at.queries.matched_consumer(at.stage_id)
    return target if target is not None and is_plain(at.state.stages[target]) else None


def _splits_of(state: StateObject, stage_id: int) -> Walk[tuple[int, SplitStep]]:
    """Return the splits of the loops of a stage with their step numbers, the last first."""
    for number in reversed(range(len(state.transform_steps))):
        step = state.transform_steps[number]
        if step.changes_ops:
            before = step.place_before(stage_id)
            if before is None:
                return
            stage_id = before
        elif isinstance(step, SplitStep) and step.stage_id == stage_id:
            yield number, step


def _tile_splits(at: Sketching, stage_id: int) -> list[int]:
    """Return the splits that tiled the spatial loops of a stage."""
    count = at.structure.count("S") - 1
    return sorted(number for number, step in _splits_of(at.state, stage_id) if len(step.lengths) == count)


def _tiled_readers(at: Sketching) -> list[int]:
    """Return the tiled consumers of a stage that may read it from shared memory."""
    if at.stage.compute_at == INLINED or has_cache_read(at.state, at.stage_id):
        return []
    stages = at.state.stages
    places = {stage.op: place for place, stage in enumerate(stages)}
    found = [places[op] for op in at.queries.analyzer.consumers(at.stage.op)]
    return [
        place
        for place in found
        if at.queries.needs_multi_level_tiling(place)
        and _tile_splits(at, place)
        and not has_cross_thread_reduction(at.state, place)
        and outer_reduction(stages[place]) is not None
    ]


# -- binding --------------------------------------------------------------------------------------------------------


def fused_loops(state: State, stage_id: int, first: int, count: int):
    iters = state.stages[stage_id].iters[first : first + count]
    return iters[0] if count == 1 else state.fuse(stage_id, iters)


def _bind_tiles(state: State, stage_id: int, outer: int, count: int) -> None:
    """Bind the outer tile levels, of ``count`` loops each, to blocks, virtual threads and threads; the ``outer``
    loops before them, which are not split, are bound to blocks too."""
    for place, (name, loops) in enumerate(((BLOCK, outer + count), (VIRTUAL, count), (THREAD, count))):
        state.bind(stage_id, fused_loops(state, stage_id, place, loops), name)


def spread(state: State, stage_id: int, count: int, lengths: tuple[int | None, ...]) -> None:
    """Fuse the first ``count`` loops of a stage and bind them to blocks and threads; of two ``lengths``, the inner
    one is a vectorized loop."""
    fused = fused_loops(state, stage_id, 0, count)
    state.split(stage_id, fused, lengths)
    state.bind(stage_id, state.stages[stage_id].iters[0], BLOCK)
    state.bind(stage_id, state.stages[stage_id].iters[1], THREAD)
    if len(lengths) > 1:
        state.vectorize(stage_id, state.stages[stage_id].iters[2])


# -- conditions and actions -----------------------------------------------------------------------------------------


def _cache_read_condition(at: Sketching) -> Condition:
    return Condition.APPLY_AND_SKIP_REST if _tiled_readers(at) else Condition.PASS


def _cache_read(at: Sketching) -> list[Found]:
    """Give each tiled consumer its own copy in shared memory, which the threads of a block load cooperatively. Vector
    loads are used unless elements are selected by their position, as in padding."""
    state, place = at.open(), at.stage_id
    is_stored = at.stage.is_placeholder or has_reduce_iter(at.stage)
    is_chosen = not is_stored and not at.queries.is_strictly_inlineable(place)
    for reader in reversed(_tiled_readers(at)):
        splits, reader_op = _tile_splits(at, reader), at.state.stages[reader].op
        # The stage of a copy comes before those of its consumers.
        state.cache_read(place, "shared", [reader + len(state.stages) - len(at.state.stages)])
        copy, reader = place + 1, reader + len(state.stages) - len(at.state.stages)
        where = outer_reduction(state.stages[reader])
        assert where is not None
        state.compute_at(copy, reader, state.stages[reader].iters[where])
        access = at.queries.analyzer.accesses[reader_op]
        apart = dimension_of_threads(access, at.stage.op)
        if apart is not None:
            state.storage_align(copy, state.stages[copy].iters[apart], ALIGN_FACTOR, ALIGN_OFFSET)
        fused = fused_loops(state, copy, 0, len(state.stages[copy].iters))
        if not is_chosen:
            state.vectorize(copy, state.split(copy, fused, [None])[1])
        _, thread = state.follow_fused_split(copy, state.stages[copy].iters[0], splits, _THREAD_LENGTH, True)
        state.bind(copy, thread, THREAD)
    return [(state.state_object, place)]


def _compute_at_transform_condition(at: Sketching) -> Condition:
    is_kept = at.stage.is_placeholder or at.stage.is_output or has_reduce_iter(at.stage)
    target = None if is_kept else at.queries.single_consumer(at.stage_id)
    if target is None or not at.queries.producers(at.stage_id):
        return Condition.PASS
    consumer = at.state.stages[target]
    is_wanted = is_constant_transform(consumer) and is_on_threads(consumer)
    return Condition.APPLY_AND_SKIP_REST if is_wanted else Condition.PASS


def _compute_at_transform(at: Sketching) -> list[Found]:
    """Compute the operand of a Winograd transform in registers, in the thread that transforms it."""
    state, target = at.open(), at.queries.single_consumer(at.stage_id)
    assert target is not None
    state.compute_at(at.stage_id, target, state.stages[target].iters[1])
    return [(state.state_object, at.stage_id - 1)]


def _inline_condition(at: Sketching) -> Condition:
    """Always inline elementwise stages: a round trip through global memory costs more than recomputing them."""
    is_kept = at.stage.is_placeholder or at.stage.is_output or has_reduce_iter(at.stage)
    return Condition.PASS if is_kept else Condition.APPLY_AND_SKIP_REST


def _inline(at: Sketching) -> list[Found]:
    state = at.open()
    state.compute_inline(at.stage_id)
    return [(state.state_object, at.stage_id - 1)]


def _constant_condition(at: Sketching) -> Condition:
    is_wanted = is_constant_transform(at.stage) and is_plain(at.stage)
    return Condition.APPLY_AND_SKIP_REST if is_wanted else Condition.PASS


def _unroll_constants(at: Sketching) -> list[Found]:
    """Let each thread compute a whole transform: the loops that index constant matrices are unrolled, so that their
    elements become literals."""
    state, constant = at.open(), names_in(at.stage.op, SIMPLIFY_CONST_TENSOR_INDICES)
    outer, inner = [], []
    for it in at.stage.iters:
        if it.name in constant:
            inner.append(state.unroll(at.stage_id, it))
        else:
            (outer if it.kind is IteratorKind.SPATIAL else inner).append(it)
    state.reorder(at.stage_id, [*outer, *inner])
    spread(state, at.stage_id, len(outer), (None,))
    return [(state.state_object, at.stage_id - 1)]


def _across_threads_condition(at: Sketching) -> Condition:
    if at.stage.is_placeholder or not has_reduce_iter(at.stage) or has_cache_write(at.state, at.stage_id):
        return Condition.PASS
    if not is_plain(at.stage) or has_rfactor(at.state, at.stage_id):
        return Condition.PASS
    space, reduction = extents_product(at.stage)
    is_wanted = reduction >= _LONG_REDUCTION
    if at.queries.needs_multi_level_tiling(at.stage_id):
        most = min(_MORE_THAN_TERMS * reduction, _FEW_ELEMENTS * max(at.hardware.max_threads_per_block, 1))
        is_wanted = is_wanted and space <= most
    return Condition.APPLY if is_wanted else Condition.PASS


def _across_threads(at: Sketching) -> list[Found]:
    """Reduce across threads: the threads of a block compute one element after the other. Consumers that a block of the
    enclosing stage can compute from the output are computed there."""
    state, place = at.open(), at.stage_id
    host = _host(at)
    fused, space = fuse_reduction(state, place)
    followed = None if host is None else _prepare_host(state, *host)
    if followed is None:
        state.split(place, fused, [None])
    else:
        state.follow_split(place, fused, followed, 1)
    state.bind(place, state.stages[place].iters[-1], THREAD)
    if host is not None:
        state.compute_at(place, host[0], state.stages[host[0]].iters[0])
    else:
        state.bind(place, fused_loops(state, place, 0, space), BLOCK)
    return [(state.state_object, place - 1)]


def _host(at: Sketching) -> tuple[int, int] | None:
    """Return the stage inside whose blocks a reduction and its consumers may be computed, and the number of its outer
    loops that are bound to blocks."""
    stages, readers = at.state.stages, at.queries.consumers(at.stage_id)
    roots = {stages[r].attach[0] if stages[r].attach else r for r in readers}  # type: ignore[index]
    if len(roots) != 1:
        return None
    (target,) = roots
    stage = stages[target]
    if stage.compute_at != ROOT or has_reduce_iter(stage) or is_constant_transform(stage):
        return None
    common = at.queries.analyzer.num_common_outer_iterators(at.stage.op, stage.op)
    fits = is_plain(stage) if not is_on_threads(stage) else _blocks_of(stage) == common
    return (target, common) if common > 0 and fits else None


def _blocks_of(stage: Stage) -> int | None:
    """Return the number of axes of a stage that are bound to blocks; None if reductions cannot be computed in its
    blocks."""
    first, kinds = stage.iters[0], [it.annotation for it in stage.iters]
    if kinds == [Annotation.BLOCK_X]:
        return len(stage.op.axis)
    if kinds == [Annotation.BLOCK_X, Annotation.NONE, Annotation.THREAD_X]:
        return len(first.orig_iters) or 1
    return None


def _prepare_host(state: State, target: int, common: int) -> int | None:
    """Bind the outer loops of the enclosing stage to blocks, and the others to threads. Return the split that its
    reductions follow, so that all use the same threads. Return None if there are no other loops: then all threads
    compute a single element, and the split is created later."""
    stage = state.stages[target]
    if not is_on_threads(stage):
        rest = len(stage.iters) - common
        state.bind(target, fused_loops(state, target, 0, common), BLOCK)
        if not rest:
            return None
        state.split(target, fused_loops(state, target, 1, rest), [None])
        state.bind(target, state.stages[target].iters[-1], THREAD)
        return max(number for number, _ in _splits_of(state.state_object, target))
    if len(stage.iters) > 1:
        return max(number for number, _ in _splits_of(state.state_object, target))
    inside = [place for place, other in enumerate(state.stages) if other.attach == (target, 0)]
    return max(number for place in inside for number, _ in _splits_of(state.state_object, place))


def _split_k_condition(at: Sketching, multiprocessors: int) -> Condition:
    """Return whether a stage has few elements and a long reduction, so that it would not occupy all multiprocessors."""
    if not at.queries.needs_multi_level_tiling(at.stage_id) or not is_plain(at.stage) or len(at.stage.op.body) != 1:
        return Condition.PASS
    if has_cache_write(at.state, at.stage_id) or has_rfactor(at.state, at.stage_id) or not has_reduce_iter(at.stage):
        return Condition.PASS
    space, reduction = extents_product(at.stage)
    is_wanted = space <= _SMALL_BLOCK * multiprocessors and reduction >= _SPLIT_K_LEAST_TERMS
    return Condition.APPLY if is_wanted and _longest_reduction(at.stage).extent >= _LONG_REDUCTION else Condition.PASS


def _longest_reduction(stage: Stage) -> Iterator:
    return max((it for it in stage.iters if it.kind is IteratorKind.REDUCTION), key=lambda it: it.extent or 1)


def _split_k(at: Sketching, multiprocessors: int) -> list[Found]:
    """Apply split-k: the longest reduction is divided among blocks. The partial sums become a tiled stage with one more
    axis, which is only bound to blocks; a separate kernel or the consumer adds them. The number of parts is fixed,
    because the tiles of a part divide its extent."""
    found, place = [], at.stage_id
    loop, (space, reduction) = _longest_reduction(at.stage), extents_product(at.stage)
    most = min(reduction // _LEAST_PART, _MOST_BLOCKS * multiprocessors * _SMALL_BLOCK // space)
    for parts in _SPLIT_K:
        if loop.extent is not None and loop.extent % parts == 0 and parts <= most:
            state = at.open()
            outer, _ = state.split(place, loop, [loop.extent // parts])
            state.rfactor(place, outer, 0)
            found.append((state.state_object, place + 1))
    return found


def _cache_write_condition(at: Sketching) -> Condition:
    alone = at.queries.needs_multi_level_tiling(at.stage_id) and free_consumer(at) is None
    is_wanted = alone and is_plain(at.stage) and not has_cache_write(at.state, at.stage_id)
    return Condition.APPLY_AND_SKIP_REST if is_wanted else Condition.PASS


def _cache_write(at: Sketching) -> list[Found]:
    """Accumulate in registers, and store each output once."""
    state = at.open()
    state.cache_write(at.stage_id, "local")
    return [(state.state_object, at.stage_id)]


def _tiling_condition(at: Sketching) -> Condition:
    is_wanted = at.queries.needs_multi_level_tiling(at.stage_id) and free_consumer(at) is not None
    return Condition.APPLY_AND_SKIP_REST if is_wanted and is_plain(at.stage) else Condition.PASS


def _tile_on_threads(at: Sketching) -> list[Found]:
    """Tile a stage inside the tiles of its consumer, whose outer levels are bound to blocks and threads."""
    target = free_consumer(at)
    assert target is not None
    state = at.open()
    parts = axis_of_parts(at.state, at.stage_id)
    outer = frozenset([] if parts is None else [at.stage.iters[parts].name])
    tiles = tile(state, at.stage_id, at.structure, outer=outer)
    follow_tiles(state, target, tiles, BOUND_LEVELS)
    _bind_tiles(state, target, tiles.outer_loops, len(tiles.steps))
    state.compute_at(at.stage_id, target, state.stages[target].iters[BOUND_LEVELS - 1])
    return [(state.state_object, at.stage_id - 1)]


def _by_one_thread_condition(at: Sketching) -> Condition:
    is_wanted = not at.stage.is_placeholder and has_reduce_iter(at.stage) and is_plain(at.stage)
    return Condition.APPLY_AND_SKIP_REST if is_wanted else Condition.PASS


def _by_one_thread(at: Sketching) -> list[Found]:
    """Let one thread compute a whole reduction and its elementwise consumer in registers."""
    state, place, target = at.open(), at.stage_id, free_consumer(at)
    if target is None:
        state.cache_write(place, "local")
        target = place + 1
    spread(state, target, len(state.stages[target].iters), (None,))
    state.compute_at(place, target, state.stages[target].iters[1])
    return [(state.state_object, place - 1)]


def gpu_rules(multiprocessors: int) -> tuple[Rule, ...]:
    """Return the rules for a GPU with a number of multiprocessors."""
    split_k = [partial(one, multiprocessors=multiprocessors) for one in (_split_k_condition, _split_k)]
    return (
        Rule("operands in shared memory", _cache_read_condition, _cache_read),
        Rule("compute-at of Winograd's transform", _compute_at_transform_condition, _compute_at_transform),
        Rule("inline", _inline_condition, _inline),
        Rule("unroll indices of constants", _constant_condition, _unroll_constants),
        Rule("reduction across threads", _across_threads_condition, _across_threads),
        Rule("split-k", *split_k),
        Rule("cache write", _cache_write_condition, _cache_write),
        Rule("multi-level tiling on threads", _tiling_condition, _tile_on_threads),
        Rule("reduction by one thread", _by_one_thread_condition, _by_one_thread),
        Rule("plain loops", lambda at: Condition.APPLY, lambda at: [(at.state, at.stage_id - 1)]),
    )


__all__ = [
    "BLOCK",
    "BOUND_LEVELS",
    "THREAD",
    "free_consumer",
    "fused_loops",
    "gpu_rules",
    "is_on_threads",
    "is_plain",
    "spread",
]
