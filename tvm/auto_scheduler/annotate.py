"""Annotation: complete a sketch to a state by choosing tile sizes, compute locations, parallel loops, unrolling and
vectorization.

``Choices`` makes every decision, given its name and its options. A state is therefore identified by its sketch and its
decisions: changing one decision and annotating again gives another valid state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from . import gpu_annotate, gpu_limits
from .annotation_steps import AUTO_UNROLL, AnnotationStep, DoubleBufferStep, PragmaStep
from .attach_steps import INLINED, ROOT, ComputeAtStep, ComputeInlineStep
from .compute_dag import ComputeDAG
from .dataflow_steps import RfactorStep
from .gpu_annotate import bind_plain_stages, buffer_operands
from .gpu_limits import GPULimits, are_likely, check_block_resources
from .iterator import Annotation, Iterator, IteratorKind
from .loop_nests import LoopNests
from .loop_state import State
from .loop_steps import FuseStep, SplitStep
from .queries import Queries, has_fragments, has_reduce_iter, is_constant_transform, is_tensorized, is_tiled
from .state import StateObject
from .steps import TransformStep
from .tiling import divisors, factorizations, row_lengths

UNROLL_STEPS = (0, 16, 64, 512)
# Loops are fused into the parallel loop until it has this many iterations per core.
ITERATIONS_PER_CORE = 16
# The probability of the preferred option of a decision, if there is one.
USUAL = 0.75
# The minimum number of partial sums of a reduction that fill a register.
_FEWEST_LANES = 4
# The maximum number of attempts to sample tile sizes that fit a GPU.
_MOST_DRAWS = 32
INLINE, AT_ROOT = "inline", "root"

# The kind of a decision and the number of its split or stage; and all decisions of a state.
Key = tuple[str, int]
Decisions = dict[Key, Any]


# For each kind of decision, the value that adds no step to the state.
_NOTHING = {"location": AT_ROOT, "unroll": 0, "vector": 0, "lanes": 1, "buffers": 1}


class Choices:
    """The decisions of a state: given decisions are used if they are valid options; the others are random. With
    ``complete``, a missing decision gets the value that adds no step."""

    def __init__(self, generator: random.Random, given: Mapping[Key, Any] | None = None, complete: bool = False):
        self.generator, self.given, self.complete = generator, given or {}, complete
        self.made: Decisions = {}

    def pick(self, kind: str, number: int, options: Sequence[Any], usual: Any = None) -> Any:
        """Return one of the options: the given one, or a random one; ``usual`` is the most probable."""
        key = (kind, number)
        wanted = self.given.get(key, _NOTHING.get(kind) if self.complete else None)
        if wanted not in options or wanted is None:
            is_usual = usual is not None and self.generator.random() < USUAL
            wanted = usual if is_usual else options[self.generator.randrange(len(options))]
        self.made[key] = wanted
        return wanted


@dataclass(frozen=True)
class Limits:
    """The resource limits that annotation respects."""

    num_cores: int
    max_innermost_split_factor: int = 64
    max_vectorize_size: int = 16
    changes_location: bool = True
    gpu: GPULimits | None = None


def annotate(dag: ComputeDAG, sketch: StateObject, choices: Choices, limits: Limits) -> StateObject:
    """Return a complete state of a sketch, with all tile sizes known. Raise TVMError if a block exceeds the resources
    of the target."""
    state = State(dag.state_of(fill_tiles(sketch.transform_steps, choices, limits)), dag)
    if limits.gpu is not None:
        bind_plain_stages(state, choices, limits.gpu)
        _unroll(state, choices, gpu_annotate.UNROLL_STEPS)
        nests = LoopNests(dag, state.state_object)
        buffer_operands(state, choices, nests)
        check_block_resources(dag, state.state_object, limits.gpu, nests)
        return state.state_object
    if limits.changes_location:
        place_stages(state, choices)
    # Parallelization fuses loops, so the tiled stages are determined before.
    tiled = [is_tiled(stage) for stage in state.stages]
    for place, stage in enumerate(state.stages):
        if not stage.is_placeholder and stage.compute_at == ROOT:
            _parallelize(state, place, 0, choices, limits)
    _unroll(state, choices, UNROLL_STEPS)
    _vectorize(state, choices, limits, tiled)
    return state.state_object


# -- tile sizes ----------------------------------------------------------------------------------------------------


def open_splits(steps: Sequence[TransformStep]) -> dict[int, SplitStep]:
    """Return the splits of a sketch whose lengths annotation chooses: those without lengths, and those before an
    rfactor."""
    found = {}
    for number, step in enumerate(steps):
        if isinstance(step, SplitStep) and (None in step.lengths or _is_before_rfactor(steps, number)):
            found[number] = step
    return found


def _is_before_rfactor(steps: Sequence[TransformStep], number: int) -> bool:
    after = steps[number + 1] if number + 1 < len(steps) else None
    return isinstance(after, RfactorStep) and after.stage_id == steps[number].stage_id


def length_options(step: SplitStep, limits: Limits) -> tuple[tuple[int, ...], ...]:
    """Return the possible lengths of a split of a sketch."""
    if limits.gpu is not None:
        return gpu_limits.length_options(step, limits.max_innermost_split_factor, limits.gpu)
    if None not in step.lengths:
        # A factor of an rfactor is a proper divisor of the reduction extent; if possible, it fills registers.
        extent = step.extent or 1
        proper = [d for d in divisors(extent) if 1 < d < extent]
        return tuple((d,) for d in proper if d % _FEWEST_LANES == 0) or tuple((d,) for d in proper) or ((1,),)
    if step.extent is None:
        return (tuple(length or 1 for length in step.lengths),)
    inner = step.lengths[-1]
    if inner is not None and step.extent % inner == 0:
        # The loop of an intrinsic has a fixed length.
        rest = step.extent // inner
        return tuple((*o, inner) for o in factorizations(rest, len(step.lengths) - 1, rest))
    return factorizations(step.extent, len(step.lengths), limits.max_innermost_split_factor)


def fill_tiles(steps: Sequence[TransformStep], choices: Choices, limits: Limits) -> list[TransformStep]:
    filled = list(steps)
    for group in _groups(open_splits(steps)):
        picked: list[Any] = []
        for _ in range(_MOST_DRAWS if limits.gpu is not None else 1):
            before, picked = picked, [choices.pick("tile", n, length_options(step, limits)) for n, step in group]
            is_given = picked == before
            if is_given or limits.gpu is None or are_likely([step for _, step in group], picked, limits.gpu):
                break
        for (number, step), lengths in zip(group, picked):
            filled[number] = replace(step, lengths=lengths)
    return filled


def _groups(splits: Mapping[int, SplitStep]) -> list[list[tuple[int, SplitStep]]]:
    """Return the splits that tile one stage, which are consecutive, as groups."""
    groups: list[list[tuple[int, SplitStep]]] = []
    for number, step in splits.items():
        last = groups[-1][-1] if groups else (-2, step)
        if last[0] == number - 1 and last[1].stage_id == step.stage_id:
            groups[-1].append((number, step))
        else:
            groups.append([(number, step)])
    return groups


# -- compute locations ----------------------------------------------------------------------------------------------


def place_stages(state: State, choices: Choices) -> None:
    """Choose the compute locations of stages that are not tiled: inlined, inside a loop of the consumer, or at the
    root."""
    for place in reversed(range(len(state.stages))):
        stage = state.stages[place]
        if stage.is_placeholder or stage.is_output or stage.compute_at != ROOT or is_tiled(stage):
            continue
        queries = Queries(state.compute_dag, state.state_object)
        if queries.needs_multi_level_tiling(place):
            continue
        locations = _locations(state.state_object, queries, place)
        options: list[Any] = [AT_ROOT, *locations]
        # A constant transform reads each element for many sums, so its operand is not inlined; otherwise it would be
        # recomputed for each sum. The operand of an intrinsic is not inlined either, because the intrinsic reads
        # arrays.
        readers = [state.stages[reader] for reader in queries.consumers(place)]
        is_kept = any(is_constant_transform(reader) or is_tensorized(reader) for reader in readers)
        if not has_reduce_iter(stage) and not is_kept:
            options.append(INLINE)
        # Stages without tiles are fused row by row, so that rows stay in the L1 cache.
        is_row = bool(locations) and not is_tiled(state.stages[locations[-1][0]])
        chosen = choices.pick("location", place, options, usual=locations[-1] if is_row else None)
        if chosen == INLINE:
            state.compute_inline(place)
        elif chosen != AT_ROOT:
            target, loop = chosen
            state.compute_at(place, target, state.stages[target].iters[loop])


def _locations(state: StateObject, queries: Queries, place: int) -> list[tuple[int, int]]:
    """Return the loops inside which a stage may be computed: the outer loops of its only consumer, and of the stage
    in which the consumer is computed, up to the inner tiles. With several consumers, return the loops around all of
    them."""
    readers, found = queries.consumers(place), []
    if len(readers) == 1:
        attach = state.stages[readers[0]].attach
        # A plain stage inside another stage covers only little more than one iteration of the enclosing loop.
        if attach is None or is_tiled(state.stages[readers[0]]):
            found = _loops_that_read(queries, place, readers[0], _outer_loops(state, readers[0]))
    else:
        attach = _around_all(state, readers)
    if attach is not None:
        outer, last = attach
        found += [(stage, loop) for stage, loop in _outer_loops(state, outer) if loop <= last]
    return found


def _loops_that_read(queries: Queries, place: int, reader: int, loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the loops of a reader. For a reader without tiles, they end at the first loop that does not change the
    elements it reads; inside that loop the same elements would be computed repeatedly."""
    stages = queries.state.stages
    if is_tiled(stages[reader]):
        return loops
    used = queries.axes_that_read(stages[place].op, stages[reader].op)
    return list(takewhile(lambda loop: stages[reader].iters[loop[1]].name in used, loops))


