"""Steps that set the compute location of a stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .iterator import IteratorKind
from .steps import TransformStep, step

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .replay import Replay
    from .state import StateObject

ROOT, INLINED, ITER = 0, 1, 2


def _without_extents(state: StateObject, stage_id: int) -> StateObject:
    """Return the stage without the extents of its loops: inside another stage, they depend on bound inference."""
    iters = tuple(replace(it, min=0, extent=None) for it in state.stages[stage_id].iters)
    return state.with_iters(stage_id, iters)


@step("CA")
class ComputeAtStep(TransformStep):
    """A step that computes a stage inside a loop of another stage."""

    stage_id: int
    target_stage_id: int
    target_iter_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.target_stage_id, self.target_iter_id, self)
        if self.stage_id == self.target_stage_id:
            self.refuse("cannot compute a stage inside itself")
        state = _without_extents(state, self.stage_id)
        return state.with_stage(self.stage_id, compute_at=ITER, attach=(self.target_stage_id, self.target_iter_id))

    def schedule(self, replay: Replay) -> None:
        target, axis = replay.stages[self.target_stage_id], replay.axes[self.target_stage_id][self.target_iter_id]
        replay.stages[self.stage_id].compute_at(target, axis)


@step("CI")
class ComputeInlineStep(TransformStep):
    """A step that inlines a stage: every element is computed where it is used."""

    stage_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        if any(it.kind is IteratorKind.REDUCTION for it in state.stages[self.stage_id].iters):
            self.refuse("a reduction cannot be inlined")
        return state.with_stage(self.stage_id, compute_at=INLINED, attach=None)

    def schedule(self, replay: Replay) -> None:
        replay.stages[self.stage_id].compute_inline()


@step("CR")
class ComputeRootStep(TransformStep):
    """A step that computes a whole stage before its consumers."""

    stage_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state = _without_extents(state, self.stage_id)
        return state.with_stage(self.stage_id, compute_at=ROOT, attach=None)

    def schedule(self, replay: Replay) -> None:
        replay.stages[self.stage_id].compute_root()


__all__ = ["ComputeAtStep", "ComputeInlineStep", "ComputeRootStep", "INLINED", "ITER", "ROOT"]
