"""Depthwise convolution in a blocked layout: the register tile is a row of pixels of one channel block.

There is no reuse between channels, so the kernel is bound by memory. All taps of the window are unrolled, so that each
loaded vector serves all pixels of the tile that need it, and data is read without a padded copy. The padding taps of
the first and last pixels of a row are then known at compile time, and each row of taps needs one check. If this is not
possible, every task pads its rows into a small buffer. In a row of dynamic length, the last tile starts earlier so that
it is whole; rows shorter than a tile are a size class that computes single pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...te.axes import range_of
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, PlaceholderOp
from .. import access, size_class
from ..template import CPUTemplate
from . import taps
from .conv2d import (
    NOMINAL_SIDE,
    compute_padding,
    image_extents,
    is_image_known,
    pad_stage,
)

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The maximum number of unrolled taps; more make the code too long.
MAX_UNROLLED_TAPS = 25
# The maximum number of taps for which rows of taps are unrolled although some may be padding, which needs a check for
# every row.
MAX_ASKED_TAPS = 9
# Taps are skipped if at most this fraction of them reads data; otherwise unrolling all of them is faster.
MAX_COMPUTED = 0.75


def extents(op: ComputeOp) -> dict[str, int]:
    n, c, h, w, cb = image_extents(op)
    kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {"n": n, "c": c, "h": h, "w": w, "cb": cb, "kh": kh, "kw": kw}


def window(op: ComputeOp) -> list[taps.Taps | None]:
    return taps.window(op, op.axis[2:4], op.reduce_axis)


def tiles(x: dict[str, int], machine: Machine) -> list[tuple[int, int]]:
    """Return the register tiles (rows, columns) that fit the registers together with the weights of a window row."""
    vectors = -(-x["cb"] // machine.lanes("float32"))
    room = max((machine.registers - x["kw"] - 2) // vectors, 1)
    return [(h, w) for h in range(1, min(x["h"], 4) + 1) for w in range(1, min(x["w"], room // h) + 1)]


def any_width_columns(x: dict[str, int], machine: Machine) -> int:
    """Return the number of pixels of a tile for rows of dynamic width."""
    return min(7 if machine.registers >= 32 else 4, max(w for h, w in tiles(x, machine) if h == 1))


def any_height_rows(machine: Machine) -> int:
    """Return the number of rows of a task for dynamic heights: fewer for more threads."""
    return min(max(112 // machine.threads, 8), NOMINAL_SIDE)


def task_rows(x: dict[str, int], machine: Machine) -> int:
    """Return the number of rows of a task: their padded input fits the L2 cache, and there are at least twice as many
    rows as the overlap of adjacent windows. A tall image has as many chunks of rows as threads, or a multiple. If there
    are few tasks, every thread gets the same number."""
    overhang = max(2 * (x["kh"] - 1), 1)
    rows = max(machine.l2_bytes // (x["w"] * x["cb"] * 16), overhang)
    tasks, planes = -(-x["h"] // rows), x["n"] * x["c"]
    if x["h"] >= 4 * machine.threads:
        tasks = -(-tasks // machine.threads) * machine.threads
    while planes * tasks < 4 * machine.threads and tasks < x["h"]:
        tasks += 1
    if planes * tasks < 8 * machine.threads:
        counts = {t: -(-x["h"] // -(-x["h"] // t)) for t in range(tasks, x["h"] // overhang + 1)}
        tasks = next((t for t, count in counts.items() if planes * count % machine.threads == 0), tasks)
    return -(-x["h"] // tasks)


def reads_unpadded(stage: Stage, padding: Stage | None, tile: tuple[int, int]) -> bool:
    """Return whether taps read the data instead of a padded copy. The data must be stored in memory, and the taps of a
    tile of one row must be unrolled."""
    if padding is None:
        return False
    x = extents(stage.op)
    is_stored = all(isinstance(tensor.op, PlaceholderOp) for tensor in padding.op.input_tensors)
    return is_stored and tile[0] == 1 and x["kh"] * x["kw"] <= MAX_UNROLLED_TAPS


class Depthwise(CPUTemplate):
    """A depthwise convolution in a blocked layout."""

    tags = ("depthwise_conv2d_NCHWc",)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the channel block size is constant. The number of blocks may be dynamic if the image size is
        dynamic."""
        return len(op.axis) == 5 and len(op.reduce_axis) == 2 and access.are_known((op.axis[4], *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        x = extents(op)
        return {"tile": tiles(x, machine), "rows": [d for d in (1, 2, 4, 7, 8, 14, 16, 28, 56, 112) if d <= x["h"]]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the configuration with the fewest, longest tiles of one row."""
        x = extents(op)
        if access.extent_of(op.axis[3]) is None:
            columns = any_width_columns(x, machine)
            is_long = size_class.which([range_of(op.axis[3]).extent >= columns])
            return {"tile": (1, columns if is_long else 1), "rows": any_height_rows(machine)}
        if not is_image_known(op):
            return {"tile": max(t for t in tiles(x, machine) if t[0] == 1), "rows": any_height_rows(machine)}

        def cost(tile: tuple[int, int]) -> float:
            # Each tile, including the remainder of a row, loads the pixels by which its windows exceed it.
            full, rest = divmod(x["w"], tile[1])
            return full * max(tile[1], 4) + (max(rest, 4) if rest else 0) + (full + bool(rest)) * (x["kw"] - 1) * 0.5

        # If taps are unrolled, the weights of all taps stay in registers too.
        most = machine.registers * 7 // 16 if x["kh"] * x["kw"] <= MAX_UNROLLED_TAPS else x["w"]
        fit = (t for t in tiles(x, machine) if t[0] == 1 and t[1] <= most)
        return {"tile": min(fit, key=cost), "rows": task_rows(x, machine)}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        height, width = (access.extent_of(a) or NOMINAL_SIDE for a in host.op.axis[2:4])
        n, c, h, w, cb = host.op.axis
        rows, h = host.split(h, factor=min(config["rows"], height))
        tile_h, tile_w = config["tile"]
        h_outer, h_tile = host.split(h, factor=tile_h)
        is_any_width = access.extent_of(w) is None
        w_outer, w_tile = host.split(w, factor=tile_w)
        if is_any_width and tile_w > 1:
            host.overlap(w_outer)
        # A thread computes the same rows as in the preceding and following convolutions over all channels, so that they
        # are in its L2 cache.
        host.reorder(n, rows, c, h_outer, w_outer, h_tile, w_tile, cb)
        host.vectorize(cb)
        for axis in (h_tile, w_tile):
            host.unroll(axis)
        if planner.machine.has_streaming_stores:
            host.prefetch(host.op.output(0), h_tile, 0)
        padding = pad_stage(planner, stage)
        skips = taps.computed_share(window(stage.op), config["tile"], MAX_COMPUTED) < 1
        is_unpadded = not skips and reads_unpadded(stage, padding, config["tile"])
        for axis, size, step, whole in zip((h_outer, w_outer), (height, width), (tile_h, tile_w), host.op.axis[2:4]):
            # A dynamic number of tiles consists of whole tiles; a tile of one row is either inside or outside the
            # image.
            is_known = access.extent_of(whole) is not None
            if is_known and (size % step or is_unpadded and axis is w_outer):
                host.pragma(axis, "loop_partition_hint", True)
        # If the number of tasks is dynamic, the task index does not show that there is only one image.
        images = [] if access.extent_of(n) == 1 and not is_image_known(stage.op) else [n]
        task = host.fuse(*images, rows, c)
        if access.work(stage.op) >= planner.parallel_points:
            host.parallel(task)
        stage.compute_at(host, w_outer)
        self.reduce_taps(stage, skips, is_unpadded)
        if is_unpadded and padding is not None:
            planner.placed.add(padding)
            padding.compute_inline()
        else:
            # Padding that is mostly skipped is computed once for all tasks, only where it is read.
            compute_padding(planner, padding, host, task, {"pad": "once" if skips else "task"})

    def reduce_taps(self, stage: Stage, skips: bool, is_unpadded: bool) -> None:
        """Schedule the reduction over the taps of a tile."""
        n, c, h, w, cb = stage.op.axis
        kh, kw = stage.op.reduce_axis
        stage.reorder(n, c, kh, kw, h, w, cb)
        count = (access.extent_of(kh) or 1) * (access.extent_of(kw) or 1)
        if skips:
            stage.skip_padding(kh)
            stage.skip_padding(kw)
        elif count <= MAX_UNROLLED_TAPS:
            is_any = not is_image_known(stage.op)
            if is_unpadded and (is_any or count > MAX_ASKED_TAPS):
                stage.skip_padding(kh)
            if is_any or not is_unpadded or count <= MAX_ASKED_TAPS:
                stage.unroll(kh)
            stage.unroll(kw)
        for axis in (h, w):
            stage.unroll(axis)
        stage.vectorize(cb)
        stage.set_scope("local")


TEMPLATE = Depthwise()