def _around_all(state: StateObject, readers: Sequence[int]) -> tuple[int, int] | None:
    """Return the innermost loop of the last reader of a stage that contains all its other readers."""
    if not readers:
        return None
    target = readers[-1]
    attached = [state.stages[reader].attach for reader in readers[:-1]]
    loops = [attach[1] for attach in attached if attach is not None and attach[0] == target]
    return (target, min(loops)) if len(loops) == len(attached) else None


def _outer_loops(state: StateObject, target: int) -> list[tuple[int, int]]:
    stage, found, in_reduction = state.stages[target], [], False
    for loop, it in enumerate(stage.iters):
        if it.kind is IteratorKind.REDUCTION:
            in_reduction = True
            if not is_tiled(stage):
                break
        elif in_reduction:
            break
        if it.annotation is Annotation.UNROLL:
            break
        is_outer_of_attached = stage.attach is not None and it.name.endswith(".0")
        if it.extent != 1 and not (is_outer_of_attached and it.kind is IteratorKind.SPATIAL):
            found.append((target, loop))
        if state.attached_to(target, loop):
            break
    return found


# -- parallel, unroll and vectorize --------------------------------------------------------------------------------


def _parallelize(state: State, place: int, first: int, choices: Choices, limits: Limits) -> None:
    """Fuse the outer loops of a stage and run them in parallel. If these have a single iteration, parallelize the loops
    inside them and those of the stages computed there."""
    iters = state.stages[place].iters
    count, degree, loop = 0, 1, first
    for loop in range(first, len(iters)):
        it = iters[loop]
        if it.kind is not IteratorKind.SPATIAL or it.annotation is not Annotation.NONE:
            break
        count += 1
        degree *= it.extent or 1
        if degree > limits.num_cores * ITERATIONS_PER_CORE or state.state_object.attached_to(place, loop):
            break
    if not count:
        return
    inside = state.state_object.attached_to(place, first + count - 1)
    if degree == 1 and inside:
        _parallelize(state, place, first + count, choices, limits)
        return
    if degree == 1:
        return
    depth = choices.pick("parallel", place, range(1, count + 1), usual=count)
    state.parallel(place, _fused(state, place, first, depth))


