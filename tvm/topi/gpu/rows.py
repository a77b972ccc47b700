"""Kernels that work row by row on a GPU: softmax, layer normalization, and whatever else is made of reductions over
rows and element-by-element steps on the same rows.

One block of threads does all of a row, or one thread does where rows are short or do not run along memory. The results
of the reductions stay with the threads; steps between them are computed again where they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.prim import IterVar, PrimExpr
from ...te.operation import thread_axis
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp
from ..cpu import access

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

# Rows shorter than this are done by one thread each.
SHORT_ROW = 16
# Reductions and steps in one kernel at most.
MOST_STEPS = 24


def plan(planner: Planner) -> bool:
    """Schedule everything row by row if that is what it is; says whether it was. Where it was not, nothing but the
    inlining of steps is changed, and the caller begins anew."""
    s = planner.s
    stages = [x for x in s.stages if not x.op.input_tensors == [] or x.is_output]
    stages = [x for x in stages if isinstance(x.op, ComputeOp)]
    if len(stages) > MOST_STEPS or any(not isinstance(x.op, ComputeOp) for x in s.stages if x.op.input_tensors):
        return False
    outputs = [x for x in s.stages if x.is_output]
    if len(outputs) != 1 or outputs[0].op.reduce_axis or not any(x.op.reduce_axis for x in stages):
        return False
    last = outputs[0]
    if any(x.op.num_outputs != 1 for x in stages) or any(access.extent_of(a) in (0, None) for a in last.op.axis):
        return False
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and not stage.is_output and not stage.op.reduce_axis:
            stage.compute_inline()
    members = [x for x in s.stages if isinstance(x.op, ComputeOp) and x.op.reduce_axis]
    lead = _lead(s.normalize(), last, members)
    if lead is None:
        return False
    along = [i for i in range(len(last.op.axis)) if i not in lead]
    if not along:
        return False
    _schedule(planner, last, members, lead, along)
    return True


def _lead(plain: Schedule, last: Stage, members: list[Stage]) -> list[int] | None:
    """The dimensions of the output that say which row it is, if all reductions are of that row."""
    ops = {plain.stage_map[m.op].op if m.op in plain.stage_map else None for m in members}
    twins = [x for x in plain.stages if isinstance(x.op, ComputeOp)]
    end = next((x.op for x in twins if x.is_output), None)
    if end is None or None in ops or len(ops) != len(members):
        return None
    lead: list[int] | None = None
    for twin in twins:
        for load in access.loads(twin.op.body):
            if load.producer.op not in ops:
                continue
            places = _places(load.indices, load.producer.op, twin.op)
            if places is None:
                return None
            if twin.op is not end:
                if places != [i for i, a in enumerate(twin.op.axis) if access.extent_of(a) != 1]:
                    return None
            elif lead is None:
                lead = places
            elif lead != places:
                return None
    if lead is None:
        return None
    sizes = [access.extent_of(end.axis[i]) for i in lead]
    for op in ops:
        if op is None or [access.extent_of(a) for a in op.axis if access.extent_of(a) != 1] != sizes:
            return None
    return lead


def _places(indices: tuple[PrimExpr, ...], producer: ComputeOp, reader: ComputeOp) -> list[int] | None:
    """Which axis of the reader each index is, those of dimensions of one element left out; None if one is no axis."""
    found: list[int] = []
    for index, own in zip(indices, producer.axis):
        if access.extent_of(own) == 1:
            continue
        place = next((i for i, a in enumerate(reader.axis) if a.var is index), None)
        if place is None or place in found:
            return None
        found.append(place)
    return found if found == sorted(found) else None


def _schedule(planner: Planner, last: Stage, members: list[Stage], lead: list[int], along: list[int]) -> None:
    axes = list(last.op.axis)
    length = access.elements([axes[i].dom.extent for i in along])
    last.reorder(*[axes[i] for i in lead], *[axes[i] for i in along])
    row = _fused(last, [axes[i] for i in lead])
    points = access.elements([axes[i].dom.extent for i in lead])
    if length < SHORT_ROW or (along[-1] != len(axes) - 1 and points >= 256):
        _, thread = planner.spread(last, row)
        for stage in members:
            stage.compute_at(last, thread)
            stage.set_scope("local")
        return
    count = planner.machine.threads(-(-length // 4))
    threads = thread_axis((0, count), "threadIdx.x")
    last.bind(row, thread_axis("blockIdx.x"))
    outer, inner = last.split(_fused(last, [axes[i] for i in along]), factor=count)
    last.reorder(inner, outer)
    last.bind(inner, threads)
    for stage in members:
        planner.across_threads(stage, count, threads)
        stage.compute_at(last, row)
        stage.set_scope("local")


def _fused(stage: Stage, axes: list[IterVar]) -> IterVar:
    if not axes:
        return stage.fuse()
    return stage.fuse(*axes) if len(axes) > 1 else axes[0]


__all__ = ["plan"]
