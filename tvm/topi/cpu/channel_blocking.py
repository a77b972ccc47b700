"""Convolutions over many channels in blocks of channels: what a block reads stays in the caches while it is used.

A task owns some rows of pixels and some tiles of filters. It finishes one block of input channels for all of them
before it begins the next, and accumulates the partial sums in a buffer, which the epilogue reads. The weights of a tile
of filters then stay in the L1 cache for all pixels of the task, and the data in the L2 cache for all its filters. With
a window of one element the data of a channel block is copied to contiguous memory first, because its channels are a
whole plane apart, and planes that are powers of two apart map to the same cache sets. So do the weights of filters: all
of a channel block together would not stay in the L2 cache.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from ...ir.prim import IterVar
from ...te.schedule import Stage

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The least multiplications of a channel block for one accumulator, which is loaded and stored once for all of them.
MIN_STEPS = 128
# The least associativity of the L2 cache, and the least tiles of filters for which its conflicts cost more than a copy.
WAYS, MIN_FILTER_TILES = 8, 4
# The least pixels for which blocking pays: with fewer, weights from memory are the bound, and reductions over all
# channels prefetch them further ahead.
MIN_PIXELS = 256
# Bytes per cycle of a thread from beyond the L2 cache: of data, with its latency, and of weights, which are streamed.
DATA_BYTES_PER_CYCLE, WEIGHT_BYTES_PER_CYCLE = 8, 16


def pays(x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine) -> bool:
    """Whether what is read repeatedly does not stay in the L2 cache: data that all filters read beside weights that all
    pixels read, or channels of a pixel that map to too few of its sets."""
    if x["groups"] > 1 or x["h"] * x["w"] < MIN_PIXELS or block_channels(x) == x["ico"]:
        return False
    pixel_bytes = 4 * x["ico"] * x["ici"]
    window = x["kh"] * x["kw"]
    if pixel_bytes * x["oc"] * x["ob"] * window > machine.l2_bytes // 2:
        panel = pixel_bytes * window * tile[2] * x["ob"]
        return pixel_bytes * pixels_read(x, x["h"], stride) + panel > machine.l2_bytes * 3 // 4
    conflicts = x["ico"] * period(x, stride, machine) > machine.l2_bytes // 2
    return window == 1 and x["oc"] >= MIN_FILTER_TILES * tile[2] and conflicts


def period(x: dict[str, int], stride: int, machine: Machine) -> int:
    """The distance in the L2 cache of neighbouring channels of a pixel: planes that are a large power of two apart
    leave most of its sets unused."""
    return gcd(4 * x["ici"] * x["h"] * x["w"] * stride * stride, machine.l2_bytes // WAYS)


def block_channels(x: dict[str, int]) -> int:
    """The vectors of input channels in a channel block: the fewest that are enough and divide all of them evenly."""
    each = x["ici"] * x["kh"] * x["kw"]
    return next(d for d in range(1, x["ico"] + 1) if x["ico"] % d == 0 and (d * each >= MIN_STEPS or d == x["ico"]))


def pixels_read(x: dict[str, int], rows: int, stride: int) -> int:
    """Pixels of the data that some rows of the output read, padding not counted."""
    return rows * x["w"] * min(stride, x["kh"]) * min(stride, x["kw"])


def rows_and_filters(
    x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine, rows: int = 0
) -> tuple[int, int]:
    """Rows and tiles of filters of a task (``rows`` where they are given): the least traffic from beyond the L2 cache
    for the thread with most work, with enough tasks for the threads and accumulators that leave room in the L2
    cache."""
    tiles = x["oc"] // tile[2]
    heights = [rows] if rows else [r for r in range(tile[0], x["h"] + 1, tile[0]) if x["h"] % r == 0] or [x["h"]]
    options = [(r, f) for r in heights for f in range(1, tiles + 1) if tiles % f == 0]

    def cost(option: tuple[int, int]) -> tuple[bool, bool, float]:
        r, f = option
        pixels, filters = r * x["w"], f * tile[2] * x["ob"]
        window = x["kh"] * x["kw"]
        tasks = x["n"] * -(-x["h"] // r) * (tiles // f)
        multiplies = pixels * filters * window / x["ob"] / 2
        data = 4 * pixels_read(x, r, stride) / DATA_BYTES_PER_CYCLE
        traffic = data + 4 * filters * window / WEIGHT_BYTES_PER_CYCLE
        turns = -(-tasks // machine.threads)
        return tasks < 4 * machine.threads, 4 * pixels * filters > machine.l2_bytes // 4, turns * (multiplies + traffic)

    return min(options, key=cost)


def divide(
    planner: Planner, stage: Stage, host: Stage, config: dict[str, Any], x: dict[str, int], stride: int
) -> tuple[Stage, IterVar]:
    """Split the reduction of ``stage`` into channel blocks, which it accumulates; returns the stage of one block on a
    register tile, and the loop of tasks."""
    s, op = planner.s, stage.op
    tile_h, tile_w, tile_oc = config["tile"]
    rows, filters = rows_and_filters(x, config["tile"], stride, planner.machine, min(config["rows"], x["h"]))
    block, _ = stage.split(op.reduce_axis[0], factor=block_channels(x))
    tile = s[s.rfactor(op.output(0), block, 0)]
    n, oc, h, w, ob = host.op.axis
    oc_outer, oc = host.split(oc, factor=filters * tile_oc)
    h_outer, h = host.split(h, factor=rows)
    host.reorder(n, h_outer, oc_outer, oc, h, w, ob)
    host.vectorize(ob)
    task = host.fuse(n, h_outer, oc_outer)
    stage.compute_at(host, task)
    n, oc, h, w, ob = stage.op.axis
    (block,) = stage.op.reduce_axis
    oc_outer, oc_tile = stage.split(oc, factor=tile_oc)
    h_outer, h_tile = stage.split(h, factor=tile_h)
    w_outer, w_tile = stage.split(w, factor=tile_w)
    stage.reorder(n, block, oc_outer, h_outer, w_outer, oc_tile, h_tile, w_tile, ob)
    stage.vectorize(ob)
    for axis in (oc_tile, h_tile, w_tile):
        stage.unroll(axis)
    for axis, size, length in ((h_outer, rows, tile_h), (w_outer, x["w"], tile_w)):
        if size % length:
            stage.pragma(axis, "loop_partition_hint", True)
    tile.compute_at(stage, w_outer)
    if x["kh"] == x["kw"] == 1:
        copy = s[s.cache_read(tile.op.input_tensors[0], "global", [tile.op])]
        copy.compute_at(stage, block)
        copy.vectorize(copy.op.axis[-1])
        planner.placed.add(copy)
    return tile, task
