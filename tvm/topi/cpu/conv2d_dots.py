"""Direct convolution in a blocked layout with dot product instructions, which add the products of the elements of a
32-bit word (four int8 or two bfloat16) to an accumulator.

The register tile is ``tile_h`` x ``tile_w`` pixels by vectors of filters. An instruction multiplies one word of
channels of a pixel with a vector of filters. The word is either a lane of the pixel's block of channels or a load
broadcast to all lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.prim import IntImm
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import dot_products
from .conv2d import column_stride, compute_padding, divide, pad_stage, pieces
from .dot_products import LANE_BYTES, DotProduct

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The number of independent accumulators that keeps the multipliers busy: the latency of a dot product times the number
# of multipliers.
CHAINS = 8
# The maximum vectors of filters in a register tile.
MAX_VECTORS = 8


def extents(op: ComputeOp) -> dict[str, int]:
    n, oc, h, w, ob = (access.extent_of(a) or 1 for a in op.axis)
    ico, kh, kw, groups, _ = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {
        "n": n,
        "oc": oc,
        "h": h,
        "w": w,
        "ob": ob,
        "ico": ico,
        "kh": kh,
        "kw": kw,
        "words": groups,
        "groups": int(op.attrs.get("groups", 1)),
    }


def fits(instruction: DotProduct, pixels: int, vectors: int, machine: Machine, held: int = 1) -> bool:
    """Return whether the accumulators fit the registers together with a vector of each pixel and one word of filters,
    or with ``held`` words of the filters and one pixel."""
    # Loads of three or more vectors are issued one step before their use.
    beside = pixels + 1 if instruction.takes_lane else 2 + (vectors > 2)
    return pixels * vectors + vectors * held + beside <= machine.registers


def tiles(x: dict[str, int], instruction: DotProduct, machine: Machine) -> list[tuple[int, int, int]]:
    """Return the register tiles (rows, columns, blocks of filters of one group) that fit the registers. Only tiles of
    full width have several rows."""
    each = -(-x["ob"] // instruction.lanes)
    inside = x["oc"] // x["groups"]
    blocks = [d for d in range(1, inside + 1) if inside % d == 0 and (d == 1 or d * each <= MAX_VECTORS)]
    # The weights of a single step are the same for all tiles of a row and stay in registers.
    held = x["words"] if x["ico"] * x["kh"] * x["kw"] == 1 and not instruction.takes_lane else 1
    found = [
        (h, w, oc)
        for oc in blocks
        for h in range(1, min(x["h"], 4) + 1)
        for w in (range(1, min(x["w"], machine.registers) + 1) if h == 1 else (x["w"],))
        if fits(instruction, h * w, oc * each, machine, held)
    ]
    return found or [(1, 1, 1)]


def step_cycles(instruction: DotProduct, pixels: int, vectors: int, words: int) -> float:
    """Return the cycles of a step over a block of channels: two dot products and two loads per cycle."""
    # Weights come from the L2 cache, where a vector costs as much as three loads of one word.
    loads = pixels + vectors * words if instruction.takes_lane else (pixels + 3 * vectors) * words
    return max(max(pixels * vectors, CHAINS) * words / 2, loads / 2) + 0.15 * loads + 1


def tile_cycles(instruction: DotProduct, pixels: int, vectors: int, x: dict[str, int]) -> float:
    """Return the cycles of a register tile: its steps, and the initialization and stores of the accumulators."""
    steps = x["ico"] * x["kh"] * x["kw"]
    return steps * step_cycles(instruction, pixels, vectors, x["words"]) + 6 * pixels * vectors


def task_rows(x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine) -> int:
    """Return the rows of a task: the data they read stays in the L2 cache for all filters, and there are enough
    tasks."""
    row = x["w"] * x["ico"] * x["words"] * LANE_BYTES * stride * min(stride, x["kh"])
    chunks = x["n"] * (x["oc"] // tile[2])
    rows = x["h"]
    while rows > tile[0] and (chunks * -(-x["h"] // rows) < 8 * machine.threads or rows * row > machine.l2_bytes // 4):
        rows = -(-rows // 2)
    return -(-rows // tile[0]) * tile[0]


class Conv2dDots(CPUTemplate):
    """A convolution with dot product instructions in a blocked layout."""

    tags = ("conv2d_NCHWc_int8", "conv2d_NCHWc_words")

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the target has a suitable instruction and all dimensions are constant."""
        known = all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis))
        return known and isinstance(op.attrs.get("instruction"), DotProduct)

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        x = extents(op)
        rows = [d for d in (1, 2, 4, 7, 8, 14, 16, 28) if d <= x["h"]]
        found = tiles(x, op.attrs["instruction"], machine)
        return {"tile": found, "rows": rows, "outer": ["filters", "rows", "pixels"]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest estimated cycles, including remainders at the edges."""
        x, instruction = extents(op), op.attrs["instruction"]
        each = x["ob"] // instruction.lanes

        def cost(tile: tuple[int, int, int]) -> float:
            h, w, oc = tile
            parts = pieces(x["h"], x["w"], h, w)
            return sum(n * tile_cycles(instruction, a * b, oc * each, x) for a, b, n in parts) / oc

        tile = min(tiles(x, instruction, machine), key=cost)
        weights = x["oc"] * x["ob"] * x["ico"] * x["words"] * LANE_BYTES * x["kh"] * x["kw"]
        outer = "filters" if weights > machine.l2_bytes // 2 else "rows"
        return {"tile": tile, "rows": task_rows(x, tile, column_stride(op), machine), "outer": outer}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``host`` stores the output, with the epilogue if there is one; ``stage`` accumulates
        it in a register tile."""
        op = stage.op
        padding, is_parallel = pad_stage(planner, stage), access.work(op) >= planner.parallel_points
        x, instruction = extents(op), op.attrs["instruction"]
        task = divide(stage, host, config)
        if is_parallel:
            host.parallel(task)
        *lead, oc, h, w, ob = stage.op.axis
        ic_outer, kh, kw, word, ic = stage.op.reduce_axis
        unrolled = [word, h, w, oc]
        stage.reorder(*lead, ic_outer, kh, kw, *unrolled, ob, ic)
        for axis in unrolled:
            stage.unroll(axis)
        stage.tensorize(ob, dot_products.multiply(instruction, x["ob"], x["words"] * instruction.depth))
        stage.set_scope("local")
        compute_padding(planner, padding, host, task, {"pad": "once"})


TEMPLATE = Conv2dDots()
