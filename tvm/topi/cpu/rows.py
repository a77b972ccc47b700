"""Row kernels: softmax, layer normalization, and all other computations of reductions over rows and elementwise
operations on the same rows.

All operations are computed on one row before the next, in one parallel loop over the rows. The row is read from memory
once and stays in the L1 cache between the operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.prim import IntImm, IterVar, PrimExpr, convert
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp
from .. import access
from ..utils import same_dim

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

# The longest row that stays in the L1 cache together with the results of the operations on it.
MAX_ROW = 1 << 15
# The assumed length of a row of dynamic length.
NOMINAL_LENGTH = 128


def plan(planner: Planner, live: list[Stage], plain: Schedule) -> bool:
    """Schedule all stages of ``live`` as one row kernel if possible. Return whether it is."""
    outputs = [x for x in live if x.is_output]
    if len(outputs) != 1 or len(live) < 2 or outputs[0].op.reduce_axis:
        return False
    last = outputs[0]
    shape = [a.dom.extent for a in last.op.axis]
    if not shape or any(access.extent_of(a) == 0 for a in last.op.axis):
        return False
    length = access.extent_of(last.op.axis[-1]) or NOMINAL_LENGTH
    lanes = planner.machine.lanes(last.op.output(0).dtype)
    rows = access.elements([a.dom.extent for a in last.op.axis[:-1]])
    if not lanes <= length <= MAX_ROW or rows < 4 * planner.machine.threads < length // lanes:
        return False
    members = [x for x in live if x is not last]
    if not any(x.op.reduce_axis for x in members) or not all(_is_row_operation(x.op, shape) for x in members):
        return False
    if not _rows_match(live, plain, len(shape) - 1):
        return False
    _schedule(planner, last, members, lanes)
    planner.placed.update(live)
    return True


def _is_row_operation(op: ComputeOp, shape: list[PrimExpr]) -> bool:
    """Return whether an operation has one value for each row or for each element; reductions must be over the row."""
    if op.num_outputs != 1:
        return False
    extents = [a.dom.extent for a in op.axis]
    for_rows = _alike(extents, shape[:-1]) or _alike(extents, [*shape[:-1], convert(1)])
    if not op.reduce_axis:
        return for_rows or _alike(extents, shape)
    return for_rows and len(op.reduce_axis) == 1 and same_dim(op.reduce_axis[0].dom.extent, shape[-1])


def _alike(a: list[PrimExpr], b: list[PrimExpr]) -> bool:
    return len(a) == len(b) and all(map(same_dim, a, b))


def _rows_match(live: list[Stage], plain: Schedule, lead: int) -> bool:
    """Return whether operations read each other only at the same row, and read inputs along the row."""
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
        if op.reduce_axis and any(access.runs_along(x, op.reduce_axis[0].var) == "far" for x in access.loads(op.body)):
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
        if access.elements([a.dom.extent for a in lead]) > 1:
            planner.spread(last, row, planner.is_large(last.op, points))
    for stage in members:
        if stage.op.reduce_axis:
            _reduce(planner, stage, last, row, lanes)
            continue
        is_whole = len(stage.op.axis) == len(last.op.axis) and same_dim(stage.op.axis[-1].dom.extent, along.dom.extent)
        if is_whole:
            _vectors(stage, stage.op.axis[-1], lanes)
        _attach(stage, last, row)


def _attach(stage: Stage, last: Stage, row: IterVar | None) -> None:
    if row is not None:
        stage.compute_at(last, row)


def _vectors(stage: Stage, axis: IterVar, lanes: int) -> None:
    _, vector = stage.split(axis, factor=lanes)
    stage.vectorize(vector)


def _reduce(planner: Planner, stage: Stage, last: Stage, row: IterVar | None, lanes: int) -> None:
    """Reduce into several vectors of partial results, then reduce those step by step to fewer lanes."""
    n = access.extent_of(stage.op.reduce_axis[0])
    # The remainder of a dynamic length is reduced element by element, so use fewer vectors.
    vectors = 2 if n is None else next((u for u in (4, 2) if n >= 2 * u * lanes), 1)
    widths = [w for w in dict.fromkeys((lanes * vectors, lanes, min(4, lanes))) if w > 1]
    for level, width in enumerate(widths):
        (k,) = stage.op.reduce_axis
        _, inner = stage.split(k, factor=width)
        partial = planner.s[planner.s.rfactor(stage.op.output(0), inner, -1)]
        _attach(partial, last, row)
        partial.set_scope("local")
        outer = partial.op.reduce_axis[0]
        *others, last_axis = partial.op.axis
        piece, vector = partial.split(last_axis, factor=min(lanes, width))
        partial.reorder(*others, outer, piece, vector)
        partial.vectorize(vector)
        partial.unroll(piece)
        if level:
            partial.unroll(outer)
    (k,) = stage.op.reduce_axis
    stage.unroll(k)
    _attach(stage, last, row)
