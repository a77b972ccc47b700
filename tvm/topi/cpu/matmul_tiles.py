"""Matmuls by products of tiles (AMX): rows of the lhs are the pixels of a convolution with a window of one.

The rhs is packed into panels ``(n / 32, k / block, block / depth, 32, depth)``, constant weights when compiling. The
lhs is read where it lies; it is copied where its last tile of rows or of k would be cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...ir.prim import IterVar
from ...te.schedule import Stage
from ...te.tensor import Tensor
from .. import access
from .conv2d_tiles import Conv2dTiles, drain, extents, pixels_of, shape_of
from .tiles import COLUMNS, Kind

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

TAG = "matmul_tiles"
# Columns of a panel.
PANEL = 2 * COLUMNS


def panel_width(n: int) -> int | None:
    """The columns of a panel; None for a matrix that is wider than a tile and narrower than a panel."""
    return PANEL if n >= PANEL else n if n <= COLUMNS else None


def k_block(k: int, kind: Kind) -> int:
    """The k of a tile: the one that fills up least; of those the largest."""
    sizes = range(kind.k, 0, -kind.depth)
    return min(sizes, key=lambda b: (-(-k // b) * b + (0 if 2 * b > min(k, kind.k) else k), -b))


def products(lhs: Tensor, rhs: Tensor, n: int, kind: Kind, is_batch: bool = False, one_lhs: bool = False,
             one_rhs: bool = False) -> Tensor:  # fmt: skip
    """``lhs`` (..., m, k) times panels; ``is_batch`` where each leading index of it has panels of its own. ``one_lhs``
    and ``one_rhs`` say that a batch has a single matrix."""
    *lead, m, k = (int(d) for d in lhs.shape)
    if is_batch:
        lead = [max(lead[0], int(rhs.shape[0]))]
    panels, blocks, groups, width, depth = (int(d) for d in rhs.shape[-5:])
    rows, block = pixels_of(m), groups * depth
    whole = -(-m // rows) * rows
    source = _filled(lhs, whole, blocks * block)
    taken = te.compute(
        (*source.shape[:-2], blocks, whole, 1, block),
        lambda *at: source(*at[:-4], at[-3], at[-4] * block + at[-1]),
        name="rows", tag="window,step",
    )  # fmt: skip
    sizes = (blocks, 1, groups, depth)
    axes = [te.reduce_axis((0, s), name=x) for s, x in zip(sizes, ("k_outer", "tap", "group", "inner"))]
    outer, tap, group, inner = axes

    def body(*at):
        *first, oc, _, t, x, ob = at
        own = [0] * len(first) if one_lhs else first
        value = taken(*own, outer, t * rows + x, tap, group * depth + inner).astype(kind.sums)
        matrix = ([0] if one_rhs else first) if is_batch else []
        return te.sum(value * rhs(*matrix, oc, outer + tap, group, ob, inner).astype(kind.sums), axis=axes)

    in_tiles = (*lead, panels, 1, whole // rows, rows, width)
    attrs = {"kind": kind, "step": 1, "is_flat": False}
    sums = te.compute(in_tiles, body, name=TAG, tag=TAG, attrs=attrs)
    held = te.compute(in_tiles, lambda *at: sums(*at), name=TAG + "_held", tag="held,step")

    def matrix(*at):
        *first, i, j = at
        return held(*first, te.indexdiv(j, width), 0, te.indexdiv(i, rows), te.indexmod(i, rows), te.indexmod(j, width))

    return te.compute((*lead, m, n), matrix, name=TAG + "_matrix", tag="injective")


def _filled(lhs: Tensor, rows: int, k: int) -> Tensor:
    """The lhs with whole tiles."""
    *lead, m, depth = (int(d) for d in lhs.shape)
    if (m, depth) == (rows, k):
        return lhs

    def body(*at):
        is_inside = te.all(at[-2] < m, at[-1] < depth)
        return tir.if_then_else(is_inside, lhs(*at), tir.const(0, lhs.dtype))

    return te.compute((*lead, rows, k), body, name="lhs_pad", tag="pad,step")


def packed_rhs(rhs: Tensor, n: int, k: int, width: int, transposed: bool, kind: Kind) -> Tensor:
    """A batch of rhs (n, k) or (k, n) as panels; zeros fill up n and k."""
    block, depth = k_block(k, kind), kind.depth

    def body(b, panel, outer, group, j, inner):
        column, at = panel * width + j, outer * block + group * depth + inner
        value = rhs(b, column, at) if transposed else rhs(b, at, column)
        if n % width == 0 and k % block == 0:
            return value
        return tir.if_then_else(te.all(column < n, at < k), value, tir.const(0, rhs.dtype))

    shape = (rhs.shape[0], -(-n // width), -(-k // block), block // depth, width, depth)
    return te.compute(shape, body, name="panels", tag="panels,step")


class MatmulTiles(Conv2dTiles):
    """A matmul by products of tiles."""

    tags = (TAG,)

    def divide(
        self, planner: Planner, stage: Stage, held: Stage, host: Stage, config: dict[str, Any]
    ) -> IterVar:
        """Split the output into tasks and register blocks; returns the loop of tasks."""
        x = extents(stage.op)
        _, block_m, block_n = config["block"]
        *lead, i, j = host.op.axis
        i_outer, i_block = host.split(i, factor=block_m * x["pixels"])
        j_outer, j_block = host.split(j, factor=block_n * x["ob"])
        j_panel, j_block = host.split(j_block, factor=x["ob"])
        if config["outer"] == "filters":
            host.reorder(*lead, j_outer, i_outer, i_block, j_panel, j_block)
            task, inside = host.fuse(*lead, j_outer), i_outer
        else:
            host.reorder(*lead, i_outer, j_outer, i_block, j_panel, j_block)
            task, inside = host.fuse(*lead, i_outer), j_outer
        host.vectorize(j_block)
        if access.work(stage.op) >= planner.parallel_points:
            host.parallel(task)
        held.compute_at(host, inside)
        stage.compute_at(host, inside)
        drain(held, shape_of(stage.op), block_m)
        return task

    def space(self, op, machine) -> dict[str, list]:
        """Every knob and its values."""
        return {**super().space(op, machine), "rows": [1]}


TEMPLATE = MatmulTiles()
