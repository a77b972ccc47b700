"""Depthwise int8 convolution in a blocked layout with dot product instructions, which add four products to an
accumulator.

A task pads the rows it needs. The int8 elements of four adjacent pixels are interleaved by channel in registers, so
that one instruction computes four taps of a row for a vector of channels. The register tile has several rows, which
share the interleaved data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from . import dot_products
from .depthwise import task_rows

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The maximum number of dot products in a tile; more make its code too long.
MAX_PRODUCTS = 48


def extents(op: ComputeOp) -> dict[str, int]:
    n, c, h, w, cb = (access.extent_of(a) or 1 for a in op.axis)
    kh, fours, _ = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {"n": n, "c": c, "h": h, "w": w, "cb": cb, "kh": kh, "kw": fours}


def row_stride(op: ComputeOp) -> int:
    """Return the stride of the convolution along columns."""
    load = next(x for x in access.loads(op.body) if x.producer is op.input_tensors[0])
    return access.stride_along(load.indices[2], op.axis[2].var) or 1


class DepthwiseInt8(CPUTemplate):
    """A depthwise int8 convolution in a blocked layout."""

    tags = ("depthwise_conv2d_NCHWc_int8",)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the target has a suitable instruction."""
        return "instruction" in op.attrs

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values. The accumulators and data of a tile (rows, columns) fit the registers
        together with the weights and the temporaries of interleaving."""
        x = extents(op)
        vectors = x["cb"] // op.attrs["instruction"].lanes
        room = (machine.registers - x["kh"] * x["kw"] * vectors - 4) // (2 * vectors)
        tiles = [
            (h, w)
            for h in range(1, min(x["h"], 4) + 1)
            for w in range(1, min(x["w"], 8) + 1)
            if h * w == 1 or h * w <= max(room, 4) and h * w * x["kh"] * x["kw"] * vectors <= MAX_PRODUCTS
        ]
        return {"tile": tiles, "rows": [d for d in (1, 2, 4, 7, 8, 14, 16, 28, 56, 112) if d <= x["h"]]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the tile with the fewest shuffles and dot products, including remainders at the edges."""
        x, step = extents(op), row_stride(op)

        def loads(h: int, w: int) -> int:
            return ((h - 1) * step + x["kh"] if step < x["kh"] else h * x["kh"]) * w * x["kw"]

        def cost(tile: tuple[int, int]) -> float:
            parts = [divmod(size, side) for size, side in zip((x["h"], x["w"]), tile)]
            sizes = [[(side, full)] + ([(rest, 1)] if rest else []) for side, (full, rest) in zip(tile, parts)]
            return sum(
                n * m * (2 * loads(h, w) + h * w * x["kh"] * x["kw"] + max(0, 8 - h * w) + 4)
                for h, n in sizes[0] for w, m in sizes[1]
            )  # fmt: skip

        tile = min(self.space(op, machine)["tile"], key=cost)
        rows = task_rows(x, machine)
        return {"tile": tile, "rows": min(-(-rows // tile[0]) * tile[0], x["h"])}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``host`` stores the output, with the epilogue if there is one; ``stage`` accumulates
        it in a register tile."""
        op, x = stage.op, extents(stage.op)
        instruction = op.attrs["instruction"]
        n, c, h, w, cb = host.op.axis
        rows, h = host.split(h, factor=min(config["rows"], x["h"]))
        tile_h, tile_w = config["tile"]
        h_outer, h_tile = host.split(h, factor=tile_h)
        w_outer, w_tile = host.split(w, factor=tile_w)
        host.reorder(n, rows, c, h_outer, w_outer, h_tile, w_tile, cb)
        host.vectorize(cb)
        for axis in (h_tile, w_tile):
            host.unroll(axis)
        for axis, size, step in ((h_outer, x["h"], tile_h), (w_outer, x["w"], tile_w)):
            if size % step or axis is h_outer and x["h"] % config["rows"]:
                host.pragma(axis, "loop_partition_hint", True)
        task = host.fuse(n, rows, c)
        if access.work(op) >= planner.parallel_points:
            host.parallel(task)
        stage.compute_at(host, w_outer)
        n, c, h, w, cb = stage.op.axis
        kh, four, inner = stage.op.reduce_axis
        stage.reorder(n, c, kh, four, h, w, cb, inner)
        for axis in (kh, four, h, w):
            stage.unroll(axis)
        stage.tensorize(cb, dot_products.multiply_each(instruction, x["cb"]))
        stage.set_scope("local")
        together = planner.s[stage.op.input_tensors[0]]
        padding = planner.s[together.op.input_tensors[0]]
        planner.placed.update((together, padding))
        padding.compute_at(host, task)
        together.compute_at(stage, kh)
        for axis in together.op.axis[2:4]:
            together.unroll(axis)
        together.tensorize(together.op.axis[4], dot_products.interleave_pixels(instruction.data, x["cb"]))
        together.set_scope("local")
        padding.vectorize(padding.op.axis[-1])
        padding.pragma(padding.op.axis[3], "loop_partition_hint", True)


TEMPLATE = DepthwiseInt8()
