"""Tiling: split loops into levels and order them by a pattern such as SSRSRS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .access import NO_SPLIT_AT_INNER, NO_SPLIT_AT_OUTER
from .iterator import Iterator, IteratorKind
from .loop_nests import length_of
from .loop_state import State
from .state import Stage


@lru_cache(maxsize=8192)
def divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


@lru_cache(maxsize=1024)
def factorizations(extent: int, count: int, most_inner: int) -> tuple[tuple[int, ...], ...]:
    """Return all choices of ``count`` inner lengths whose product divides the extent of a loop, with the innermost at
    most ``most_inner``."""
    found: list[tuple[int, tuple[int, ...]]] = [(extent, ())]
    for place in range(count):
        limit = most_inner if place == 0 else extent
        found = [(rest // d, (d, *lengths)) for rest, lengths in found for d in divisors(rest) if d <= limit]
    return tuple(lengths for _, lengths in found)


def names_in(op: Any, attribute: str) -> frozenset[str]:
    """Return the names of axes that an attribute of an operation contains."""
    return frozenset(str(getattr(name, "value", name)) for name in (op.attrs or {}).get(attribute, ()))


def divides(factors: Sequence[int], op: Any) -> bool:
    """Return whether factors divide the lengths of the axes of an operation, with the reduction axes last."""
    return all(axis.dom.extent.value % factor == 0 for axis, factor in zip((*op.axis, *op.reduce_axis), factors))


@dataclass(frozen=True)
class Tiles:
    """The tiling of the spatial loops of a stage: the split step of each, or None for a loop that is not split, which
    is inside (``inner``) or outside all tiles."""

    splits: tuple[int | None, ...]
    inner: tuple[bool, ...]

    @property
    def steps(self) -> list[int]:
        return [step for step in self.splits if step is not None]

    @property
    def outer_loops(self) -> int:
        """Return the loops that are not split and are outside all tiles."""
        return sum(step is None and not inner for step, inner in zip(self.splits, self.inner))


def tile(
    state: State,
    stage_id: int,
    structure: str,
    fixed: Mapping[str, int] | None = None,
    outer: frozenset[str] = frozenset(),
) -> Tiles:
    """Tile a stage: split its loops into levels, whose lengths are chosen later, ordered by ``structure``, in which S
    is a level of spatial loops and R a level of reduction loops. Axes in ``fixed`` have an additional innermost level
    of that length, in the given order. Axes in ``outer`` are not split and are outside all tiles."""
    fixed = fixed or {}
    stage = state.stages[stage_id]
    inner_only, outer_only = names_in(stage.op, NO_SPLIT_AT_INNER), names_in(stage.op, NO_SPLIT_AT_OUTER) | outer
    counts = {kind: structure.count(letter) for letter, kind in _KINDS.items()}
    levels: dict[IteratorKind, list[list[Iterator]]] = {k: [[] for _ in range(n)] for k, n in counts.items()}
    outermost: list[Iterator] = []
    innermost: list[Iterator] = []
    made: dict[str, int] = {}
    computed: dict[str, Iterator] = {}
    for it in stage.iters:
        if it.name in inner_only or it.name in outer_only:
            (innermost if it.name in inner_only else outermost).append(it)
            continue
        lengths = [*[None] * (counts[it.kind] - 1), *([fixed[it.name]] if it.name in fixed else [])]
        parts = state.split(stage_id, it, lengths) if lengths else [it]
        made[it.name] = len(state.transform_steps) - 1
        if it.name in fixed:
            computed[it.name] = parts[-1]
        for level, part in zip(levels[it.kind], parts):
            level.append(part)
    ordered = [it for letter in structure for it in levels[_KINDS[letter]].pop(0)]
    state.reorder(stage_id, [*outermost, *ordered, *innermost, *(computed[name] for name in fixed)])
    names = [it.name for it in stage.iters if it.kind is IteratorKind.SPATIAL]
    return Tiles(tuple(made.get(name) for name in names), tuple(name in inner_only for name in names))


_KINDS = {"S": IteratorKind.SPATIAL, "R": IteratorKind.REDUCTION}


def follow_tiles(state: State, stage_id: int, tiles: Tiles, level: int) -> Iterator:
    """Split the loops of a stage by follow-split steps after those of ``tiles`` at the outer ``level`` levels, and
    order them by level. Return the innermost loop of the last of these levels."""
    iters, outermost, innermost, parts = state.stages[stage_id].iters, [], [], []
    for it, step, is_inner in zip(iters, tiles.splits, tiles.inner):
        if step is None:
            (innermost if is_inner else outermost).append(it)
        else:
            parts.append(state.follow_split(stage_id, it, step, level))
    state.reorder(stage_id, [*outermost, *(it for one in zip(*parts) for it in one), *innermost])
    return state.stages[stage_id].iters[len(outermost) + level * len(parts) - 1]


def row_lengths(stage: Stage) -> list[int]:
    """Return the lengths of the last axes of a tiled stage, the last one first, as far as its innermost loops are parts
    of them in order. A loop over a whole axis and the loop around it access contiguous memory together."""
    found = []
    for it, axis in zip(reversed(stage.iters), reversed(stage.op.axis)):
        if it.name.rpartition(".")[0] != axis.var.name:
            break
        found.append(length_of(axis))
    return found


def fuse_reduction(state: State, stage_id: int) -> tuple[Iterator, int]:
    """Fuse the reduction loops. Return the fused loop, and the number of spatial loops."""
    iters = state.stages[stage_id].iters
    over = [it for it in iters if it.kind is IteratorKind.REDUCTION]
    space = len(iters) - len(over)
    return (over[0] if len(over) == 1 else state.fuse(stage_id, over)), space


__all__ = [
    "Tiles",
    "divides",
    "divisors",
    "factorizations",
    "follow_tiles",
    "fuse_reduction",
    "names_in",
    "row_lengths",
    "tile",
]
