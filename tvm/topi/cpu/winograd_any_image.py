"""Winograd convolution of images of dynamic size: runs of consecutive tiles are multiplied together.

A task computes some runs and some groups of filters. It transforms its data once. Then, for each group, it accumulates
the tiles of each run in registers and transforms the results back to pixels. If the filters exceed the L2 cache, it
accumulates one matrix after the other ("outer"), so that only the data of one matrix must stay in the cache for all
groups. Runs past the last tile are skipped; pixels past the edge of the image are computed but not stored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...ir.prim import IterVar
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access, size_class
from ..template import CPUTemplate
from . import winograd
from .winograd import divisors

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The maximum number of tiles in a task. It is small, so that there are tasks for all threads, unless filters come from
# beyond the L2 cache. With multiplications of short vectors, reading the filters again costs little.
MAX_TILES, MAX_TILES_OF_LARGE, MAX_TILES_OF_SHORT = 12, 36, 12
# The minimum number of channels for loading data as vectors with lane operands. With fewer channels, runs are long
# enough without them and use more vectors of filters.
MIN_CHANNELS_OF_LANES = 256
# The assumed side of an image times its channels, and the minimum side. They fit images of 224 pixels and more.
SIDE_CHANNELS, MIN_SIDE = 5120, 14
# The minimum product of channels and filters for which long vectors wait for filters. Direct convolution reads fewer
# filters.
MANY_FILTERS = 1 << 18
# The minimum number of filters for which transforming data twice costs little.
MIN_SHARED_FILTERS = 256


def is_short(machine: Machine) -> bool:
    """Return whether there are many, short registers: the caches then deliver filters in time for the
    multiplications."""
    return machine.registers >= 32 and machine.vector_bytes <= 16


def run_length(channels: int, machine: Machine) -> int:
    """Return the number of tiles in a run. With many registers, long runs use each filter from the L2 cache more often;
    the lengths divide the usual image sizes for these channels into a few whole runs, which threads share evenly. With
    many short registers, runs are shorter, so that small images waste fewer tiles; their data are lanes of vectors."""
    if machine.registers < 32:
        return 4
    if not is_short(machine):
        return 12 if channels < 128 else 10 if channels < 512 else 14
    return 6 if channels < MIN_CHANNELS_OF_LANES or not machine.has_lane_operands else 8 if channels < 512 else 4


def group_sizes(vectors: int, channels: int, machine: Machine) -> int:
    """Return the number of filter vectors in a group: those that fit the registers together with the data of a run."""
    length = run_length(channels, machine)
    data = length + 1 if has_lanes(channels, machine) else 1
    return max(n for n in (1, 2, 3, 4) if vectors % n == 0 and length * n + n + data <= machine.registers)


def has_lanes(channels: int, machine: Machine) -> bool:
    """Return whether the data of a run is loaded as vectors of channels whose lanes are operands."""
    return machine.has_lane_operands and is_short(machine) and channels >= MIN_CHANNELS_OF_LANES


def plan(channels: int, filters: int, blocks: tuple[int, int], machine: Machine) -> tuple[int, int] | None:
    """Return the tile size and the filter vectors in a group, or None if direct convolution is estimated to be about as
    fast. The image size is assumed to be the usual one for this number of channels."""
    if channels * filters >= MANY_FILTERS and not is_short(machine):
        return None
    side = min(max(SIDE_CHANNELS // channels, MIN_SIDE), 56)
    planned = winograd.plan(1, channels, filters, side, side, blocks, machine)
    return None if planned is None else (planned[0], group_sizes(filters // blocks[1], channels, machine))


class WinogradOfAnyImage(CPUTemplate):
    """Winograd's algorithm on runs of tiles."""

    tags = ("winograd_runs",)
    is_vectorized = True

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the channels are constant."""
        return access.are_known((*op.axis[:3], *op.axis[4:], *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        groups, in_block = access.extent_of(op.axis[0]) or 1, access.extent_of(op.reduce_axis[1]) or 1
        return {
            "runs": list(range(1, MAX_TILES_OF_LARGE // (access.extent_of(op.axis[4]) or 1) + 1)),
            "groups": divisors(groups),
            "unroll_ic": [d for d in (1, 2, 4, 8, 16) if in_block % d == 0],
            "ahead": [0, 16, 32, 64, 128, 256],
            "outer": ["groups", "matrices"],
        }

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Choose runs whose data stays in the L2 cache. With many filters, images are usually small; tasks then share
        the filters of a run, and each task transforms the data itself. If filters exceed the cache, choose as many runs
        as is cheaper than reading the filters again."""
        groups, reach, _, _, length, vectors, out_block = (access.extent_of(a) or 1 for a in op.axis)
        in_blocks, in_block = (access.extent_of(a) or 1 for a in op.reduce_axis)
        held = 4 * reach * reach * length * (in_blocks * in_block + vectors * out_block)
        of_filters = 4 * reach * reach * in_blocks * in_block * groups * vectors * out_block
        is_shared = machine.threads > 1 and groups * vectors * out_block >= MIN_SHARED_FILTERS
        is_large = of_filters > machine.l2_bytes
        is_streamed = is_large and not is_short(machine)
        most, room = (MAX_TILES_OF_LARGE, 3 / 2) if is_large and is_shared else (MAX_TILES, 3 / 4)
        most, room = (MAX_TILES_OF_SHORT, 1) if is_short(machine) else (most, room)
        if is_streamed and not is_shared and machine.threads > 1 < groups:
            # In an image of one run, threads can share only the filters.
            if size_class.which([op.axis[3].dom.extent <= 1]):
                most, is_shared = length, True
        unrolled = [u for u in (1, 2, 4, 8, 16)
                    if in_block % u == 0 and u * length * vectors <= 128 and u <= machine.max_unroll]  # fmt: skip
        return {
            "runs": max((n for n in range(2, most // length + 1) if n * held <= room * machine.l2_bytes), default=1),
            "groups": -(-groups // 2) if is_shared else groups,
            "unroll_ic": max(unrolled, default=1),
            "ahead": winograd.PREFETCH_BYTES // (4 * vectors * out_block) if machine.registers >= 32 or is_large else 0,
            # Filters that stream through the L2 cache leave no room in it for the data of all matrices.
            "outer": "matrices" if is_streamed and is_shared else "groups",
        }

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``stage`` accumulates in registers; ``host`` stores the results of a group of
        filters."""
        steps = winograd.steps_of(planner, stage, host)
        planner.placed.update(steps)
        reach, length, vectors = (access.extent_of(host.op.axis[i]) or 1 for i in (1, 4, 5))
        task, group, tile = _tasks(steps.final, config, reach - 2, length, vectors)
        if access.work(stage.op) >= planner.parallel_points:
            steps.final.parallel(task)
        for part, order in ((steps.result_across, (0, 1, 2, 3, 4)), (steps.result_down, (0, 1, 2, 3, 5, 4, 6))):
            part.compute_at(steps.final, tile)
            winograd.in_registers(part, order)
        steps.across.compute_at(steps.final, task)
        host.compute_at(steps.final, task if config["outer"] == "matrices" else group)
        channels = math.prod(access.extent_of(a) or 1 for a in stage.op.reduce_axis)
        lanes = planner.machine.lanes("float32")
        is_whole = config["unroll_ic"] % lanes == 0 and has_lanes(channels, planner.machine)
        _reduce_channels(stage, host, config, lanes if is_whole else 0)
        _transform_data(steps)


def _tasks(
    final: Stage, config: dict[str, Any], tile: int, length: int, vectors: int
) -> tuple[IterVar, IterVar, IterVar]:
    """Return the loops of tasks, of groups in a task, and of tiles and vectors in a group."""
    n, filters, y, x, lane = final.op.axis
    group, vector = final.split(filters, factor=vectors)
    group_outer, group = final.split(group, factor=config["groups"])
    row, y = final.split(y, factor=tile)
    column, x = final.split(x, factor=tile)
    images = [] if access.extent_of(n) == 1 else [n]
    final.reorder(group_outer, group, n, row, column, vector, y, x, lane)
    runs, of_run = final.split(final.fuse(*images, row, column), factor=length)
    part, run = final.split(runs, factor=config["runs"])
    final.reorder(part, group_outer, group, run, of_run, vector, y, x, lane)
    final.unroll(y)
    final.unroll(x)
    final.vectorize(lane)
    return final.fuse(part, group_outer), group, vector


def _reduce_channels(stage: Stage, host: Stage, config: dict[str, Any], lanes: int) -> None:
    group, a, b, run, tile, vector, lane = host.op.axis
    if config["outer"] == "matrices":
        host.reorder(a, b, group, run, tile, vector, lane)
    for axis in (tile, vector):
        host.unroll(axis)
    host.vectorize(lane)
    stage.compute_at(host, run)
    *outside, tile, vector, lane = stage.op.axis
    ic_outer, ic_inner = stage.op.reduce_axis
    ic_inner, unrolled = stage.split(ic_inner, factor=config["unroll_ic"])
    stage.reorder(*outside, ic_outer, ic_inner, unrolled, tile, vector, lane)
    for axis in (unrolled, tile, vector):
        stage.unroll(axis)
    stage.vectorize(lane)
    if lanes:
        stage.pragma(unrolled, "lane_operands", lanes)
    if config["ahead"]:
        stage.prefetch(stage.op.input_tensors[-1], unrolled, config["ahead"])
    stage.set_scope("local")


def _transform_data(steps: winograd.Steps) -> None:
    a, b, block, run, tile, lane = steps.across.op.axis
    steps.across.reorder(block, run, tile, a, b, lane)
    steps.across.unroll(a)
    steps.across.unroll(b)
    steps.across.vectorize(lane)
    steps.down.compute_at(steps.across, tile)
    winograd.in_registers(steps.down, (0, 1, 2, 4, 3, 5))
    steps.padded.compute_at(steps.across, tile)
    steps.padded.vectorize(steps.padded.op.axis[-1])


TEMPLATE = WinogradOfAnyImage()
