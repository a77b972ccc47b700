"""Convolutions over many channels, summed up in parts: what a part reads stays in the caches while it is used.

A task owns some rows of pixels and some tiles of filters. It finishes a few channels for all of them before it begins
the next, and adds the parts up in a buffer of its own, which whatever follows the convolution reads. The weights of a
tile of filters then are in the first cache for all pixels of the task, and the data in the second for all its filters.
With a window of one element it is the other way round: a row of data is copied together, because its channels lie
as far apart as a whole plane, where powers of two meet in the same places of a cache.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from ...ir.prim import IterVar
from ...te.schedule import Stage

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# Steps of a part, at least: its sums are loaded, added and stored once for all of them.
STEPS = 128
# Lines that the second cache holds for one place, at least, and tiles of filters from which on they are missed.
WAYS, AGAIN = 8, 4
# Pixels that weights must be used for: where they are fewer, weights from memory are what is waited for, and sums over
# all channels fetch them further ahead.
FEW_PIXELS = 256
# Bytes a cycle that a thread gets from beyond the second cache: data that is waited for, weights that are streamed.
DATA_BYTES, WEIGHT_BYTES = 8, 16


def pays(x: dict[str, int], tile: tuple[int, int, int], step: int, machine: Machine) -> bool:
    """Whether what is read again and again does not stay in the second cache: data that all filters read beside weights
    that all pixels read, or channels of a pixel that meet in too few places of it."""
    if x["groups"] > 1 or x["h"] * x["w"] < FEW_PIXELS or channels_of_part(x) == x["ico"]:
        return False
    terms = 4 * x["ico"] * x["ici"]
    window = x["kh"] * x["kw"]
    if terms * x["oc"] * x["ob"] * window > machine.l2_bytes // 2:
        panel = terms * window * tile[2] * x["ob"]
        return terms * pixels_read(x, x["h"], step) + panel > machine.l2_bytes * 3 // 4
    return window == 1 and x["oc"] >= AGAIN * tile[2] and x["ico"] * period(x, step, machine) > machine.l2_bytes // 2


def period(x: dict[str, int], step: int, machine: Machine) -> int:
    """The distance in the second cache at which neighbouring channels of a pixel lie: planes that are a large power of
    two apart leave most of it unused."""
    return gcd(4 * x["ici"] * x["h"] * x["w"] * step * step, machine.l2_bytes // WAYS)


def channels_of_part(x: dict[str, int]) -> int:
    """Blocks of channels in a part: the fewest that make it long enough, in equal parts."""
    each = x["ici"] * x["kh"] * x["kw"]
    return next(d for d in range(1, x["ico"] + 1) if x["ico"] % d == 0 and (d * each >= STEPS or d == x["ico"]))


def pixels_read(x: dict[str, int], rows: int, step: int) -> int:
    """Pixels of the data that some rows of results read, padding not counted."""
    return rows * x["w"] * min(step, x["kh"]) * min(step, x["kw"])


def rows_and_filters(
    x: dict[str, int], tile: tuple[int, int, int], step: int, machine: Machine, rows: int = 0
) -> tuple[int, int]:
    """Rows and tiles of filters of a task (``rows`` where they are given): the least that is read from afar by the
    thread that has most to do, with enough tasks to share out and sums that leave room in the second cache."""
    tiles = x["oc"] // tile[2]
    heights = [rows] if rows else [r for r in range(tile[0], x["h"] + 1, tile[0]) if x["h"] % r == 0] or [x["h"]]
    options = [(r, f) for r in heights for f in range(1, tiles + 1) if tiles % f == 0]

    def cost(option: tuple[int, int]) -> tuple[bool, bool, float]:
        r, f = option
        pixels, filters = r * x["w"], f * tile[2] * x["ob"]
        window = x["kh"] * x["kw"]
        tasks = x["n"] * -(-x["h"] // r) * (tiles // f)
        products = pixels * filters * window / x["ob"] / 2
        far = 4 * pixels_read(x, r, step) / DATA_BYTES + 4 * filters * window / WEIGHT_BYTES
        turns = -(-tasks // machine.threads)
        return tasks < 4 * machine.threads, 4 * pixels * filters > machine.l2_bytes // 4, turns * (products + far)

    return min(options, key=cost)


def divide(
    planner: Planner, stage: Stage, host: Stage, config: dict[str, Any], x: dict[str, int], step: int
) -> tuple[Stage, IterVar]:
    """Cut the sum of ``stage`` into parts, which it adds up; gives the stage of one part on a tile of registers, and
    the loop of tasks."""
    s, op = planner.s, stage.op
    tile_h, tile_w, tile_oc = config["tile"]
    rows, filters = rows_and_filters(x, config["tile"], step, planner.machine, min(config["rows"], x["h"]))
    part, _ = stage.split(op.reduce_axis[0], factor=channels_of_part(x))
    tile = s[s.rfactor(op.output(0), part, 0)]
    n, oc, h, w, ob = host.op.axis
    oc_outer, oc = host.split(oc, factor=filters * tile_oc)
    h_outer, h = host.split(h, factor=rows)
    host.reorder(n, h_outer, oc_outer, oc, h, w, ob)
    host.vectorize(ob)
    task = host.fuse(n, h_outer, oc_outer)
    stage.compute_at(host, task)
    n, oc, h, w, ob = stage.op.axis
    (part,) = stage.op.reduce_axis
    oc_outer, oc_tile = stage.split(oc, factor=tile_oc)
    h_outer, h_tile = stage.split(h, factor=tile_h)
    w_outer, w_tile = stage.split(w, factor=tile_w)
    single = x["kh"] == x["kw"] == 1
    outer = [h_outer, oc_outer] if single else [oc_outer, h_outer]
    stage.reorder(n, part, *outer, w_outer, oc_tile, h_tile, w_tile, ob)
    stage.vectorize(ob)
    for axis in (oc_tile, h_tile, w_tile):
        stage.unroll(axis)
    for axis, size, length in ((h_outer, rows, tile_h), (w_outer, x["w"], tile_w)):
        if size % length:
            stage.pragma(axis, "loop_partition_hint", True)
    tile.compute_at(stage, w_outer)
    if single:
        copy = s[s.cache_read(tile.op.input_tensors[0], "global", [tile.op])]
        copy.compute_at(stage, h_outer)
        copy.vectorize(copy.op.axis[-1])
        planner.placed.add(copy)
    return tile, task