def _fused(state: State, place: int, first: int, count: int) -> Iterator:
    iters = state.stages[place].iters[first : first + count]
    return iters[0] if count == 1 else state.fuse(place, iters)


def _unroll(state: State, choices: Choices, options: Sequence[int]) -> None:
    """Allow unrolling of reduction loops up to a number of statements."""
    for place, stage in enumerate(state.stages):
        if stage.is_placeholder or stage.compute_at == INLINED or not has_reduce_iter(stage) or has_fragments(stage):
            continue
        # A loop bound to threads has no statement to which a pragma could be attached.
        loop = next((it for it in stage.iters if it.annotation < Annotation.VTHREAD), None)
        most = choices.pick("unroll", place, options) if loop is not None else 0
        if loop is not None and most:
            state.pragma(place, loop, f"{AUTO_UNROLL}${most}")


def _vectorize(state: State, choices: Choices, limits: Limits, tiled: Sequence[bool]) -> None:
    """Vectorize the innermost loops of each stage."""
    bounds = _extents(state)
    for place in range(len(state.stages)):
        stage = state.stages[place]
        if stage.is_placeholder or stage.compute_at == INLINED or not stage.iters:
            continue
        extents = bounds[place]
        count = _loops_for_lanes(state, place, extents, limits, tiled[place])
        if count:
            chosen = choices.pick("vector", place, range(count + 1), usual=count)
            if chosen:
                state.vectorize(place, _fused(state, place, len(stage.iters) - chosen, chosen))
            continue
        it = stage.iters[-1]
        is_free = it.kind is IteratorKind.SPATIAL and it.annotation is Annotation.NONE
        if is_free and not tiled[place] and not state.state_object.attached_to(place, len(stage.iters) - 1):
            lanes = [d for d in divisors(extents[-1] or 1) if 1 < d <= limits.max_vectorize_size]
            chosen = choices.pick("lanes", place, [1, *lanes], usual=max(lanes, default=1))
            if chosen > 1:
                state.vectorize(place, state.split(place, it, [chosen])[1])


