"""Replay of steps on a te schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..ir.prim import IterVar
from ..te.schedule import create_schedule
from ..te.stage import Stage
from ..te.tensor import Operation, PlaceholderOp

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .layout_rewrite import Rewritten
    from .steps import TransformStep


class Replay:
    """A te schedule during replay, with its stages and loops in the numbering that steps use."""

    def __init__(self, dag: ComputeDAG | Rewritten):
        self.schedule = create_schedule(dag.output_ops)
        self.stages: list[Stage] = [self.schedule[op] for op in dag.ops]
        self.axes: list[list[IterVar]] = [_axes(stage) for stage in self.stages]
        self.steps: list[TransformStep] = []

    @property
    def ops(self) -> tuple[Operation, ...]:
        return tuple(stage.op for stage in self.stages)

    def run(self, steps: Iterable[TransformStep]) -> Replay:
        for step in steps:
            if not 0 <= step.stage_id < len(self.stages):
                step.refuse(f"stage number {step.stage_id} is out of range; there are {len(self.stages)} stages")
            step.schedule(self)
            self.steps.append(step)
        return self

    def insert(self, place: int, stage: Stage) -> None:
        """Insert a stage that a step has created."""
        self.stages.insert(place, stage)
        self.axes.insert(place, _axes(stage))

    def refresh(self, place: int) -> None:
        """Update the loops of a stage whose operation a step has replaced."""
        self.axes[place] = _axes(self.stages[place])


def steps_that_make_ops(steps: Sequence[TransformStep]) -> tuple[TransformStep, ...]:
    """Return the steps that determine the operations: those that add operations, and loop changes that a later step
    converts to axes of an operation."""
    kept: list[TransformStep] = []
    # The stages, by their numbers at this step, whose loops a later step converts to axes.
    wanted: set[int] = set()
    for number in reversed(range(len(steps))):
        step = steps[number]
        if step.changes_ops:
            wanted = {place for place in (step.place_before(place) for place in wanted) if place is not None}
            if step.takes_loops:
                wanted.add(step.stage_id)
            kept.append(step)
        elif step.changes_loops and step.stage_id in wanted:
            kept.append(step.alone(steps[:number]))
    return tuple(reversed(kept))


def _axes(stage: Stage) -> list[IterVar]:
    op = stage.op
    return [] if isinstance(op, PlaceholderOp) else [*op.axis, *op.reduce_axis]


__all__ = ["Replay", "steps_that_make_ops"]
