"""Direct convolution in a blocked layout with 2x2 matmul instructions (``smmla``, ``bfmmla``), which multiply pairs of
pixels with pairs of filters.

They compute twice as many products as dot product instructions. The kernel has words of twice as many channels; pixels
are paired in registers. The accumulators of a register tile have a layout of their own, so one intrinsic covers the
tile, all channels and all taps. Register tiles must therefore divide the image.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any

from ...ir.prim import IntImm
from ...target import Target
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import pair_products
from .conv2d import compute_padding, divide, pad_stage
from .conv2d_dots import extents, task_rows
from .pair_products import PAIR, PairProduct

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The most accumulators of a register tile, and with the vectors of a step of k: the paired pixels of both words.
MAX_SUMS, MAX_VECTORS = 24, 30
# The most rows and pixels of a register tile.
MAX_TILE_ROWS, MAX_PIXELS = 4, 14
# The maximum share of the vector instructions of dot products for which the instructions are used.
MAX_SHARE = 0.8


def tiles(height: int, width: int, block: int) -> list[tuple[int, int, int]]:
    """Return the register tiles (rows, columns, filters) that divide the image and the block of filters and fit the
    registers."""

    def fits(pixels: int, filters: int) -> bool:
        pairs = -(-pixels // PAIR)
        sums = pairs * filters // PAIR
        return pixels <= MAX_PIXELS and sums <= MAX_SUMS and sums + 2 * pairs <= MAX_VECTORS

    return [
        (h, w, filters)
        for filters in range(PAIR, block + 1, PAIR)
        for h in range(1, min(height, MAX_TILE_ROWS) + 1)
        for w in range(1, min(width, MAX_PIXELS) + 1)
        if block % filters == 0 and height % h == 0 and width % w == 0 and fits(h * w, filters)
    ]


def _vector_instructions(tile: tuple[int, int, int]) -> int:
    """Return the instructions of a word of channels that are not loads: products, and permutations of pixels."""
    h, w, filters = tile
    return -(-h * w // PAIR) * (filters // PAIR + 1)


def cost(tile: tuple[int, int, int]) -> float:
    """Return the estimated cycles of a product of a pixel and a filter: two vector instructions and two loads in a
    cycle, and a share of the loads beside the instructions."""
    h, w, filters = tile
    loads = filters / PAIR + h * w / PAIR
    return (max(_vector_instructions(tile), loads) / 2 + 0.15 * loads) / (h * w * filters)


def instruction_for(
    target: Target | None, data: str, weight: str, channels: int, filters: int, image: tuple[Any, Any]
) -> PairProduct | None:
    """Return the target's instruction for a convolution with these blocks of channels and filters and size of the
    output, or None if it is not profitable."""
    found = pair_products.pair_product(target, data, weight)
    if found is None or not all(isinstance(d, (int, IntImm)) for d in image):
        return None
    if channels % found.depth:
        return None
    # A dot product instruction multiplies half of a word of one pixel with four filters.
    shares = [_vector_instructions(t) / (t[0] * t[1] * t[2] / 2) for t in tiles(*map(int, image), filters)]
    return found if min(shares, default=1) <= MAX_SHARE else None


class Conv2dPairs(CPUTemplate):
    """A convolution with 2x2 matmul instructions in a blocked layout."""

    tags = ("conv2d_NCHWc_int8", "conv2d_NCHWc_words")

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the instruction was chosen for the convolution."""
        return isinstance(op.attrs.get("instruction"), PairProduct)

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        x = extents(op)
        found = tiles(x["h"], x["w"], x["ob"])
        # Tasks consist of whole register tiles of any of these heights.
        unit = lcm(*(h for h, _, _ in found))
        rows = [d for d in range(unit, x["h"] + 1, unit) if x["h"] % d == 0]
        return {"tile": found, "rows": rows, "outer": ["filters", "rows", "pixels"]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest estimated cycles."""
        x = extents(op)
        tile = min(tiles(x["h"], x["w"], x["ob"]), key=cost)
        wanted = task_rows(x, (tile[0], tile[1], 1), op.attrs["window"].strides[1], machine)
        rows = max(d for d in range(tile[0], x["h"] + 1, tile[0]) if x["h"] % d == 0 and d <= max(wanted, tile[0]))
        depth = x["words"] * op.attrs["instruction"].depth
        weights = x["oc"] * x["ob"] * x["ico"] * depth * x["kh"] * x["kw"]
        return {"tile": tile, "rows": rows, "outer": "filters" if weights > machine.l2_bytes // 2 else "rows"}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``host`` stores the output, with the epilogue if there is one; ``stage`` accumulates
        a tile of pixels for a block of filters, in parts whose accumulators fit the registers."""
        op, x = stage.op, extents(stage.op)
        padding, is_parallel = pad_stage(planner, stage), access.work(op) >= planner.parallel_points
        *tile, filters = config["tile"]
        task = divide(stage, host, {**config, "tile": (*tile, 1)})
        if is_parallel:
            host.parallel(task)
        *lead, h, w, ob = stage.op.axis
        part, ob = stage.split(ob, factor=filters)
        stage.reorder(*lead, part, h, w, ob, *stage.op.reduce_axis)
        instruction, window = op.attrs["instruction"], op.attrs["window"]
        stage.tensorize(h, pair_products.convolve(instruction, tuple(tile), filters, x["ico"], x["words"], window))
        stage.set_scope("local")
        compute_padding(planner, padding, host, task, {"pad": "once"})


TEMPLATE = Conv2dPairs()
