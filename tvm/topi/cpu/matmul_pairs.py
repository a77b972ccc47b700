"""Matmuls with 2x2 matmul instructions (``smmla``, ``bfmmla``), which multiply pairs of rows with pairs of columns.

They compute twice as many products as dot product instructions. The rhs is packed into the panels of ``matmul_dots``,
with words of twice as many elements; rows of the lhs are paired in registers. The accumulators of a register tile have
a layout of their own, so one intrinsic covers the tile and all of k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te
from ...ir.prim import IntImm
from ...target import Target
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from . import matmul_dots, pair_products
from .matmul_dots import PANEL, MatmulDots
from .pair_products import PAIR, PairProduct

if TYPE_CHECKING:
    from ..schedule.cpu import Machine

TAG = "matmul_pairs"
# The most rows of a register tile. With six rows, the accumulators and operands fit 32 registers, but LLVM spills some.
MAX_ROWS = 4
# The cost of copying a row of the lhs to pad the number of rows, in instructions for each word of k.
COPY_COST = 0.25


def instruction_for(target: Target | None, lhs: str, rhs: str, sums: str, rows: Any) -> PairProduct | None:
    """Return the target's instruction for a matmul with these types and number of rows, or None. A single row has no
    pair."""
    found = pair_products.pair_product(target, lhs, rhs)
    is_paired = found is not None and found.sums == sums and isinstance(rows, (int, IntImm)) and int(rows) >= PAIR
    return found if is_paired else None


def tile_rows(m: int) -> int:
    """Return the rows of a register tile: those with the fewest instructions for m rows, including padding."""

    def cost(rows: int) -> float:
        pairs, columns = -(-rows // PAIR), PANEL // PAIR
        tiles = -(-m // rows)
        return tiles * (pairs * columns + columns / 2 + rows) + (m % rows > 0) * m * COPY_COST

    return min(range(min(m, MAX_ROWS), 1, -1), key=cost)


def products(lhs: Tensor, rhs: Tensor, instruction: PairProduct, name: str, one_lhs=False, one_rhs=False) -> Tensor:
    """Return the matmul of ``lhs`` (..., m, k) with panels (n / 16, k / block, block / depth, 16, depth), optionally
    batched; ``one_lhs`` and ``one_rhs`` mark an operand with a single matrix."""
    *lead, m, k = (int(d) for d in lhs.shape)
    rows = tile_rows(m)
    if len(rhs.shape) > 5:
        lead = [max(lead[0], int(rhs.shape[0]))]
    whole = matmul_dots.padded_lhs(lhs, k, instruction.depth, rows)
    n, padded = int(rhs.shape[-5]) * PANEL, int(whole.shape[-2])
    out = matmul_dots.products(whole, rhs, (*lead, padded, n), name, one_lhs, one_rhs, TAG)
    out.op.attrs.update(instruction=instruction, rows=rows)
    return out if padded == m else te.compute((*lead, m, n), lambda *at: out(*at), name=name + "_part", tag="injective")


class MatmulPairs(MatmulDots):
    """A batch of matmuls with 2x2 matmul instructions over panels of the rhs."""

    tags = (TAG,)

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return the register tiles, which divide the padded rows."""
        m = access.extent_of(op.axis[-2]) or 1
        return {"tile": [(rows, 1) for rows in range(1, min(m, MAX_ROWS) + 1) if m % rows == 0]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the register tile for which the rows were padded."""
        return {"tile": (op.attrs["rows"], 1)}

    def multiply(self, stage: Stage, config: dict[str, Any]) -> None:
        """Schedule the register tile."""
        rows, _ = config["tile"]
        blocks, steps, _ = (access.extent_of(a) or 1 for a in stage.op.reduce_axis)
        *lead, i, j = stage.op.axis
        stage.reorder(*lead, i, j, *stage.op.reduce_axis)
        stage.tensorize(i, pair_products.multiply_rows(stage.op.attrs["instruction"], rows, PANEL, blocks, steps))


TEMPLATE = MatmulPairs()
