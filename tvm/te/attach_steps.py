"""Steps that set where a stage is computed: compute_at, compute_inline and compute_root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.prim import IterVar
from .attributes import AttachType
from .steps import AxisRef, StageRef, StageStep, primitive
from .tensor import ComputeOp

if TYPE_CHECKING:
    from .stage import Stage


def _refuse_scan_update(stage: Stage, kind: str) -> None:
    if stage.attach_type == AttachType.SCAN_UPDATE:
        stage.refuse(kind, "the scan computes its update; it cannot be moved")


def _check_compute_at(stage: Stage, parent: Stage, loop: IterVar) -> None:
    stage.require_compute("compute_at")
    if stage.is_output:
        stage.refuse("compute_at", "it is an output of the program; outputs are computed at the root")
    if parent is stage:
        stage.refuse("compute_at", "a stage cannot be computed inside itself")
    if loop not in parent.leaf_iter_vars:
        loops = parent.loop_names()
        stage.refuse("compute_at", f"{loop.var.name} is not a loop of stage {parent.name}; its loops are {loops}")
    _refuse_scan_update(stage, "compute_at")
    if stage in parent.computed_inside():
        stage.refuse("compute_at", f"stage {parent.name} is itself computed inside {stage.name}")
    if not stage.schedule.reaches(stage, parent):
        stage.refuse("compute_at", f"stage {parent.name} does not use it, directly or through other stages")


@primitive("compute_at")
class ComputeAtStep(StageStep):
    """Compute the part of a stage that ``parent`` needs inside the loop ``axis`` of ``parent``."""

    stage: int
    parent: StageRef
    axis: AxisRef

    def change(self, stage: Stage) -> None:
        parent = stage.schedule.stage_by_uid(self.parent.stage)
        loop = parent.axis(self.axis, "compute_at")
        for member in stage.moved_with():
            _check_compute_at(member, parent, loop)
        stage.attach_type, stage.attach_stage, stage.attach_ivar = AttachType.SCOPE, parent, loop


@primitive("compute_inline")
class ComputeInlineStep(StageStep):
    """Compute every element of a stage where it is used."""

    stage: int

    def change(self, stage: Stage) -> None:
        stage.require_compute("compute_inline")
        if not isinstance(stage.op, ComputeOp):
            stage.refuse(
                "compute_inline", f"only a compute operation can be inlined; this is {type(stage.op).__name__}"
            )
        if stage.op.reduce_axis:
            stage.refuse("compute_inline", "it is a reduction")
        if stage.is_output:
            stage.refuse("compute_inline", "it is an output of the program")
        _refuse_scan_update(stage, "compute_inline")
        stage.attach_type, stage.attach_stage, stage.attach_ivar = AttachType.INLINE, None, None


@primitive("compute_root")
class ComputeRootStep(StageStep):
    """Compute the whole stage before its users."""

    stage: int

    def change(self, stage: Stage) -> None:
        stage.require_compute("compute_root")
        _refuse_scan_update(stage, "compute_root")
        stage.attach_type, stage.attach_stage, stage.attach_ivar = AttachType.GROUP_ROOT, None, None
