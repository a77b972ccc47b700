"""Kernels that work row by row: softmax, layer normalization, and whatever else is made of sums or maxima over rows and
element-by-element steps on the same rows.

All of it is done on one row before the next, in one parallel loop over the rows: the row is read from memory once and
stays in the first cache between the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.prim import IntImm, IterVar, PrimExpr
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp
from .. import access

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

# Longer rows than this do not stay in the first cache with what is made of them.
LONGEST_ROW = 1 << 15


def plan(planner: Planner, live: list[Stage], plain: Schedule) -> bool:
    """Schedule all of ``live`` row by row if that is what it is; says whether it was."""
    outputs = [x for x in live if x.is_output]
    if len(outputs) != 1 or len(live) < 2 or outputs[0].op.reduce_axis:
        return False
    last = outputs[0]
    shape = [access.extent_of(a) or 0 for a in last.op.axis]
    if not shape or 0 in shape:
        return False
    lanes = planner.machine.lanes(last.op.output(0).dtype)
    rows = access.elements([a.dom.extent for a in last.op.axis[:-1]])
    if not lanes <= shape[-1] <= LONGEST_ROW or rows < 4 * planner.machine.threads < shape[-1] // lanes:
        return False
    members = [x for x in live if x is not last]
    if not any(x.op.reduce_axis for x in members) or not all(_is_row_step(x.op, shape) for x in members):
        return False
    if not _rows_match(live, plain, len(shape) - 1):
        return False
    _schedule(planner, last, members, lanes)
    planner.placed.update(live)
    return True


def _is_row_step(op: ComputeOp, shape: list[int]) -> bool:
    """A value for each row, or for each element; sums run over the row."""
    own = [access.extent_of(a) for a in op.axis]
    if op.num_outputs != 1:
        return False
    if not op.reduce_axis:
        return own == shape or own in (shape[:-1], [*shape[:-1], 1])
    if len(op.reduce_axis) != 1 or access.extent_of(op.reduce_axis[0]) != shape[-1]:
        return False
    return own in (shape[:-1], [*shape[:-1], 1])


def _rows_match(live: list[Stage], plain: Schedule, lead: int) -> bool:
    """Whether steps read each other on their own row only, and inputs along the row."""
    ops = [plain.stage_map[x.op].op for x in live]
    for op in ops:
        for load in access.loads(op.body):
            if not any(load.producer.op is o for o in ops):
                continue
            if len(load.indices) < lead:
                return False
            for index, axis in zip(load.indices[:lead], op.axis):
                if index is not axis.var and not (_is_zero(index) and access.extent_of(axis) == 1):
                    return False
        if op.reduce_axis and any(
            access.runs_along(x, op.reduce_axis[0].var) == "far" for x in access.loads(op.body)
        ):
            return False
    return True


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _schedule(planner: Planner, last: Stage, members: list[Stage], lanes: int) -> None:
    *lead, along = last.op.axis
    points = access.work(last.op) * len(members)
    _vectors(last, along, lanes)
    row: IterVar | None = None
    if lead:
        row = last.fuse(*lead) if len(lead) > 1 else lead[0]
        if points >= planner.parallel_points and access.elements([a.dom.extent for a in lead]) > 1:
            last.parallel(row)
    for stage in members:
        if stage.op.reduce_axis:
            _reduce(planner, stage, last, row, lanes)
            continue
        own = access.extent_of(stage.op.axis[-1]) if stage.op.axis else 1
        if own == access.extent_of(along) and len(stage.op.axis) == len(last.op.axis):
            _vectors(stage, stage.op.axis[-1], lanes)
        _attach(stage, last, row)


def _attach(stage: Stage, last: Stage, row: IterVar | None) -> None:
    if row is not None:
        stage.compute_at(last, row)


def _vectors(stage: Stage, axis: IterVar, lanes: int) -> None:
    _, vector = stage.split(axis, factor=lanes)
    stage.vectorize(vector)


def _reduce(planner: Planner, stage: Stage, last: Stage, row: IterVar | None, lanes: int) -> None:
    """Several vectors of partial results, then fewer and fewer lanes."""
    n = access.extent_of(stage.op.reduce_axis[0]) or 0
    together = next((u for u in (4, 2) if n >= 2 * u * lanes), 1)
    widths = [w for w in dict.fromkeys((lanes * together, lanes, min(4, lanes))) if w > 1]
    for number, width in enumerate(widths):
        (k,) = stage.op.reduce_axis
        _, inner = stage.split(k, factor=width)
        part = planner.s[planner.s.rfactor(stage.op.output(0), inner, -1)]
        _attach(part, last, row)
        part.set_scope("local")
        outer = part.op.reduce_axis[0]
        *others, own = part.op.axis
        piece, vector = part.split(own, factor=min(lanes, width))
        part.reorder(*others, outer, piece, vector)
        part.vectorize(vector)
        part.unroll(piece)
        if number:
            part.unroll(outer)
    (k,) = stage.op.reduce_axis
    stage.unroll(k)
    _attach(stage, last, row)
