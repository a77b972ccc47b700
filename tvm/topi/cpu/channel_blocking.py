"""Channel blocking of CPU convolutions: the data of a channel block stays in the caches while it is used.

A task computes some rows of pixels and some tiles of filters. It finishes one block of input channels for all of them
before it starts the next block, and accumulates partial sums in a buffer that the epilogue reads. The weights of a tile
of filters then stay in the L1 cache for all pixels of the task, and the data stays in the L2 cache for all its filters.
With a 1x1 window, the data of a channel block is first copied to contiguous memory: its channels are a whole plane
apart, and planes at distances of a power of two map to the same cache sets. The weights of filters are copied as well,
because all weights of a channel block together would not stay in the L2 cache.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from ...ir.prim import IterVar
from ...te.schedule import Stage

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The minimum number of multiplications of a channel block per accumulator, which amortizes the load and the store of
# the accumulator.
MIN_STEPS = 128
# The minimum associativity of the L2 cache, and the minimum number of filter tiles for which cache conflicts cost more
# than a copy.
WAYS, MIN_FILTER_TILES = 8, 4
# The minimum number of pixels for channel blocking. With fewer pixels the kernel is bound by weights from memory, and a
# reduction over all channels prefetches them earlier.
MIN_PIXELS = 256
# Bandwidth of one thread beyond the L2 cache, in bytes per cycle: of data, including its latency, and of weights, which
# are streamed.
DATA_BYTES_PER_CYCLE, WEIGHT_BYTES_PER_CYCLE = 8, 16


def pays(x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine) -> bool:
    """Return whether operands that are read repeatedly do not stay in the L2 cache: either data that all filters read
    together with weights that all pixels read, or channels of a pixel that map to too few sets."""
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
    """Return the distance in the L2 cache between adjacent channels of a pixel. Planes at a distance of a large power
    of two use few cache sets."""
    return gcd(4 * x["ici"] * x["h"] * x["w"] * stride * stride, machine.l2_bytes // WAYS)


def block_channels(x: dict[str, int]) -> int:
    """Return the number of vectors of input channels in a channel block: the fewest that are enough and divide the
    channels evenly."""
    each = x["ici"] * x["kh"] * x["kw"]
    return next(d for d in range(1, x["ico"] + 1) if x["ico"] % d == 0 and (d * each >= MIN_STEPS or d == x["ico"]))


def pixels_read(x: dict[str, int], rows: int, stride: int) -> int:
    """Return the number of data pixels that the given rows of the output read, without padding."""
    return rows * x["w"] * min(stride, x["kh"]) * min(stride, x["kw"])


def rows_and_filters(
    x: dict[str, int], tile: tuple[int, int, int], stride: int, machine: Machine, rows: int = 0
) -> tuple[int, int]:
    """Return the rows and filter tiles of a task (``rows`` is the number of rows if given). The choice minimizes the
    traffic beyond the L2 cache of the busiest thread, with enough tasks for all threads and accumulators that fit the
    L2 cache."""
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
    """Split the reduction of ``stage`` into channel blocks that are accumulated. Return the stage of one block on a
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