def _extents(state: State) -> list[list[int | None]]:
    """Return the extents of the loops of all stages, including stages that are computed inside others."""
    if all(stage.attach is None for stage in state.stages):
        return [[it.extent for it in stage.iters] for stage in state.stages]
    nests = LoopNests(state.compute_dag, state.state_object).nests
    return [
        [loop.extent for loop in nests[place].loops] if place in nests else [] for place in range(len(state.stages))
    ]


def _loops_for_lanes(state: State, place: int, extents: Sequence[int | None], limits: Limits, tiled: bool) -> int:
    """Return how many of the innermost loops of a stage may be fused and vectorized."""
    stage, count, total = state.stages[place], 0, 1
    lengths = row_lengths(stage) if tiled else []
    while count < len(stage.iters):
        loop = len(stage.iters) - 1 - count
        it, extent = stage.iters[loop], extents[loop]
        if it.kind is not IteratorKind.SPATIAL or it.annotation is not Annotation.NONE or extent is None:
            break
        if state.state_object.attached_to(place, loop):
            break
        # In a tile, a loop accesses contiguous memory only if the loops inside it cover their axes completely.
        if tiled and count and (count >= len(lengths) or extents[loop + 1] != lengths[count - 1] or extent == 1):
            break
        most = limits.max_innermost_split_factor if tiled and not count else limits.max_vectorize_size
        if total * extent > most:
            break
        total *= extent
        count += 1
    return count if total > 1 else 0


# -- decisions of an annotated state --------------------------------------------------------------------------------


def decisions_of(sketch: StateObject, steps: Sequence[TransformStep]) -> Decisions | None:
    """Return the decisions that lead from a sketch to these steps. Return None if the steps do not begin with those of
    the sketch, or if later steps change its operations."""
    made = sketch.transform_steps
    if len(steps) < len(made) or any(step.changes_ops for step in steps[len(made) :]):
        return None
    found: Decisions = {}
    open_ones = open_splits(made)
    for number, (own, given) in enumerate(zip(made, steps)):
        if number in open_ones and isinstance(given, SplitStep) and len(given.lengths) == len(own.lengths):
            found["tile", number] = given.lengths
            own = replace(own, lengths=given.lengths)
        if own != given:
            return None
    for before, step in zip((None, *steps[len(made) :]), steps[len(made) :]):
        _note(found, before, step)
    return found


def _note(found: Decisions, before: TransformStep | None, step: TransformStep) -> None:
    stage, same = step.stage_id, before is not None and before.stage_id == step.stage_id
    if isinstance(step, ComputeAtStep):
        found["location", stage] = (step.target_stage_id, step.target_iter_id)
    elif isinstance(step, ComputeInlineStep):
        found["location", stage] = INLINE
    elif isinstance(step, PragmaStep):
        found["unroll", stage] = step.value()
    elif isinstance(step, DoubleBufferStep):
        found["buffers", stage] = step.buffers
    elif isinstance(step, AnnotationStep):
        loops = len(before.fused_ids) if same and isinstance(before, FuseStep) else 1
        if step.annotation == Annotation.BLOCK_X and same and isinstance(before, SplitStep):
            found["threads", stage] = before.lengths
        elif step.annotation == Annotation.PARALLEL:
            found["parallel", stage] = loops
        elif step.annotation == Annotation.VECTORIZE and same and isinstance(before, SplitStep):
            found["lanes", stage] = before.lengths[0]
        elif step.annotation == Annotation.VECTORIZE:
            found["vector", stage] = loops


__all__ = [
    "Choices",
    "Decisions",
    "ITERATIONS_PER_CORE",
    "Key",
    "Limits",
    "UNROLL_STEPS",
    "USUAL",
    "annotate",
    "decisions_of",
    "length_options",
    "open_splits",
    "place_stages",
]
