"""Steps that add operations to the program: cache reads, cache writes, rfactor and pad.

The new operations are obtained by replaying the steps so far on a te schedule.
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

# Number of stages that pad adds: both operands and the sum.
PADDED_STAGES = 3


def _check_stage(step: TransformStep, state: StateObject, stage_id: int) -> None:
    if not 0 <= stage_id < len(state.stages):
        step.refuse(f"stage number {stage_id} is out of range; there are {len(state.stages)} stages")


@step("CHR")
class CacheReadStep(TransformStep):
    """Cache read: a copy of the output of a stage in ``scope_name`` that some of its consumers read; the stage of
    the copy follows the original one."""

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
    """Cache write: a stage is computed in ``scope_name`` and copied out. The computing stage comes before the
    copying one, whose loops are the plain axes again."""

    changes_ops = takes_loops = True
    stage_id: int
    scope_name: str

    def place_before(self, place: int) -> int | None:
        return place - (place > self.stage_id)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        if state.stages[self.stage_id].compute_at == INLINED:
            self.refuse("an inlined stage has no memory to cache")
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
    """rfactor: split a reduction into two stages. The first computes partial sums for each iteration of one loop, which
    becomes a dimension; the second reduces over that dimension. The stage of the partial sums comes first."""

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
            self.refuse("the spatial loops are already changed; apply rfactor first")
        axis = axes[self.iter_id]
        made = replay.schedule.rfactor(stage.op.output(0), axis, self.factor_iter_id)
        first = made[0] if isinstance(made, (list, tuple)) else made
        replay.insert(self.stage_id, replay.schedule[first])
        replay.refresh(self.stage_id + 1)


@step("PD")
class PadStep(TransformStep):
    """pad: compute a matmul-like reduction over axes padded to multiples of factors, and copy the valid part of its
    output. The stages of both operands, padded with zeros, come first, then that of the sum. Ansor's logs have no such
    step."""

    changes_ops = True
    stage_id: int
    factors: tuple[int, ...]

    def place_before(self, place: int) -> int | None:
        if self.stage_id <= place < self.stage_id + PADDED_STAGES:
            return None
        return place - PADDED_STAGES * (place > self.stage_id)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        ops = dag.replay_ops((*state.transform_steps, self))
        for place in range(self.stage_id, self.stage_id + PADDED_STAGES):
            state = state.with_new_stage(place, Stage.of(ops[place]))
        return state.with_ops(ops).with_fresh_iters(self.stage_id + PADDED_STAGES)

    def schedule(self, replay: Replay) -> None:
        made = replay.schedule.pad(replay.stages[self.stage_id].op.output(0), self.factors)
        for number, tensor in enumerate(made):
            replay.insert(self.stage_id + number, replay.schedule[tensor])
        replay.refresh(self.stage_id + PADDED_STAGES)


__all__ = ["CacheReadStep", "CacheWriteStep", "PADDED_STAGES", "PadStep", "RfactorStep"]
