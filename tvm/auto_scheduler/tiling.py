"""Tiles: loops split into levels and ordered by a pattern such as SSRSRS."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .iterator import Iterator, IteratorKind
from .loop_state import State


@lru_cache(maxsize=8192)
def divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


@lru_cache(maxsize=1024)
def factorizations(extent: int, count: int, most_inner: int) -> tuple[tuple[int, ...], ...]:
    """All ways to choose ``count`` inner lengths of a loop whose product divides its extent, the innermost at most
    ``most_inner``."""
    found: list[tuple[int, tuple[int, ...]]] = [(extent, ())]
    for place in range(count):
        limit = most_inner if place == 0 else extent
        found = [(rest // d, (d, *lengths)) for rest, lengths in found for d in divisors(rest) if d <= limit]
    return tuple(lengths for _, lengths in found)


def names_in(op: Any, attribute: str) -> frozenset[str]:
    """The axes that an operation names in one of its attributes."""
    return frozenset(str(getattr(name, "value", name)) for name in (op.attrs or {}).get(attribute, ()))


def tile(state: State, stage_id: int, structure: str) -> list[int]:
    """Split every loop of a stage, with lengths that are open, and order the parts by ``structure``: S for the loops
    over elements, R for those of the reduction. Gives the steps that split the loops over elements."""
    stage = state.stages[stage_id]
    inner_only, outer_only = names_in(stage.op, NO_SPLIT_AT_INNER), names_in(stage.op, NO_SPLIT_AT_OUTER)
    counts = {kind: structure.count(letter) for letter, kind in _KINDS.items()}
    levels: dict[IteratorKind, list[list[Iterator]]] = {k: [[] for _ in range(n)] for k, n in counts.items()}
    outermost, innermost, made = [], [], []
    for it in stage.iters:
        if it.name in inner_only or it.name in outer_only:
            (innermost if it.name in inner_only else outermost).append(it)
            continue
        parts = [it] if counts[it.kind] < 2 else state.split(stage_id, it, [None] * (counts[it.kind] - 1))
        if it.kind is IteratorKind.SPATIAL:
            made.append(len(state.transform_steps) - 1)
        for level, part in zip(levels[it.kind], parts):
            level.append(part)
    ordered = [it for letter in structure for it in levels[_KINDS[letter]].pop(0)]
    state.reorder(stage_id, [*outermost, *ordered, *innermost])
    return made


_KINDS = {"S": IteratorKind.SPATIAL, "R": IteratorKind.REDUCTION}


def follow_tiles(state: State, stage_id: int, split_steps: list[int], level: int) -> Iterator:
    """Split the loops of a stage as those of another one were split, at the outer ``level`` levels, and order them by
    level. Gives the innermost loop of the last of these levels."""
    iters = state.stages[stage_id].iters
    parts = [state.follow_split(stage_id, it, step, level) for it, step in zip(iters, split_steps)]
    state.reorder(stage_id, [it for tiles in zip(*parts) for it in tiles])
    return state.stages[stage_id].iters[level * len(split_steps) - 1]


def fuse_reduction(state: State, stage_id: int) -> tuple[Iterator, int]:
    """Make one loop of those of the reduction; it, and how many loops over elements there are."""
    iters = state.stages[stage_id].iters
    over = [it for it in iters if it.kind is IteratorKind.REDUCTION]
    space = len(iters) - len(over)
    return (over[0] if len(over) == 1 else state.fuse(stage_id, over)), space


__all__ = ["divisors", "factorizations", "follow_tiles", "fuse_reduction", "names_in", "tile"]
