"""GPU schedules of operations that read an input in a transposed layout: transposes, and elementwise operations on
them.

A block copies a square tile of the input along its rows into shared memory and writes it along the rows of the output,
so that both the loads and the stores of adjacent threads are contiguous.
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

# The side of a square tile, and the number of tile rows that the threads of a block read at a time.
SIDE, ROWS = 32, 8
# Shorter axes fill too little of a tile.
MIN_EXTENT = 16
# With fewer tiles the caches are sufficient.
MIN_TILES = 4


class TransposedRead(NamedTuple):
    """A tensor that is read in a transposed layout: the axis of the reader along which it is contiguous, and the
    dimension of the tensor that corresponds to the reader's last axis."""

    tensor: Tensor
    contiguous_axis: int
    dimension: int


def plan(planner: Planner, stage: Stage) -> bool:
    """Schedule an operation with transposed reads, which must be the only operation; return whether it has any."""
    op = stage.op
    sizes = [access.extent_of(a) for a in op.axis]
    if not planner.machine.has_shared or op.num_outputs != 1 or None in sizes or len(sizes) < 2:
        return False
    if (sizes[-1] or 0) < MIN_EXTENT or access.work(op) < SIDE * SIDE * MIN_TILES:
        return False
    twin = planner.plain_op(op)
    if any(access.is_choosing(node) for b in twin.body for node in post_order(b)):
        return False
    reads = [(load.producer, _transposed_read(load, twin)) for load in access.loads(twin.body)]
    # A tensor that is read in two layouts would need more than one tile.
    ambiguous = {t for t, x in reads if any(t == other and x != y for other, y in reads)}
    transposed = [x for x in dict.fromkeys(x for t, x in reads if t not in ambiguous) if x is not None]
    transposed = [x for x in transposed if x.contiguous_axis == transposed[0].contiguous_axis]
    if not transposed or len(transposed) * SIDE * (SIDE + 1) * 8 > planner.machine.shared_bytes:
        return False
    _schedule(planner, stage, transposed)
    return True


def _transposed_read(load: ProducerLoad, op: ComputeOp) -> TransposedRead | None:
    """Return the transposed read of a load whose index along the last axis selects the row of its tensor."""
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
    if not alone or not straight or (access.extent_of(op.axis[axis]) or 0) < MIN_EXTENT:
        return None
    return TransposedRead(tensor, axis, dimension)


def _schedule(planner: Planner, stage: Stage, transposed: list[TransposedRead]) -> None:
    s, axes = planner.s, list(stage.op.axis)
    rows = max(min(ROWS, planner.machine.max_threads // SIDE), 1)
    threads = thread_axis((0, rows), "threadIdx.y"), thread_axis((0, SIDE), "threadIdx.x")
    down = transposed[0].contiguous_axis
    axes[down], row = stage.split(axes[down], factor=SIDE)
    axes[-1], column = stage.split(axes[-1], factor=SIDE)
    turn, row = stage.split(row, factor=rows)
    stage.reorder(*axes, row, column, turn)
    block = stage.fuse(*axes)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(row, threads[0])
    stage.bind(column, threads[1])
    stage.unroll(turn)
    for x in transposed:
        readers = [r.op for r in s.stages if x.tensor in r.op.input_tensors]
        tile = s[s.cache_read(x.tensor, "shared", readers)]
        tile.compute_at(stage, block)
        _copy_to_shared(tile, x.dimension, rows, threads)


def _copy_to_shared(tile: Stage, dimension: int, rows: int, threads: tuple[IterVar, IterVar]) -> None:
    """Copy a tile with all threads of the block. Padding each row by one element puts columns into different banks."""
    axes = list(tile.op.axis)
    tile.storage_align(axes[dimension], SIDE, 1)
    turn, row = tile.split(axes[dimension], factor=rows)
    across, column = tile.split(axes[-1], factor=SIDE)
    others = [a for n, a in enumerate(axes) if n not in (dimension, len(axes) - 1)]
    tile.reorder(*others, across, turn, row, column)
    tile.bind(row, threads[0])
    tile.bind(column, threads[1])
    tile.unroll(turn)


__all__ = ["plan"]
