"""Steps that say where a stage is computed."""

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
    """How much of a stage is computed inside of another one's loops takes bound inference to know."""
    iters = tuple(replace(it, min=0, extent=None) for it in state.stages[stage_id].iters)
    return state.with_iters(stage_id, iters)


@step("CA")
class ComputeAtStep(TransformStep):
    """What another stage needs is computed inside one of its loops."""

    stage_id: int
    target_stage_id: int
    target_iter_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.target_stage_id, self.target_iter_id, self)
        if self.stage_id == self.target_stage_id:
            self.refuse("a stage cannot be computed inside itself")
        state = _without_extents(state, self.stage_id)
        return state.with_stage(
            self.stage_id, compute_at=ITER, attach=(self.target_stage_id, self.target_iter_id))

    def schedule(self, replay: Replay) -> None:
        target, axis = replay.stages[self.target_stage_id], replay.axes[self.target_stage_id][self.target_iter_id]
        replay.stages[self.stage_id].compute_at(target, axis)


@step("CI")
class ComputeInlineStep(TransformStep):
    """Every element is computed where it is used."""

    stage_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        if any(it.kind is IteratorKind.REDUCTION for it in state.stages[self.stage_id].iters):
            self.refuse("a reduction cannot be computed where it is used")
        return state.with_stage(self.stage_id, compute_at=INLINED, attach=None)

    def schedule(self, replay: Replay) -> None:
        replay.stages[self.stage_id].compute_inline()


@step("CR")
class ComputeRootStep(TransformStep):
    """The whole of a stage is computed before its users."""

    stage_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state = _without_extents(state, self.stage_id)
        return state.with_stage(self.stage_id, compute_at=ROOT, attach=None)

    def schedule(self, replay: Replay) -> None:
        replay.stages[self.stage_id].compute_root()


__all__ = ["ComputeAtStep", "ComputeInlineStep", "ComputeRootStep", "INLINED", "ITER", "ROOT"]
