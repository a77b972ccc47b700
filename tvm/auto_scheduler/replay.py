"""Steps carried out on a te schedule."""

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
    """A te schedule while steps are carried out: its stages and their loops by the places that steps use."""

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
                step.refuse(f"there is no stage number {step.stage_id}; there are {len(self.stages)}")
            step.schedule(self)
            self.steps.append(step)
        return self

    def insert(self, place: int, stage: Stage) -> None:
        """A stage that a step made."""
        self.stages.insert(place, stage)
        self.axes.insert(place, _axes(stage))

    def refresh(self, place: int) -> None:
        """The loops of a stage whose operation is another one after a step."""
        self.axes[place] = _axes(self.stages[place])


def steps_that_make_ops(steps: Sequence[TransformStep]) -> tuple[TransformStep, ...]:
    """Those of the steps that decide what the operations are: the ones that add operations, and changes of loops
    before a step that takes these loops over."""
    kept: list[TransformStep] = []
    # The stages, by their places at this step, whose loops a later step takes over.
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
