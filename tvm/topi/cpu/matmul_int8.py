"""Matmuls of bytes, by instructions that add four products to a sum at once.

The rhs is packed into panels of a block of columns, in which four elements of a column lie side by side. The register
tile is some rows by some panels; an instruction multiplies four elements of a row of the lhs with a vector of columns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...ir.prim import IntImm
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..nn.packed import BYTES
from ..template import CPUTemplate
from . import dot_products
from .conv2d_int8 import MAX_VECTORS, fits, step_cycles

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# Columns of a panel.
PANEL = 16
MAX_ROWS = 14
# Bytes of half the sets of an L1 cache, those of a line, and the rows from which a copy of the lhs costs little.
ALIASED, LINE, MIN_SHIFTED_ROWS = 2048, 64, 64


def k_block(k: int) -> int:
    """Elements of a row of the lhs that are loaded at once: a vector if it divides k."""
    return next(b for b in (16, 8, 4) if k % b == 0 or b == BYTES)


def products(lhs: Tensor, rhs: Tensor, shape: tuple[Any, ...], name: str, one_lhs=False, one_rhs=False) -> Tensor:
    """The product of ``lhs`` (m, k) with panels (n / 16, k / block, block / 4, 16, 4), or of batches of them, of which
    one may have a single matrix."""
    *_, blocks, fours, width, _ = (int(d) for d in rhs.shape)
    steps = [te.reduce_axis((0, d), name=n) for d, n in ((blocks, "k_outer"), (fours, "k_four"), (BYTES, "k_inner"))]
    outer, four, inner = steps

    def body(*at):
        *lead, i, j = at
        x = lhs(*(0 if one_lhs else b for b in lead), i, (outer * fours + four) * BYTES + inner)
        columns = te.indexdiv(j, width), outer, four, te.indexmod(j, width), inner
        y = rhs(*(0 if one_rhs else b for b in lead), *columns)
        return te.sum(x.astype("int32") * y.astype("int32"), axis=steps)

    return te.compute(shape, body, name=name, tag="matmul_int8")


def padded_lhs(lhs: Tensor, k: int) -> Tensor:
    """The lhs with as many elements in a row as panels have. Rows whose distance is a multiple of ``ALIASED`` bytes
    would share the lines of few sets of the L1 cache, so that a row of them gets a line more."""
    shares = k % ALIASED == 0 and isinstance(lhs.shape[-2], IntImm) and lhs.shape[-2].value >= MIN_SHIFTED_ROWS
    if k % BYTES == 0 and not shares:
        return lhs
    shape = (*lhs.shape[:-1], k + LINE if shares else -(-k // BYTES) * BYTES)

    def body(*at):
        return tir.if_then_else(at[-1] < k, lhs(*at), tir.const(0, lhs.dtype))

    return te.compute(shape, body, name="T_matmul_int8_lhs", tag="pad,step")


def panels(rhs: Tensor, n: int, k: int, transposed: bool) -> Tensor:
    """A batch of rhs of whole panels, packed into them; zeros fill up k."""
    block = k_block(-(-k // BYTES) * BYTES)

    def body(b, panel, outer, four, j, inner):
        column, at = panel * PANEL + j, (outer * (block // BYTES) + four) * BYTES + inner
        value = rhs(b, column, at) if transposed else rhs(b, at, column)
        return value if k % BYTES == 0 else tir.if_then_else(at < k, value, tir.const(0, rhs.dtype))

    shape = (rhs.shape[0], n // PANEL, -(-k // block), block // BYTES, PANEL, BYTES)
    return te.compute(shape, body, name="T_matmul_int8_panels", tag="panels,step")


class MatmulInt8(CPUTemplate):
    """A batch of matmuls of bytes over panels of the rhs."""

    tags = ("matmul_int8",)

    def applies(self, op: ComputeOp) -> bool:
        """Whether the target has an instruction for it, and sizes are known."""
        return "instruction" in op.attrs and all(isinstance(a.dom.extent, IntImm) for a in op.axis)

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """The rows and panels of the register tile that fits the registers."""
        m, n = (access.extent_of(a) or 1 for a in op.axis[-2:])
        instruction = op.attrs["instruction"]
        each = PANEL // instruction.lanes
        tiles = [
            (rows, count)
            for count in range(1, n // PANEL + 1)
            for rows in range(1, min(m, MAX_ROWS) + 1)
            if n // PANEL % count == 0 and count * each <= MAX_VECTORS
            and fits(instruction, rows, count * each, machine)
        ]
        return {"tile": tiles or [(1, 1)]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """The tile with the fewest products and loads, remainders included."""
        m, fours = (access.extent_of(a) or 1 for a in (op.axis[-2], op.reduce_axis[1]))
        instruction = op.attrs["instruction"]
        each = PANEL // instruction.lanes

        def cost(tile: tuple[int, int]) -> float:
            rows, count = tile
            full, rest = divmod(m, rows)
            parts = [(rows, full), (rest, 1)] if rest else [(rows, full)]
            return sum(n * step_cycles(instruction, r, count * each, fours) for r, n in parts) / count

        return {"tile": min(self.space(op, machine)["tile"], key=cost)}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Panels outside, then rows; the register tile, and the epilogue on it."""
        op = stage.op
        fours = access.extent_of(op.reduce_axis[1]) or 1
        rows, count = config["tile"]
        *lead, i, j = host.op.axis
        # Rows of the lhs stay in the L2 cache while all panels are multiplied with them.
        k = math.prod(access.extent_of(a) or 1 for a in op.reduce_axis)
        block = max(planner.machine.l2_bytes // 2 // k // rows, 1) * rows
        is_blocked = (access.extent_of(i) or 1) > block
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
        *lead, i, j = stage.op.axis
        k_outer, four, k = stage.op.reduce_axis
        j_panel, lane = stage.split(j, factor=PANEL)
        stage.reorder(*lead, k_outer, four, i, j_panel, lane, k)
        for axis in (four, i, j_panel):
            stage.unroll(axis)
        stage.tensorize(lane, dot_products.multiply(op.attrs["instruction"], PANEL, fours * BYTES))
        stage.set_scope("local")


TEMPLATE = MatmulInt8()
