"""Steps that annotate loops, or change how the memory of a stage is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..te.operation import thread_axis
from .intrinsics import tensor_intrin
from .iterator import ANNOTATION_NAMES, Annotation
from .steps import TransformStep, step

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .replay import Replay
    from .state import StateObject

AUTO_UNROLL = "auto_unroll_max_step"


@step("AN")
class AnnotationStep(TransformStep):
    """A step that annotates a loop: unrolled, vectorized, bound to threads, ..."""

    stage_id: int
    iter_id: int
    annotation: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        it = state.iterator(self.stage_id, self.iter_id, self)
        if not 0 <= self.annotation < len(Annotation):
            self.refuse(f"unknown annotation number {self.annotation}")
        if it.annotation is not Annotation.NONE:
            self.refuse(f"loop {it.name} already has the annotation {ANNOTATION_NAMES[it.annotation]}")
        iters = list(state.stages[self.stage_id].iters)
        iters[self.iter_id] = replace(it, annotation=Annotation(self.annotation))
        return state.with_iters(self.stage_id, tuple(iters))

    def schedule(self, replay: Replay) -> None:
        stage, axis = replay.stages[self.stage_id], replay.axes[self.stage_id][self.iter_id]
        kind = Annotation(self.annotation)
        if kind in (Annotation.UNROLL, Annotation.VECTORIZE, Annotation.PARALLEL):
            getattr(stage, ANNOTATION_NAMES[kind])(axis)
        elif kind is Annotation.TENSORIZE:
            self.refuse("the annotation tensorize does not name an intrinsic; use the step TZ")
        elif kind is not Annotation.NONE:
            stage.bind(axis, thread_axis(ANNOTATION_NAMES[kind]))


@step("TZ")
class TensorizeStep(TransformStep):
    """A step that replaces a loop and all loops inside it by a tensor intrinsic."""

    stage_id: int
    iter_id: int
    intrinsic: str

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.stage_id, self.iter_id, self)
        iters = state.stages[self.stage_id].iters
        for it in iters[self.iter_id :]:
            if it.annotation is not Annotation.NONE:
                self.refuse(f"loop {it.name} already has the annotation {ANNOTATION_NAMES[it.annotation]}")
        inner = (replace(it, annotation=Annotation.TENSORIZE) for it in iters[self.iter_id :])
        return state.with_iters(self.stage_id, (*iters[: self.iter_id], *inner))

    def schedule(self, replay: Replay) -> None:
        stage, axis = replay.stages[self.stage_id], replay.axes[self.stage_id][self.iter_id]
        stage.tensorize(axis, tensor_intrin(self.intrinsic))


@step("PR")
class PragmaStep(TransformStep):
    """A step that adds a pragma: ``auto_unroll_max_step$64`` unrolls the loops inside a loop up to 64 statements."""

    stage_id: int
    iter_id: int
    pragma_type: str

    def value(self) -> int:
        name, _, value = self.pragma_type.partition("$")
        if name != AUTO_UNROLL or not value.isdecimal():
            self.refuse(f"the only supported pragma is {AUTO_UNROLL}$number, got '{self.pragma_type}'")
        return int(value)

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.stage_id, self.iter_id, self)
        return state.with_stage(self.stage_id, auto_unroll_max_step=self.value())

    def schedule(self, replay: Replay) -> None:
        stage, axis = replay.stages[self.stage_id], replay.axes[self.stage_id][self.iter_id]
        stage.pragma(axis, AUTO_UNROLL, self.value())
        stage.pragma(axis, "unroll_explicit", True)


@step("SA")
class StorageAlignStep(TransformStep):
    """A step that aligns the stride of a dimension to factor * k + offset."""

    stage_id: int
    iter_id: int
    factor: int
    offset: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        state.iterator(self.stage_id, self.iter_id, self)
        return state.with_stage(self.stage_id, storage_factor=self.factor, storage_offset=self.offset)

    def schedule(self, replay: Replay) -> None:
        stage, axis = replay.stages[self.stage_id], replay.axes[self.stage_id][self.iter_id]
        # A loop that is not an axis of the tensor has no stride. Ansor's logs may name such a loop; the step then has
        # no effect.
        if axis in stage.op.axis:
            stage.storage_align(axis, self.factor, self.offset)


@step("DB")
class DoubleBufferStep(TransformStep):
    """A step that double-buffers a stage: some parts of its memory are filled while another one is read."""

    stage_id: int
    buffers: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        if not 0 <= self.stage_id < len(state.stages):
            self.refuse(f"stage number {self.stage_id} is out of range; there are {len(state.stages)} stages")
        if self.buffers < 2:
            self.refuse(f"double buffering needs at least two buffers, got {self.buffers}")
        return state.with_stage(self.stage_id, buffers=self.buffers)

    def schedule(self, replay: Replay) -> None:
        replay.stages[self.stage_id].double_buffer(self.buffers)


__all__ = ["AUTO_UNROLL", "AnnotationStep", "DoubleBufferStep", "PragmaStep", "StorageAlignStep", "TensorizeStep"]
