"""Matmuls with dot product instructions, which add the products of the elements of a 32-bit word (four int8 or two
bfloat16) to an accumulator.

The rhs is packed into panels of a block of columns in which the elements of a word of a column are contiguous. The
register tile is some rows by some panels. An instruction multiplies a word of an lhs row with a vector of columns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...dtype import info
from ...ir.prim import IntImm
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..template import CPUTemplate
from . import dot_products
from .conv2d_dots import MAX_VECTORS, fits, step_cycles
from .matmul import LINE

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

TAG = "matmul_dots"
# The columns of a panel.
PANEL = 16
# The bytes of an lhs row that are loaded at once.
VECTOR_BYTES = 16
MAX_ROWS = 14
# The bytes of half the sets of an L1 cache, and the minimum number of rows for which a copy of the lhs is cheap.
ALIASED, MIN_SHIFTED_ROWS = 2048, 64


def depth_of(dtype: str) -> int:
    """Return the number of elements in a word."""
    return dot_products.LANE_BYTES // info(dtype).bytes


def k_block(k: int, depth: int, vector: int) -> int:
    """Return the number of elements of an lhs row that are loaded at once, in words of ``depth``: a ``vector`` if it
    divides k, else a part of it."""
    block = vector
    while block > depth and k % block:
        block //= 2
    return block


def products(
    lhs: Tensor, rhs: Tensor, shape: tuple[Any, ...], name: str, one_lhs=False, one_rhs=False, tag: str = TAG
) -> Tensor:
    """Return the matmul of ``lhs`` (..., m, k) with panels (n / 16, k / block, block / depth, 16, depth), optionally
    batched; ``one_lhs`` and ``one_rhs`` mark an operand with a single matrix."""
    is_batch = len(rhs.shape) > 5
    *_, blocks, words, width, depth = (int(d) for d in rhs.shape)
    steps = [te.reduce_axis((0, d), name=n) for d, n in ((blocks, "k_outer"), (words, "k_word"), (depth, "k_inner"))]
    outer, word, inner = steps
    sums = "float32" if info(rhs.dtype).is_float else "int32"

    def body(*at):
        *lead, i, j = at
        x = lhs(*(0 if one_lhs else b for b in lead), i, (outer * words + word) * depth + inner)
        columns = te.indexdiv(j, width), outer, word, te.indexmod(j, width), inner
        y = rhs(*(0 if one_rhs else b for b in lead if is_batch), *columns)
        return te.sum(x.astype(sums) * y.astype(sums), axis=steps)

    return te.compute(shape, body, name=name, tag=tag)


def shares_sets(lhs: Tensor, k: int) -> bool:
    """Return whether the rows of a register tile would map to few sets of the L1 cache because their distance is a
    multiple of ``ALIASED`` bytes."""
    rows = lhs.shape[-2]
    return k * info(lhs.dtype).bytes % ALIASED == 0 and isinstance(rows, IntImm) and rows.value >= MIN_SHIFTED_ROWS


def padded_lhs(lhs: Tensor, k: int, depth: int = 0, rows: int = 1) -> Tensor:
    """Return the lhs with rows as long as those of the panels, whose words have ``depth`` elements, and a multiple of
    ``rows`` rows; ``apply`` decides whether it is copied with a different row distance."""
    depth = depth or depth_of(lhs.dtype)
    m = lhs.shape[-2]
    is_whole = rows == 1 or int(m) % rows == 0
    if k % depth == 0 and is_whole and not shares_sets(lhs, k):
        return lhs

    def body(*at):
        inside = at[-1] < k if is_whole else te.all(at[-2] < m, at[-1] < k)
        return tir.if_then_else(inside, lhs(*at), tir.const(0, lhs.dtype))

    shape = (*lhs.shape[:-2], m if is_whole else _up(int(m), rows), _up(k, depth))
    return te.compute(shape, body, name="T_matmul_dots_lhs", tag="pad,step")


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def panels(rhs: Tensor, n: int, k: int, transposed: bool, depth: int = 0) -> Tensor:
    """Return a batch of rhs matrices packed into whole panels with words of ``depth`` elements; zeros pad k."""
    depth = depth or depth_of(rhs.dtype)
    block = k_block(_up(k, depth), depth, VECTOR_BYTES // info(rhs.dtype).bytes)

    def body(b, panel, outer, word, j, inner):
        column, at = panel * PANEL + j, (outer * (block // depth) + word) * depth + inner
        value = rhs(b, column, at) if transposed else rhs(b, at, column)
        return value if k % depth == 0 else tir.if_then_else(at < k, value, tir.const(0, rhs.dtype))

    shape = (rhs.shape[0], n // PANEL, -(-k // block), block // depth, PANEL, depth)
    return te.compute(shape, body, name="T_matmul_dots_panels", tag="panels,step")


class MatmulDots(CPUTemplate):
    """A batch of matmuls with dot product instructions over panels of the rhs."""

    tags = (TAG,)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the target has a suitable instruction and all dimensions are constant."""
        return "instruction" in op.attrs and all(isinstance(a.dom.extent, IntImm) for a in op.axis)

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return the rows and panels of register tiles that fit the registers."""
        m, n = (access.extent_of(a) or 1 for a in op.axis[-2:])
        instruction = op.attrs["instruction"]
        each = PANEL // instruction.lanes
        tiles = [
            (rows, count)
            for count in range(1, n // PANEL + 1)
            for rows in range(1, min(m, MAX_ROWS) + 1)
            if n // PANEL % count == 0
            and count * each <= MAX_VECTORS
            and fits(instruction, rows, count * each, machine)
        ]
        return {"tile": tiles or [(1, 1)]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest dot products and loads, including remainders."""
        m, words = (access.extent_of(a) or 1 for a in (op.axis[-2], op.reduce_axis[1]))
        instruction = op.attrs["instruction"]
        each = PANEL // instruction.lanes

        def cost(tile: tuple[int, int]) -> float:
            rows, count = tile
            full, rest = divmod(m, rows)
            parts = [(rows, full), (rest, 1)] if rest else [(rows, full)]
            return sum(n * step_cycles(instruction, r, count * each, words) for r, n in parts) / count

        return {"tile": min(self.space(op, machine)["tile"], key=cost)}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration: the panels are the outer loop, then the rows; inside are the register tile and its
        epilogue."""
        op = stage.op
        rows, count = config["tile"]
        *lead, i, j = host.op.axis
        # Rows of the lhs stay in the L2 cache while they are multiplied with all panels. Row blocks have equal sizes.
        row = math.prod(access.extent_of(a) or 1 for a in op.reduce_axis) * info(op.input_tensors[0].dtype).bytes
        tiles = -(-(access.extent_of(i) or 1) // rows)
        blocks = -(-tiles // max(planner.machine.l2_bytes // 2 // row // rows, 1))
        block = -(-tiles // blocks) * rows
        is_blocked = blocks > 1
        i_block, i = host.split(i, factor=block) if is_blocked else (None, i)
        i_outer, i_inner = host.split(i, factor=rows)
        j_outer, j_inner = host.split(j, factor=count * PANEL)
        j_panel, lane = host.split(j_inner, factor=PANEL)
        lead += [i_block] if i_block is not None else []
        host.reorder(*lead, j_outer, i_outer, j_panel, i_inner, lane)
        host.vectorize(lane)
        host.unroll(j_panel)
        host.unroll(i_inner)
        if (access.extent_of(host.op.axis[-2]) or 1) % rows:
            host.pragma(i_outer, "loop_partition_hint", True)
        task = host.fuse(*lead, j_outer)
        if access.work(op) >= planner.parallel_points:
            host.parallel(task)
        stage.compute_at(host, i_outer)
        lhs = op.input_tensors[0]
        if lhs.op.tag == "pad,step" and shares_sets(lhs, int(lhs.shape[-1])):
            size = info(lhs.dtype).bytes
            planner.s[lhs].storage_align(lhs.op.axis[-2], ALIASED // size, LINE // size)
        self.multiply(stage, config)
        stage.set_scope("local")

    def multiply(self, stage: Stage, config: dict[str, Any]) -> None:
        """Schedule the register tile."""
        words, instruction = access.extent_of(stage.op.reduce_axis[1]) or 1, stage.op.attrs["instruction"]
        *lead, i, j = stage.op.axis
        k_outer, word, k = stage.op.reduce_axis
        j_panel, lane = stage.split(j, factor=PANEL)
        stage.reorder(*lead, k_outer, word, i, j_panel, lane, k)
        for axis in (word, i, j_panel):
            stage.unroll(axis)
        stage.tensorize(lane, dot_products.multiply(instruction, PANEL, words * instruction.depth))


TEMPLATE = MatmulDots()
