"""Transfer of decisions between tasks: computations that differ only in their inlined stages have the same loops.

A convolution with a residual and one without are two tasks. Their sketches have the same steps except those that inline
stages, so the other steps, and the stages that have loops, correspond to each other in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from .annotate import Decisions
from .attach_steps import INLINED, ComputeInlineStep
from .loop_steps import SplitStep
from .state import Stage, StateObject
from .steps import TransformStep


@dataclass(frozen=True)
class Relation:
    """The correspondence of two sketches: the numbers of their matching steps and stages."""

    steps: dict[int, int]
    stages: dict[int, int]

    @staticmethod
    def between(theirs: StateObject, ours: StateObject) -> Relation | None:
        """Return the relation between a sketch of another task and one of this task; None if their loops differ."""
        pairs, computed = zip(*(_parts(sketch) for sketch in (theirs, ours)))
        if any(len(a) != len(b) for a, b in (pairs, computed)):
            return None
        for (_, their), (_, our) in zip(*pairs):
            if their.code != our.code or isinstance(their, SplitStep) and their.extent != our.extent:
                return None
        for (_, their), (_, our) in zip(*computed):
            if [it.kind for it in their.iters] != [it.kind for it in our.iters]:
                return None
        return Relation({a: b for (a, _), (b, _) in zip(*pairs)}, {a: b for (a, _), (b, _) in zip(*computed)})

    def translated(self, decisions: Decisions) -> Decisions | None:
        """Convert decisions of the other sketch to decisions of this one; None if one has no counterpart."""
        made: Decisions = {}
        for (kind, number), value in decisions.items():
            numbers = self.steps if kind == "tile" else self.stages
            if number not in numbers or isinstance(value, tuple) and kind == "location" and value[0] not in self.stages:
                return None
            if kind == "location" and isinstance(value, tuple):
                value = (self.stages[value[0]], *value[1:])
            made[kind, numbers[number]] = value
        return made


def _parts(sketch: StateObject) -> tuple[list[tuple[int, TransformStep]], list[tuple[int, Stage]]]:
    """Return the steps that do not inline, and the stages that have loops, with their numbers."""
    steps = [(n, step) for n, step in enumerate(sketch.transform_steps) if not isinstance(step, ComputeInlineStep)]
    stages = [
        (n, stage) for n, stage in enumerate(sketch.stages) if not stage.is_placeholder and stage.compute_at != INLINED
    ]
    return steps, stages


__all__ = ["Relation"]
