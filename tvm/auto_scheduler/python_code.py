"""Python code that reproduces a te schedule.

It runs if ``s`` is the initial schedule, ``te`` is imported, and each operation is bound to the name of its tensor (or
of the list of its tensors, if there are several).
"""

from __future__ import annotations

import keyword
import re
from typing import Any

from ..ir.prim import IntImm, IterVar
from ..te.annotation_steps import BindStep, DoubleBufferStep, PragmaStep, StorageAlignStep, TensorizeStep
from ..te.attach_steps import ComputeAtStep
from ..te.dataflow import CacheReadStep, CacheWriteStep, RfactorStep
from ..te.loop_steps import FuseStep, ReorderStep, SplitStep
from ..te.pad import PadStep
from ..te.schedule import Schedule, Stage, create_schedule
from ..te.steps import Step, apply
from ..te.tensor import PlaceholderOp


def python_code(schedule: Schedule) -> str:
    """Return the steps of a schedule as calls."""
    writer = _Writer(create_schedule(schedule.first_outputs))
    for step in schedule.steps:
        writer.write(step)
    return "".join(f"{line}\n" for line in writer.lines)


class _Writer:
    """Names of tensors and axes, determined while the steps are applied to another schedule."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.lines: list[str] = []
        self.taken: set[str] = {"s", "te"}
        self.tensors: dict[int, str] = {}
        self.axes: dict[IterVar, str] = {}
        for stage in schedule.stages:
            self.name_tensor(stage)
        for stage in schedule.stages:
            if not isinstance(stage.op, PlaceholderOp):
                self.name_axes(stage)

    # -- names -----------------------------------------------------------------------------------------------------

    def fresh(self, text: str) -> str:
        name = re.sub(r"\W", "_", text)
        name = f"_{name}" if not name or name[0].isdigit() or keyword.iskeyword(name) else name
        made, number = name, 0
        while made in self.taken:
            number += 1
            made = f"{name}_{number}"
        self.taken.add(made)
        return made

    def name_tensor(self, stage: Stage) -> str:
        name = self.tensors[stage.uid] = self.fresh(stage.op.name)
        return name

    def name_axes(self, stage: Stage) -> None:
        """Name the axes of an operation, and assign the names in the text."""
        axes = [*stage.op.axis, *stage.op.reduce_axis]
        for axis in axes:
            if axis not in self.axes:
                self.axes[axis] = self.fresh(f"{self.tensors[stage.uid]}_{axis.var.name}")
        if axes:
            name = self.op(stage)
            names = "".join(f"{self.axes[axis]}, " for axis in axes)
            self.lines.append(f"{names}= tuple({name}.axis) + tuple({name}.reduce_axis)")

    def op(self, stage: Stage) -> str:
        """Return the current operation of a stage: a step may have replaced it."""
        return f"{self.stage(stage.uid)}.op"

    def first(self, uid: int) -> str:
        name = self.tensors[uid]
        return name if self.schedule.stage_by_uid(uid).op.num_outputs == 1 else f"{name}[0]"

    def stage(self, uid: int) -> str:
        return f"s[{self.first(uid)}]"

    def axis(self, ref: Any) -> str:
        return self.axes[self.schedule.stage_by_uid(ref.stage).all_iter_vars[ref.index]]

    def axis_made(self, stage: int, axis: IterVar) -> str:
        self.axes[axis] = name = self.fresh(f"{self.tensors[stage]}_{axis.var.name}")
        return name

    # -- steps -----------------------------------------------------------------------------------------------------

    def write(self, step: Step) -> None:
        writer = _WRITERS.get(type(step))
        if writer is not None:
            writer(self, step)
            return
        # The remaining steps are calls of a stage with one axis or none.
        axes = ", ".join(self.axis(arg) for arg in step.args)
        apply(self.schedule, step)
        self.lines.append(f"{self.stage(step.stage)}.{step.kind}({axes})")

    def split(self, step: SplitStep) -> None:
        parent = self.axis(step.axis)
        how = f"factor={step.factor}" if step.factor is not None else f"nparts={step.nparts}"
        outer, inner = (self.axis_made(step.stage, axis) for axis in apply(self.schedule, step))
        self.lines.append(f"{outer}, {inner} = {self.stage(step.stage)}.split({parent}, {how})")

    def fuse(self, step: FuseStep) -> None:
        parts = ", ".join(self.axis(axis) for axis in step.axes)
        fused = self.axis_made(step.stage, apply(self.schedule, step))
        self.lines.append(f"{fused} = {self.stage(step.stage)}.fuse({parts})")

    def reorder(self, step: ReorderStep) -> None:
        apply(self.schedule, step)
        self.lines.append(f"{self.stage(step.stage)}.reorder({', '.join(self.axis(axis) for axis in step.axes)})")

    def bind(self, step: BindStep) -> None:
        apply(self.schedule, step)
        thread = f'te.thread_axis("{step.thread.thread_tag}")'
        self.lines.append(f"{self.stage(step.stage)}.bind({self.axis(step.axis)}, {thread})")

    def tensorize(self, step: TensorizeStep) -> None:
        apply(self.schedule, step)
        self.lines.append("from tvm.auto_scheduler.intrinsics import tensor_intrin")
        intrinsic = f"tensor_intrin({step.intrin.name!r})"
        self.lines.append(f"{self.stage(step.stage)}.tensorize({self.axis(step.axis)}, {intrinsic})")

    def pragma(self, step: PragmaStep) -> None:
        apply(self.schedule, step)
        value = step.value.value if isinstance(step.value, IntImm) else step.value
        self.lines.append(f"{self.stage(step.stage)}.pragma({self.axis(step.axis)}, {step.key!r}, {value!r})")

    def storage_align(self, step: StorageAlignStep) -> None:
        apply(self.schedule, step)
        where = f"{self.axis(step.axis)}, {step.factor}, {step.offset}"
        self.lines.append(f"{self.stage(step.stage)}.storage_align({where})")

    def double_buffer(self, step: DoubleBufferStep) -> None:
        apply(self.schedule, step)
        self.lines.append(f"{self.stage(step.stage)}.double_buffer({int(step.stages)})")

    def compute_at(self, step: ComputeAtStep) -> None:
        apply(self.schedule, step)
        where = f"{self.stage(step.parent.stage)}, {self.axis(step.axis)}"
        self.lines.append(f"{self.stage(step.stage)}.compute_at({where})")

    # -- steps that make tensors -----------------------------------------------------------------------------------

    def cache_read(self, step: CacheReadStep) -> None:
        readers = ", ".join(f"{self.stage(reader.stage)}.op" for reader in step.readers)
        stage = self.schedule.stage_by_uid(step.tensor.stage)
        source = f"{self.op(stage)}.output({step.tensor.index})"
        made = self.schedule[apply(self.schedule, step)]
        self.lines.append(f"{self.name_tensor(made)} = s.cache_read({source}, {step.scope!r}, [{readers}])")
        self.name_axes(made)

    def cache_write(self, step: CacheWriteStep) -> None:
        tensors = step.tensor if isinstance(step.tensor, list) or not hasattr(step.tensor, "stage") else (step.tensor,)
        stage = self.schedule.stage_by_uid(tensors[0].stage)
        source = f"{self.op(stage)}.outputs"
        result = apply(self.schedule, step)
        made = self.schedule[result[0] if isinstance(result, (list, tuple)) else result]
        name, only = self.name_tensor(made), made.op.num_outputs == 1
        self.lines.append(f"{name}{',' if only else ''} = s.cache_write({source}, {step.scope!r})")
        self.name_axes(made)
        self.name_axes(stage)

    def rfactor(self, step: RfactorStep) -> None:
        stage = self.schedule.stage_by_uid(step.tensor.stage)
        source, axis = f"{self.op(stage)}.output({step.tensor.index})", self.axis(step.axis)
        result = apply(self.schedule, step)
        made = self.schedule[result[0] if isinstance(result, (list, tuple)) else result]
        self.lines.append(f"{self.name_tensor(made)} = s.rfactor({source}, {axis}, {step.factor_axis})")
        self.name_axes(made)
        self.name_axes(stage)

    def pad(self, step: PadStep) -> None:
        stage = self.schedule.stage_by_uid(step.tensor.stage)
        source = f"{self.op(stage)}.output({step.tensor.index})"
        made = [self.schedule[tensor] for tensor in apply(self.schedule, step)]
        names = ", ".join([self.name_tensor(one) for one in made])
        self.lines.append(f"{names} = s.pad({source}, {list(step.factors)})")
        for one in (*made, stage):
            self.name_axes(one)


_WRITERS: dict[type[Step], Any] = {
    BindStep: _Writer.bind,
    CacheReadStep: _Writer.cache_read,
    CacheWriteStep: _Writer.cache_write,
    ComputeAtStep: _Writer.compute_at,
    DoubleBufferStep: _Writer.double_buffer,
    FuseStep: _Writer.fuse,
    PadStep: _Writer.pad,
    PragmaStep: _Writer.pragma,
    ReorderStep: _Writer.reorder,
    RfactorStep: _Writer.rfactor,
    SplitStep: _Writer.split,
    StorageAlignStep: _Writer.storage_align,
    TensorizeStep: _Writer.tensorize,
}


__all__ = ["python_code"]
