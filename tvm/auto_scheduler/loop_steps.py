"""Steps that change the loops of a stage: split, fuse and reorder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .iterator import Iterator, IteratorKind
from .steps import TransformStep, step

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .replay import Replay
    from .state import StateObject


@dataclass(frozen=True)
class Open:
    """A length that differs between the states of a skeleton: the product of split lengths, each given by a step number
    and an index into its lengths, and the constant ``times``."""

    factors: tuple[tuple[int, int], ...]
    times: int = 1

    def __mul__(self, other: int | Open) -> Open:
        if isinstance(other, Open):
            return Open((*self.factors, *other.factors), self.times * other.times)
        return Open(self.factors, self.times * other)

    __rmul__ = __mul__


Lengths = Sequence["int | Open | None"]


def split_iterators(it: Iterator, lengths: Lengths, inner_to_outer: bool) -> tuple[Iterator, ...]:
    """Return the iterators of a split. ``lengths`` are those of the inner loops, and the outermost loop gets the
    remaining extent; without ``inner_to_outer`` they are those of the outer loops, and the innermost loop gets the
    remaining extent. Iterators have no extents if a length is not chosen yet."""
    rest, low = it.extent, it.min
    parts: list[tuple[int, int] | None] = []
    for length in reversed(lengths) if inner_to_outer else lengths:
        if not isinstance(length, int) or rest is None:
            rest = None
            parts.append(None)
        else:
            parts.append((low, length))
            low, rest = 0, -(-rest // length)
    parts.append(None if rest is None else (low, rest))
    if inner_to_outer:
        parts.reverse()
    # The remaining loop of a requested length has a known length too.
    is_known = isinstance(it.asked, int) and all(isinstance(length, int) for length in lengths)
    left = -(-it.asked // math.prod(lengths)) if is_known else None  # type: ignore[operator, arg-type]
    asked = (left, *lengths) if inner_to_outer else (*lengths, left)
    # A loop that is at least as long as the fused loops covers all of them, like threads that outnumber the work.
    most = math.prod(part.asked if isinstance(part.asked, int) else math.inf for part in it.orig_iters)
    whole = it.orig_iters if inner_to_outer and isinstance(lengths[-1], int) and most <= lengths[-1] else ()
    return tuple(
        Iterator(
            f"{it.name}.{place}",
            *(part or (0, None)),
            kind=it.kind,
            asked=length,
            orig_iters=whole if place == len(lengths) else (),
        )
        for place, (part, length) in enumerate(zip(parts, asked))
    )


def _split_state(step: Any, state: StateObject, lengths: Lengths, inner_to_outer: bool) -> StateObject:
    it = state.iterator(step.stage_id, step.iter_id, step)
    if not lengths or any(isinstance(length, int) and length < 1 for length in lengths):
        step.refuse(f"a split needs at least one length, and each must be at least 1, got {list(lengths)}")
    parts, place = split_iterators(it, lengths, inner_to_outer), step.iter_id
    iters = state.stages[step.stage_id].iters
    return state.with_iters(
        step.stage_id, (*iters[:place], *parts, *iters[place + 1 :]), lambda i: i if i < place else i + len(lengths)
    )


def _split_schedule(step: Any, replay: Replay, lengths: Lengths, inner_to_outer: bool) -> None:
    if any(length is None for length in lengths):
        step.refuse("a length is unknown; annotate the sketch before applying it")
    stage, axes = replay.stages[step.stage_id], replay.axes[step.stage_id]
    rest, made = axes[step.iter_id], []
    for length in reversed(lengths) if inner_to_outer else lengths:
        if inner_to_outer:
            rest, part = stage.split(rest, factor=length)
        else:
            part, rest = stage.split(rest, nparts=length)
        made.append(part)
    made.append(rest)
    axes[step.iter_id : step.iter_id + 1] = reversed(made) if inner_to_outer else made


@step("SP")
class SplitStep(TransformStep):
    """Split: for i in n  ->  for i.0: for i.1 in lengths[0]: for i.2 in lengths[1]: ... ; without ``inner_to_outer``
    the lengths are those of i.0, i.1, ... and the innermost loop gets the remaining extent."""

    changes_loops = True
    stage_id: int
    iter_id: int
    extent: int | None
    lengths: tuple[int | None, ...]
    inner_to_outer: bool = True

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        return _split_state(self, state, self.lengths, self.inner_to_outer)

    def schedule(self, replay: Replay) -> None:
        _split_schedule(self, replay, self.lengths, self.inner_to_outer)

    def to_json(self) -> list[Any]:
        if any(length is None for length in self.lengths):
            self.refuse("a length is unknown; only states with known lengths can be written")
        return [self.code, self.stage_id, self.iter_id, self.extent or 0, list(self.lengths), int(self.inner_to_outer)]


def _source(step: Any, steps: Sequence[TransformStep], number: int) -> SplitStep:
    """Return the split that a follow-split step refers to."""
    source = steps[number] if 0 <= number < len(steps) else None
    if not isinstance(source, SplitStep):
        step.refuse(f"step {number} is not an earlier split")
    return source


@step("FSP")
class FollowSplitStep(TransformStep):
    """Follow-split: a split with the lengths of an earlier one. Its first ``n_split`` - 1 lengths are the same, and its
    last is the product of the others."""

    changes_loops = True
    stage_id: int
    iter_id: int
    src_step_id: int
    n_split: int

    def lengths(self, steps: Sequence[TransformStep]) -> tuple[int | None, ...]:
        lengths = _source(self, steps, self.src_step_id).lengths
        if not 1 <= self.n_split <= len(lengths) + 1:
            self.refuse(
                f"n_split must be 1 to {len(lengths) + 1} to follow a split into {len(lengths) + 1} parts, "
                f"got {self.n_split}"
            )
        first, rest = lengths[: self.n_split - 1], lengths[self.n_split - 1 :]
        return (*first, None if None in rest else math.prod(rest))  # type: ignore[arg-type]

    def alone(self, before: Sequence[TransformStep]) -> SplitStep:
        return SplitStep(self.stage_id, self.iter_id, None, self.lengths(before), True)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        return _split_state(self, state, self.lengths(state.transform_steps), True)

    def schedule(self, replay: Replay) -> None:
        _split_schedule(self, replay, self.lengths(replay.steps), True)


@step("FFSP")
class FollowFusedSplitStep(TransformStep):
    """Follow-fused-split: a split that follows several earlier ones whose loops at ``level`` were fused; its length is
    the product of theirs."""

    changes_loops = True
    stage_id: int
    iter_id: int
    src_step_ids: tuple[int, ...]
    level: int
    factor_or_nparts: bool

    def lengths(self, steps: Sequence[TransformStep]) -> tuple[int | None, ...]:
        found = []
        for number in self.src_step_ids:
            lengths = _source(self, steps, number).lengths
            if not 0 <= self.level < len(lengths):
                self.refuse(f"step {number} has no length at level {self.level}")
            found.append(lengths[self.level])
        return (None if None in found else math.prod(found),)  # type: ignore[arg-type]

    def alone(self, before: Sequence[TransformStep]) -> SplitStep:
        return SplitStep(self.stage_id, self.iter_id, None, self.lengths(before), self.factor_or_nparts)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        return _split_state(self, state, self.lengths(state.transform_steps), self.factor_or_nparts)

    def schedule(self, replay: Replay) -> None:
        _split_schedule(self, replay, self.lengths(replay.steps), self.factor_or_nparts)


@step("FU")
class FuseStep(TransformStep):
    """Fuse adjacent loops into one. Fusing no loops creates a loop of a single iteration."""

    changes_loops = True
    stage_id: int
    fused_ids: tuple[int, ...]

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        ids = self.fused_ids
        parts = [state.iterator(self.stage_id, i, self) for i in ids]
        iters = state.stages[self.stage_id].iters
        if not ids:
            made = Iterator("", 0, 1, IteratorKind.SPECIAL)
            return state.with_iters(self.stage_id, (made, *iters), lambda i: i + 1)
        first, last = ids[0], ids[-1]
        if list(ids) != list(range(first, last + 1)):
            self.refuse(f"the loops {list(ids)} are not adjacent in this order")
        for i in ids[:-1]:
            if state.attached_to(self.stage_id, i):
                self.refuse(f"a stage is computed inside loop {i}, which is not the innermost of the fused loops")
        extent = None if any(it.extent is None for it in parts) else math.prod(it.extent for it in parts)
        kind = parts[0].kind if len({it.kind for it in parts}) == 1 else IteratorKind.MIXED
        made = Iterator("".join(f"{it.name}@" for it in parts), 0, extent, kind, orig_iters=tuple(parts))
        return state.with_iters(
            self.stage_id,
            (*iters[:first], made, *iters[last + 1 :]),
            lambda i: i if i < first else first if i <= last else i - (last - first),
        )

    def schedule(self, replay: Replay) -> None:
        axes = replay.axes[self.stage_id]
        first = self.fused_ids[0] if self.fused_ids else 0
        fused = replay.stages[self.stage_id].fuse(*(axes[i] for i in self.fused_ids))
        axes[first : first + len(self.fused_ids)] = [fused]


@step("RE")
class ReorderStep(TransformStep):
    """Reorder all loops of a stage."""

    changes_loops = True
    stage_id: int
    after_ids: tuple[int, ...]

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        iters = state.stages[self.stage_id].iters
        if sorted(self.after_ids) != list(range(len(iters))):
            self.refuse(f"the order must contain each of the {len(iters)} loops once, got {list(self.after_ids)}")
        places = {old: new for new, old in enumerate(self.after_ids)}
        return state.with_iters(self.stage_id, tuple(iters[i] for i in self.after_ids), places.__getitem__)

    def schedule(self, replay: Replay) -> None:
        axes = replay.axes[self.stage_id]
        axes[:] = [axes[i] for i in self.after_ids]
        if axes:
            replay.stages[self.stage_id].reorder(*axes)


__all__ = ["FollowFusedSplitStep", "FollowSplitStep", "FuseStep", "Open", "ReorderStep", "SplitStep", "split_iterators"]
