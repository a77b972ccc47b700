"""The table of sketch rules, which determine the loop structures of a stage. Tile sizes of sketches are open.

Stages are visited from the last to the first. Each rule that applies to a stage yields states, each with the stage to
visit next; after ``APPLY_AND_SKIP_REST`` no later rule is tried.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .access import SIMPLIFY_CONST_TENSOR_INDICES
from .compute_dag import ComputeDAG
from .hardware import HardwareParams
from .iterator import Annotation, IteratorKind
from .loop_state import State
from .queries import (
    Queries,
    extents_product,
    has_cache_write,
    has_reduce_iter,
    is_constant_transform,
    is_tensorized,
    is_tiled,
)
from .state import StateObject
from .tiling import follow_tiles, fuse_reduction, names_in, tile

# The tile levels at which an elementwise consumer, or a cache write, may be fused.
FUSION_LEVELS = (1, 2)
# With this many elements per core there is enough parallelism without an rfactor.
_ELEMENTS_PER_CORE = 16
# The tile structure of the loops around a constant transform.
_CONSTANT_TILES = 2


class Condition(enum.IntEnum):
    """Whether a rule applies. Custom rules return these values."""

    PASS = 0
    APPLY = 1
    APPLY_AND_SKIP_REST = 2


@dataclass
class Sketching:
    """The context of a rule: a state, and the visited stage."""

    dag: ComputeDAG
    hardware: HardwareParams
    structure: str
    state: StateObject
    stage_id: int

    def __post_init__(self) -> None:
        self.queries = Queries(self.dag, self.state)
        self.stage = self.state.stages[self.stage_id]

    def open(self) -> State:
        """Return a mutable copy of the state."""
        return State(self.state, self.dag)


# A state, and the stage to visit next.
Found = tuple[StateObject, int]


@dataclass(frozen=True)
class Rule:
    """An entry of the rule table."""

    name: str
    condition: Callable[[Sketching], Condition]
    apply: Callable[[Sketching], Sequence[Found]]


# -- conditions ----------------------------------------------------------------------------------------------------


def _inline_condition(at: Sketching) -> Condition:
    is_kept = at.stage.is_placeholder or at.stage.is_output or has_reduce_iter(at.stage)
    # An intrinsic reads arrays, so its operands are not inlined.
    is_kept = is_kept or any(is_tensorized(at.state.stages[reader]) for reader in at.queries.consumers(at.stage_id))
    if is_kept or not (at.queries.is_strictly_inlineable(at.stage_id) or _is_read_once(at)):
        return Condition.PASS
    return Condition.APPLY_AND_SKIP_REST


def _is_read_once(at: Sketching) -> bool:
    """Return whether each element is read by only one element of the consumer, so that inlining does not repeat its
    computation."""
    target, analyzer, op = at.queries.single_consumer(at.stage_id), at.queries.analyzer, at.stage.op
    if target is None or has_reduce_iter(at.state.stages[target]) or is_constant_transform(at.stage):
        return False
    reads = [indices for reader in analyzer.consumers(op) for indices in analyzer.accesses[reader].reads[op]]
    return len(reads) == 1 and at.queries.is_elementwise_match(at.stage_id, target)


def _constant_condition(at: Sketching) -> Condition:
    return Condition.APPLY_AND_SKIP_REST if is_constant_transform(at.stage) else Condition.PASS


def _half_condition(at: Sketching) -> Condition:
    """Return whether a constant transform is the first half of another one, which is tiled."""
    target = at.queries.single_consumer(at.stage_id) if is_constant_transform(at.stage) else None
    is_half = target is not None and not has_reduce_iter(at.stage) and is_constant_transform(at.state.stages[target])
    return Condition.APPLY_AND_SKIP_REST if is_half and is_tiled(at.state.stages[target]) else Condition.PASS


def _rfactor_condition(at: Sketching) -> Condition:
    if at.stage.is_placeholder or not has_reduce_iter(at.stage) or has_cache_write(at.state, at.stage_id):
        return Condition.PASS
    if len(at.stage.op.body) != 1:
        return Condition.PASS
    space, reduction = extents_product(at.stage)
    if reduction < 0:
        return Condition.PASS
    if at.queries.needs_multi_level_tiling(at.stage_id):
        is_wanted = space <= reduction and space <= at.hardware.num_cores * _ELEMENTS_PER_CORE
    else:
        is_wanted = reduction > max(at.hardware.num_cores, 1)
    return Condition.APPLY if is_wanted else Condition.PASS


def is_to_be_tiled(at: Sketching) -> bool:
    """Return whether tiling is profitable. A loop of unknown extent has no tile sizes to choose from."""
    return at.queries.needs_multi_level_tiling(at.stage_id) and extents_product(at.stage)[0] >= 0


def _cache_write_condition(at: Sketching) -> Condition:
    alone = is_to_be_tiled(at) and at.queries.matched_consumer(at.stage_id) is None
    return Condition.APPLY if alone and not has_cache_write(at.state, at.stage_id) else Condition.PASS


def _fusion_condition(at: Sketching) -> Condition:
    if not is_to_be_tiled(at) or at.queries.matched_consumer(at.stage_id) is None:
        return Condition.PASS
    # The write cache itself is tiled, so that it is written tile by tile.
    return Condition.APPLY_AND_SKIP_REST if has_cache_write(at.state, at.stage_id) else Condition.APPLY


def _tiling_condition(at: Sketching) -> Condition:
    return Condition.APPLY_AND_SKIP_REST if is_to_be_tiled(at) else Condition.PASS


# -- actions -------------------------------------------------------------------------------------------------------


def _inline(at: Sketching) -> list[Found]:
    state = at.open()
    state.compute_inline(at.stage_id)
    return [(state.state_object, at.stage_id - 1)]


def _unroll_constants(at: Sketching) -> list[Found]:
    """Unroll the loops that index constant matrices, so that their elements become literals. They are placed inside
    tiles of the other loops; the innermost loop is the contiguous one, which is vectorized."""
    state, constant = at.open(), names_in(at.stage.op, SIMPLIFY_CONST_TENSOR_INDICES)
    tiles, inner = [], []
    for it in at.stage.iters:
        if it.name in constant:
            inner.append(state.unroll(at.stage_id, it))
        elif it.kind is IteratorKind.SPATIAL:
            tiles.append(state.split(at.stage_id, it, [None] * (_CONSTANT_TILES - 1)))
        else:
            inner.append(it)
    outer = [it for level in zip(*tiles) for it in level]
    state.reorder(at.stage_id, [*outer[:-1], *inner, *outer[-1:]])
    return [(state.state_object, at.stage_id - 1)]


def _compute_half_at_transform(at: Sketching) -> list[Found]:
    """Compute the first half of a transform inside the tiles of the second, so that it stays in the L1 cache."""
    state, target = at.open(), at.queries.single_consumer(at.stage_id)
    assert target is not None
    constant = names_in(at.stage.op, SIMPLIFY_CONST_TENSOR_INDICES)
    for it in at.stage.iters:
        if it.name in constant:
            state.unroll(at.stage_id, it)
    loops = state.stages[target].iters
    first = next(place for place, it in enumerate(loops) if it.annotation is Annotation.UNROLL)
    state.compute_at(at.stage_id, target, loops[first - 1])
    return [(state.state_object, at.stage_id - 1)]


def _rfactor(at: Sketching) -> list[Found]:
    """Factor the reduction with rfactor, over its outer part, which becomes parallel, or over its inner part, which
    becomes vector lanes."""
    base = at.open()
    fused, space = fuse_reduction(base, at.stage_id)
    parts = base.split(at.stage_id, fused, [1])
    found = []
    for number, part in enumerate(parts):
        state = base.copy()
        state.rfactor(at.stage_id, part, space)
        if number == 1:
            iters = list(state.stages[at.stage_id].iters)
            state.reorder(at.stage_id, [*iters[:space], *iters[space + 1 :], iters[space]])
        found.append((state.state_object, at.stage_id - 1))
    return found


def _rfactor_for_few(at: Sketching) -> list[Found]:
    """Factor the reduction into parallel parts only if its elements do not keep all cores busy."""
    in_parts, in_lanes = _rfactor(at)
    is_parallel = extents_product(at.stage)[0] > at.hardware.num_cores * _ELEMENTS_PER_CORE
    return [in_lanes] if is_parallel else [in_parts, in_lanes]


def _cache_write(at: Sketching) -> list[Found]:
    state = at.open()
    state.cache_write(at.stage_id, "global")
    return [(state.state_object, at.stage_id)]


def _tile_with_consumer(at: Sketching, outer: frozenset[str] = frozenset()) -> list[Found]:
    target = at.queries.matched_consumer(at.stage_id)
    assert target is not None
    base = at.open()
    tiles = tile(base, at.stage_id, at.structure, outer=outer)
    found = []
    for level in FUSION_LEVELS:
        if at.structure[level - 1] != "S":
            continue
        state = base.copy()
        where = follow_tiles(state, target, tiles, level)
        state.compute_at(at.stage_id, target, where)
        found.append((state.state_object, at.stage_id - 1))
    return found


def _tile(at: Sketching, outer: frozenset[str] = frozenset()) -> list[Found]:
    state = at.open()
    tile(state, at.stage_id, at.structure, outer=outer)
    return [(state.state_object, at.stage_id - 1)]


def batch_axes(at: Sketching) -> frozenset[str]:
    """Return the batch axes, along which all operands are read: a tile of several elements along them reuses no data.
    The last axis is excluded, because its elements are the vector lanes."""
    op, queries = at.stage.op, at.queries
    read = [queries.axes_that_read(producer, op) for producer in queries.analyzer.producers(op)]
    names = frozenset(axis.var.name for axis in op.axis[:-1])
    return names.intersection(*read) if len(read) > 1 else frozenset()


def _skip(at: Sketching) -> list[Found]:
    return [(at.state, at.stage_id - 1)]


CPU_RULES = (
    Rule("always inline", _inline_condition, _inline),
    Rule("half of a transform by constants", _half_condition, _compute_half_at_transform),
    Rule("unroll indices of constants", _constant_condition, _unroll_constants),
    Rule("rfactor", _rfactor_condition, _rfactor),
    Rule("cache write", _cache_write_condition, _cache_write),
    Rule("multi-level tiling with its consumer", _fusion_condition, _tile_with_consumer),
    Rule("multi-level tiling", _tiling_condition, _tile),
    Rule("plain loops", lambda at: Condition.APPLY, _skip),
)
# The rules of a search, which omit structures that cannot be the fastest.
_SEARCHED: dict[Any, Callable[[Sketching], Sequence[Found]]] = {
    _rfactor: _rfactor_for_few,
    _tile_with_consumer: lambda at: _tile_with_consumer(at, batch_axes(at)),
    _tile: lambda at: _tile(at, batch_axes(at)),
}
SEARCHED_RULES = tuple(replace(rule, apply=_SEARCHED.get(rule.apply, rule.apply)) for rule in CPU_RULES)


def generate(
    dag: ComputeDAG, hardware: HardwareParams, structure: str, rules: Sequence[Any] = CPU_RULES
) -> list[StateObject]:
    """Return all sketches that the rules generate."""
    now: list[Found] = [(dag.get_init_state().state_object, len(dag.ops) - 1)]
    done: list[StateObject] = []
    while now:
        after: list[Found] = []
        for state, stage_id in now:
            if stage_id < 0:
                done.append(state)
                continue
            at = Sketching(dag, hardware, structure, state, stage_id)
            for rule in rules:
                condition = rule.condition(at)
                if condition is not Condition.PASS:
                    after += rule.apply(at)
                if condition is Condition.APPLY_AND_SKIP_REST:
                    break
        now = after
    return done


__all__ = [
    "CPU_RULES",
    "Condition",
    "FUSION_LEVELS",
    "Found",
    "Rule",
    "SEARCHED_RULES",
    "Sketching",
    "batch_axes",
    "generate",
    "is_to_be_tiled",
]
