"""Operations on a GPU that read an input across its memory: transpositions, and what is done with transposed data.

A block reads a square of the input along its rows into shared memory and writes it along the rows of the result, so
that neighbouring threads read and write neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...ir.prim import IntImm, IterVar, ProducerLoad
from ...ir.visit import post_order
from ...te.operation import thread_axis
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, PlaceholderOp, Tensor
from .. import access

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

# The side of a square, and the rows of it that threads read at once.
SIDE, ROWS = 32, 8
# Dimensions shorter than this fill too little of a square.
SHORT = 16
# Squares below which caches do as well.
FEW_SQUARES = 4


class Across(NamedTuple):
    """A tensor that is read across its memory: which axis of the reader runs along it, and which of its dimensions the
    reader's last axis runs along."""

    tensor: Tensor
    along: int
    dimension: int


def plan(planner: Planner, stage: Stage) -> bool:
    """Schedule an operation that reads across, if it does; says whether it did. It must be all there is to do."""
    op = stage.op
    sizes = [access.extent_of(a) for a in op.axis]
    if not planner.machine.has_shared or op.num_outputs != 1 or None in sizes or len(sizes) < 2:
        return False
    if (sizes[-1] or 0) < SHORT or access.work(op) < SIDE * SIDE * FEW_SQUARES:
        return False
    twin = planner.plain_op(op)
    if any(access.is_choosing(node) for b in twin.body for node in post_order(b)):
        return False
    reads = [(load.producer, _across(load, twin)) for load in access.loads(twin.body)]
    # A tensor that is read in two ways would need more than a square.
    apart = {t for t, x in reads if any(t == other and x != y for other, y in reads)}
    found = [x for x in dict.fromkeys(x for t, x in reads if t not in apart) if x is not None]
    found = [x for x in found if x.along == found[0].along]
    if not found or len(found) * SIDE * (SIDE + 1) * 8 > planner.machine.shared_bytes:
        return False
    _schedule(planner, stage, found)
    return True


def _across(load: ProducerLoad, op: ComputeOp) -> Across | None:
    """How a load reads across its tensor: along the last axis it goes from row to row."""
    tensor = load.producer
    if not isinstance(tensor.op, PlaceholderOp) or not all(isinstance(d, IntImm) for d in tensor.shape):
        return None
    steps = [[access.stride_along(i, a.var) for a in op.axis] for i in load.indices]
    if any(s is None for row in steps for s in row) or len(steps) < 2:
        return None
    last = [n for n, row in enumerate(steps) if row[-1]]
    along = [n for n, s in enumerate(steps[-1]) if s]
    if len(last) != 1 or last[0] == len(steps) - 1 or len(along) != 1:
        return None
    dimension, axis = last[0], along[0]
    alone = [n for n, row in enumerate(steps) if row[axis]] == [len(steps) - 1]
    straight = steps[dimension][-1] == 1 and steps[-1][axis] == 1
    if not alone or not straight or (access.extent_of(op.axis[axis]) or 0) < SHORT:
        return None
    return Across(tensor, axis, dimension)


def _schedule(planner: Planner, stage: Stage, found: list[Across]) -> None:
    s, axes = planner.s, list(stage.op.axis)
    rows = max(min(ROWS, planner.machine.max_threads // SIDE), 1)
    threads = thread_axis((0, rows), "threadIdx.y"), thread_axis((0, SIDE), "threadIdx.x")
    down = found[0].along
    axes[down], row = stage.split(axes[down], factor=SIDE)
    axes[-1], column = stage.split(axes[-1], factor=SIDE)
    turn, row = stage.split(row, factor=rows)
    stage.reorder(*axes, row, column, turn)
    block = stage.fuse(*axes)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(row, threads[0])
    stage.bind(column, threads[1])
    stage.unroll(turn)
    for x in found:
        readers = [r.op for r in s.stages if x.tensor in r.op.input_tensors]
        square = s[s.cache_read(x.tensor, "shared", readers)]
        square.compute_at(stage, block)
        _fetch(square, x.dimension, rows, threads)


def _fetch(square: Stage, dimension: int, rows: int, threads: tuple[IterVar, IterVar]) -> None:
    """A square by all threads of the block; a gap after each row keeps columns out of each other's banks."""
    axes = list(square.op.axis)
    square.storage_align(axes[dimension], SIDE, 1)
    turn, row = square.split(axes[dimension], factor=rows)
    across, column = square.split(axes[-1], factor=SIDE)
    others = [a for n, a in enumerate(axes) if n not in (dimension, len(axes) - 1)]
    square.reorder(*others, across, turn, row, column)
    square.bind(row, threads[0])
    square.bind(column, threads[1])
    square.unroll(turn)


__all__ = ["plan"]
