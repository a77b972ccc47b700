"""Steps that add operations to the program: caches and factored reductions.

What the new operations are is asked of a te schedule: the steps so far are replayed on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.prim import IterVar
from .attach_steps import INLINED
from .state import Stage
from .steps import TransformStep, step

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .replay import Replay
    from .state import StateObject


def _check_stage(step: TransformStep, state: StateObject, stage_id: int) -> None:
    if not 0 <= stage_id < len(state.stages):
        step.refuse(f"there is no stage number {stage_id}; there are {len(state.stages)}")


@step("CHR")
class CacheReadStep(TransformStep):
    """A copy of what a stage makes, in ``scope_name``, that certain readers use; its stage comes after the first."""

    changes_ops = True
    stage_id: int
    scope_name: str
    reader_stage_ids: tuple[int, ...]

    def place_before(self, place: int) -> int | None:
        if place == self.stage_id + 1:
            return None
        return place - (place > self.stage_id)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        for reader in self.reader_stage_ids:
            _check_stage(self, state, reader)
        ops = dag.replay_ops((*state.transform_steps, self))
        return state.with_new_stage(self.stage_id + 1, Stage.of(ops[self.stage_id + 1])).with_ops(ops)

    def schedule(self, replay: Replay) -> None:
        readers = [replay.stages[i].op for i in self.reader_stage_ids]
        cached = replay.stages[self.stage_id].op.output(0)
        made = replay.schedule.cache_read(cached, self.scope_name, readers)
        replay.insert(self.stage_id + 1, replay.schedule[made])


@step("CHW")
class CacheWriteStep(TransformStep):
    """A stage is computed in ``scope_name`` and copied out; the stage that computes comes before the one that
    copies, whose loops are plain again."""

    changes_ops = takes_loops = True
    stage_id: int
    scope_name: str

    def place_before(self, place: int) -> int | None:
        return place - (place > self.stage_id)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        if state.stages[self.stage_id].compute_at == INLINED:
            self.refuse("what is computed where it is used has no memory to cache")
        ops = dag.replay_ops((*state.transform_steps, self))
        state = state.with_new_stage(self.stage_id, Stage.of(ops[self.stage_id])).with_ops(ops)
        return state.with_fresh_iters(self.stage_id + 1)

    def schedule(self, replay: Replay) -> None:
        stage = replay.stages[self.stage_id]
        made = replay.schedule.cache_write(stage.op.outputs, self.scope_name)
        replay.insert(self.stage_id, replay.schedule[made[0]])
        replay.refresh(self.stage_id + 1)


@step("RF")
class RfactorStep(TransformStep):
    """A reduction in two: over one loop kept apart in a new dimension, then over that. The stage of the parts comes
    before the one that adds them up."""

    changes_ops = takes_loops = True
    stage_id: int
    iter_id: int
    factor_iter_id: int

    def place_before(self, place: int) -> int | None:
        return place - (place > self.stage_id)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.stage_id, self.iter_id, self)
        ops = dag.replay_ops((*state.transform_steps, self))
        state = state.with_new_stage(self.stage_id, Stage.of(ops[self.stage_id])).with_ops(ops)
        return state.with_fresh_iters(self.stage_id + 1)

    def schedule(self, replay: Replay) -> None:
        stage, axes = replay.stages[self.stage_id], replay.axes[self.stage_id]
        if [a for a in axes if a.iter_type == IterVar.DataPar] != list(stage.op.axis):
            self.refuse("the loops over elements are changed; rfactor comes before that")
        axis = axes[self.iter_id]
        made = replay.schedule.rfactor(stage.op.output(0), axis, self.factor_iter_id)
        first = made[0] if isinstance(made, (list, tuple)) else made
        replay.insert(self.stage_id, replay.schedule[first])
        replay.refresh(self.stage_id + 1)


__all__ = ["CacheReadStep", "CacheWriteStep", "RfactorStep"]
