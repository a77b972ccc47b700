"""Winograd convolution: a task transforms a block of tiles, multiplies it and transforms the result back while all of
it is in the caches.

A task computes ``images`` x ``rows`` x ``columns`` tiles and ``groups`` groups of filters (a group is the vectors of
filters that share a register tile). It transforms its data once. Then, for each group, it accumulates ``tiles`` tiles
at a time in registers and transforms the results back to pixels, on which the epilogue is computed. If there are so
many filters that the threads would wait for them, all data is transformed in advance ("data" is "once"). A task then
computes more tiles than fit the L2 cache, where the accumulators of all its groups are stored instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from .cycles import tile_cycles

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

# The cycles to transform a vector of one tile: of its data (with padding), and of its outputs.
TRANSFORM_CYCLES = {2: (80, 45), 4: (280, 130)}
# Bytes per cycle from memory (for all threads), and from the L3 cache (for each thread).
MEMORY_BYTES_PER_CYCLE, L3_BYTES_PER_CYCLE = 8, 16
# Bytes per cycle of transformed data that a thread writes for other threads.
WRITE_BYTES_PER_CYCLE = 2
# The bytes read from the L2 cache per additional cycle.
L2_BYTES_PER_CYCLE = 40
# The prefetch distance of filters. A task uses each filter once, too early for the hardware prefetcher.
PREFETCH_BYTES = 8192
# The maximum traffic relative to the work of tasks that transform their own data; with more traffic, tasks are made
# larger.
MOST_TRAFFIC = 0.75
# The factor by which an alternative must be estimated to be faster than the default (direct convolution, or tasks that
# transform their own data).
MARGIN = 1.15


class Problem(NamedTuple):
    """The dimensions of a convolution in tiles. Channels and filters are counted in vectors; ``vectors`` of filters
    form a group."""

    batch: int
    rows: int
    columns: int
    tile: int
    in_blocks: int
    in_block: int
    groups: int
    vectors: int
    out_block: int

    @property
    def channels(self) -> int:
        return self.in_blocks * self.in_block

    @property
    def matrices(self) -> int:
        return (self.tile + 2) ** 2


def problem_of(op: ComputeOp) -> Problem:
    groups, reach, _, batch, _, _, vectors, out_block = (access.extent_of(a) or 1 for a in op.axis)
    in_blocks, in_block = (access.extent_of(a) or 1 for a in op.reduce_axis)
    rows, columns = (int(op.attrs[k]) for k in ("rows", "columns"))
    return Problem(batch, rows, columns, reach - 2, in_blocks, in_block, groups, vectors, out_block)


def plan(
    batch: int,
    channels: int,
    filters: int,
    height: int,
    width: int,
    blocks: tuple[int, int],
    machine: Machine,
    direct: float | None = None,
) -> tuple[int, int] | None:
    """Return the tile size and the vectors of filters in a group for a 3x3 convolution with ``height`` x ``width``
    output pixels, or None if direct convolution is estimated to be about as fast. ``blocks`` are the block sizes of
    channels and filters. ``direct`` gives the cycles of the direct convolution if they do not follow from these
    dimensions."""
    sizes = (batch, channels, filters, height, width)
    (cycles, vectors), tile = min((group(sizes, blocks, tile, machine), tile) for tile in TRANSFORM_CYCLES)
    if cycles * MARGIN > (direct_cycles(*sizes, blocks[1], machine) if direct is None else direct):
        return None
    return tile, vectors


def group(
    sizes: tuple[int, int, int, int, int], blocks: tuple[int, int], tile: int, machine: Machine
) -> tuple[float, int]:
    """Return the estimated cycles, and the vectors of filters in a group, for a tile size. The arguments are those of
    ``plan``."""
    batch, channels, filters, height, width = sizes
    in_block, out_block = blocks
    options = []
    for vectors in group_sizes(filters // out_block):
        p = Problem(batch, -(-height // tile), -(-width // tile), tile, channels // in_block, in_block,
                    filters // out_block // vectors, vectors, out_block)  # fmt: skip
        options.append((best(p, machine)[0], vectors))
    return min(options)


def group_sizes(vectors: int) -> list[int]:
    """Return the possible numbers of filter vectors in a group. Data that is used for only one vector makes the kernel
    bound by loads."""
    return [n for n in (2, 3) if vectors % n == 0] or [1]


def direct_cycles(
    batch: int,
    channels: int,
    filters: int,
    height: int,
    width: int,
    out_block: int,
    machine: Machine,
    share: float = 1.0,
) -> float:
    """Return the cycles of direct convolution: two vector multiplications per cycle most of the time, and its weights
    once from memory. ``share`` is the fraction of multiplications that read data instead of padding."""
    multiplies = batch * height * width * 9 * channels * (filters // out_block) * share
    weights = 36 * channels * filters
    traffic = weights / MEMORY_BYTES_PER_CYCLE + weights / machine.threads / L3_BYTES_PER_CYCLE
    return _overlapped(multiplies / 2 / 0.9 / machine.threads, traffic)


def copy_cycles(elements: int) -> float:
    """Return the cycles to read and write this number of elements once more."""
    return 8 * elements / MEMORY_BYTES_PER_CYCLE


def _overlapped(work: float, traffic: float) -> float:
    """Return the cycles of work and traffic that overlap: filters are prefetched while others are multiplied, except at
    the start of each sequence of filters."""
    return max(work, traffic) + 0.15 * min(work, traffic)


def best(p: Problem, machine: Machine) -> tuple[float, dict[str, Any]]:
    """Return the configuration with the fewest estimated cycles, and those cycles."""
    cycles, config, (work, traffic) = min(task_options(p, machine), key=lambda option: option[0])
    if traffic > MOST_TRAFFIC * work:
        # Threads that wait for filters cannot multiply at the same time.
        split = min(split_options(p, machine), key=lambda option: option[0], default=None)
        if split is not None and split[0] * MARGIN < work + traffic:
            config = split[1]
    # Short bodies are unrolled until the loop overhead is small.
    fits = [
        u
        for u in (1, 2, 4, 8, 16)
        if p.in_block % u == 0 and u * config["tiles"] * p.vectors <= 128 and u <= machine.max_unroll
    ]
    ahead = max(PREFETCH_BYTES // (4 * p.vectors * p.out_block), 1)
    return cycles, {**config, "unroll_ic": max(fits, default=1), "ahead": ahead}


def task_options(p: Problem, machine: Machine) -> Iterator[tuple[float, dict[str, Any], tuple[float, float]]]:
    """Yield the configurations whose tasks transform the data of their tiles, with their cycles, and the cycles of work
    and traffic."""
    for images, rows, columns in blocks_of_tiles(p, machine):
        tiles, each = register_tile((images, rows, columns), p, machine)
        for groups in divisors(p.groups):
            config = {"images": images, "rows": rows, "columns": columns, "groups": groups, "tiles": tiles}
            costs = task_cycles(p, config, each, machine)
            # Values that differ only by rounding are equal; the first of them is chosen.
            yield round(_overlapped(*costs), 6), {**config, "data": "task"}, costs


def split_options(p: Problem, machine: Machine) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the configurations that transform all data in advance, with their cycles. Their tasks have many tiles,
    whose accumulators stay in the L2 cache together with the data of a matrix."""
    blocks = [(1, r, p.columns) for r in divisors(p.rows)] + [(n, p.rows, p.columns) for n in divisors(p.batch)[1:]]
    for images, rows, columns in blocks:
        tiles, each = register_tile((images, rows, columns), p, machine)
        for groups in divisors(p.groups):
            if matrix_bytes(p, images * rows * columns, groups) <= machine.l2_bytes * 3 // 4:
                config = {"images": images, "rows": rows, "columns": columns, "groups": groups, "tiles": tiles}
                yield split_cycles(p, config, each, machine), {**config, "data": "once"}


def blocks_of_tiles(p: Problem, machine: Machine) -> list[tuple[int, int, int]]:
    """Return the images, rows and columns of a task's block: a slice of a row, rows, or images, as long as the
    transformed data stays in the L2 cache. The smallest block is always included."""
    slices = [(1, 1, c) for c in range(1, p.columns)]
    rows = [(1, r, p.columns) for r in range(1, p.rows + 1)]
    images = [(n, p.rows, p.columns) for n in divisors(p.batch)[1:]]
    least = slices[:1] or rows[:1]
    return least + [b for b in (*slices[1:], *rows, *images) if held_bytes(p, b[0] * b[1] * b[2]) <= machine.l2_bytes]


def held_bytes(p: Problem, tiles: int) -> int:
    """Return the bytes of the transformed data of a block and of the accumulators of one group."""
    return 4 * p.matrices * tiles * (p.channels + p.vectors * p.out_block)


def matrix_bytes(p: Problem, tiles: int, groups: int) -> int:
    """Return the bytes that a task with already transformed data keeps in the L2 cache: its accumulators, and the data
    and filters of a group for one matrix."""
    return 4 * (p.matrices * tiles * groups * p.vectors * p.out_block + (tiles + p.vectors * p.out_block) * p.channels)


def register_tile(block: tuple[int, int, int], p: Problem, machine: Machine) -> tuple[int, float]:
    """Return the number of tiles in a register tile, and the cycles of each tile for one of the matrices."""
    images, rows, columns = block
    # A slice of a row, rows or images. Other numbers of tiles are not boxes, so a larger box would be computed.
    boxes = divisors(columns) + [columns * d for d in divisors(rows)] + [rows * columns * d for d in divisors(images)]
    fits = [t for t in boxes if t == 1 or t * p.vectors + p.vectors + 1 <= machine.registers]
    cost = {t: sum_cycles(t, p, machine) / t for t in fits}
    tiles = min(fits, key=lambda t: cost[t])
    return tiles, cost[tiles]


def sum_cycles(tiles: int, p: Problem, machine: Machine) -> float:
    """Return the cycles of a register tile for one of the matrices: those of direct convolution and of the prefetches,
    and more if the filters of a matrix exceed the L1 cache."""
    filters = 4 * p.vectors * p.out_block
    stay = filters * p.channels <= machine.l1_bytes * 3 // 4
    extra = 1.25 + (0 if stay else filters / L2_BYTES_PER_CYCLE)
    return tile_cycles(tiles, p.vectors, p.channels) + p.channels * extra


def tasks_of(p: Problem, config: dict[str, Any], machine: Machine) -> tuple[int, int, int, int]:
    """Return the tiles of a block, the blocks, the tasks that share a block, and the tasks of the busiest thread."""
    block = config["images"] * config["rows"] * config["columns"]
    blocks = p.batch // config["images"] * -(-p.rows // config["rows"]) * -(-p.columns // config["columns"])
    shares = p.groups // config["groups"]
    return block, blocks, shares, -(-blocks * shares // machine.threads)


def task_cycles(p: Problem, config: dict[str, Any], each: float, machine: Machine) -> tuple[float, float]:
    """Return the cycles of the convolution: those of the tasks of the busiest thread, and those of the filter
    traffic."""
    block, _, shares, turns = tasks_of(p, config, machine)
    data, result = TRANSFORM_CYCLES[p.tile]
    work = block * (p.matrices * config["groups"] * each + p.in_blocks * data + config["groups"] * p.vectors * result)
    share = 4 * p.matrices * p.channels * config["groups"] * p.vectors * p.out_block
    # All filters are read once from memory, once by each thread that uses them, and again for each block unless they
    # stay in the cache.
    held = held_bytes(p, block)
    times = turns if held + share > machine.l2_bytes else min(turns, shares)
    traffic = share * shares / MEMORY_BYTES_PER_CYCLE + times * share / L3_BYTES_PER_CYCLE
    # Filters that stream through the L2 cache evict data that every group reads.
    lost = max(held - machine.l2_bytes // 4, 0) * config["groups"] / L3_BYTES_PER_CYCLE
    return turns * (work + lost), traffic


def split_cycles(p: Problem, config: dict[str, Any], each: float, machine: Machine) -> float:
    """Return the cycles of the convolution if one parallel loop transforms the data and another one multiplies: each
    task reads the data of its block and its filters."""
    block, blocks, shares, turns = tasks_of(p, config, machine)
    data, result = TRANSFORM_CYCLES[p.tile]
    transformed = 4 * p.matrices * block * p.channels
    work = block * config["groups"] * (p.matrices * each + p.vectors * result) + transformed / L3_BYTES_PER_CYCLE
    share = 4 * p.matrices * p.channels * config["groups"] * p.vectors * p.out_block
    traffic = share * shares / MEMORY_BYTES_PER_CYCLE + turns * share / L3_BYTES_PER_CYCLE
    transform = blocks * (block * p.in_blocks * data + transformed / WRITE_BYTES_PER_CYCLE) / machine.threads
    return transform + turns * work + traffic


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


# -- the schedule ------------------------------------------------------------------------------------------------------


def _reader(planner: Planner, stage: Stage) -> Stage:
    (consumer,) = planner.s.consumers(stage)
    return consumer


class Steps(NamedTuple):
    """The stages around the matmuls: the store of the pixels with the epilogue, the transforms of outputs and data, and
    the padded data."""

    final: Stage
    result: Stage
    result_across: Stage
    result_down: Stage
    across: Stage
    down: Stage
    padded: Stage


def steps_of(planner: Planner, stage: Stage, host: Stage) -> Steps:
    """Return the stages around the matmuls. Elementwise operations after the convolution are computed where it is
    stored."""
    s = planner.s
    result_down = _reader(planner, host)
    result_across = _reader(planner, result_down)
    result = _reader(planner, result_across)
    final = access.own_consumer(s, result, s.normalize())
    if final is not None:
        result.compute_inline()
    across = next(s[t] for t in stage.op.input_tensors if isinstance(t.op, ComputeOp))
    down = next(s[t] for t in across.op.input_tensors)
    padded = next(s[t] for t in down.op.input_tensors)
    return Steps(result if final is None else final, result, result_across, result_down, across, down, padded)


def _tasks(final: Stage, config: dict[str, Any], tile: int, vectors: int) -> tuple:
    """Return the loops of tasks, of groups in a task, and of tiles and vectors in a group."""
    n, filters, y, x, lane = final.op.axis
    n_outer, n = final.split(n, factor=config["images"])
    group, vector = final.split(filters, factor=vectors)
    group_outer, group = final.split(group, factor=config["groups"])
    y_outer, y = final.split(y, factor=config["rows"] * tile)
    x_outer, x = final.split(x, factor=config["columns"] * tile)
    row, y = final.split(y, factor=tile)
    column, x = final.split(x, factor=tile)
    final.reorder(n_outer, y_outer, x_outer, group_outer, group, n, row, column, vector, y, x, lane)
    final.unroll(y)
    final.unroll(x)
    final.vectorize(lane)
    return final.fuse(n_outer, y_outer, x_outer, group_outer), group, vector


def in_registers(stage: Stage, order: tuple[int, ...]) -> None:
    """Compute a small transform in registers, unrolled; the last axis is vectorized."""
    axes = [stage.op.axis[i] for i in order]
    stage.reorder(*axes)
    for axis in axes[-3:-1]:
        stage.unroll(axis)
    stage.vectorize(axes[-1])
    stage.set_scope("local")


def _reduce_channels(stage: Stage, host: Stage, config: dict[str, Any]) -> None:
    o, a, b, n, row, column, vector, lane = host.op.axis
    outer, inner = host.split(host.fuse(n, row, column), factor=config["tiles"])
    # The data of one matrix stays in the L2 cache for all groups of filters of the task.
    matrix = (a, b, o) if config["data"] == "once" else (o, a, b)
    host.reorder(*matrix, outer, inner, vector, lane)
    host.unroll(inner)
    host.unroll(vector)
    host.vectorize(lane)
    stage.compute_at(host, outer)
    o, a, b, n, row, column, vector, lane = stage.op.axis
    ic_outer, ic_inner = stage.op.reduce_axis
    ic_inner, unrolled = stage.split(ic_inner, factor=config["unroll_ic"])
    stage.reorder(o, a, b, ic_outer, ic_inner, unrolled, n, row, column, vector, lane)
    for axis in (unrolled, n, row, column, vector):
        stage.unroll(axis)
    stage.vectorize(lane)
    if config["ahead"]:
        _, kernel = stage.op.input_tensors
        stage.prefetch(kernel, unrolled, config["ahead"])
    stage.set_scope("local")


def _transform_data(across: Stage, down: Stage, padded: Stage, is_parallel: bool) -> None:
    """Transform tiles of data, all tiles of one vector of channels of an image in sequence."""
    a, b, block, n, row, column, lane = across.op.axis
    across.reorder(block, n, row, column, a, b, lane)
    across.unroll(a)
    across.unroll(b)
    across.vectorize(lane)
    if is_parallel:
        block = across.fuse(block, n)
        across.parallel(block)
    down.compute_at(across, column)
    in_registers(down, (0, 1, 2, 3, 5, 4, 6))
    padded.compute_at(across, block)
    padded.vectorize(padded.op.axis[-1])


class Winograd(CPUTemplate):
    """Winograd's algorithm: its transforms and its matmuls."""

    tags = ("winograd_products",)
    is_vectorized = True

    def applies(self, op: ComputeOp) -> bool:
        """Return whether all dimensions except the batch are constant."""
        return len(op.axis) == 8 and access.are_known((*op.axis[:3], *op.axis[4:], *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values; ``tiles`` should be a slice of a row, rows or images of the block."""
        p = problem_of(op)
        return {
            "images": divisors(p.batch),
            "rows": list(range(1, p.rows + 1)),
            "columns": list(range(1, p.columns + 1)),
            "groups": divisors(p.groups),
            "tiles": list(range(1, machine.registers)),
            "data": ["task", "once"],
            "unroll_ic": [d for d in (1, 2, 4, 8, 16) if p.in_block % d == 0],
            "ahead": [0, 16, 32, 64, 128, 256],
        }

    def valid(self, op: ComputeOp, machine: Machine, config: dict[str, Any]) -> Any:
        """Return whether blocks are divided evenly into register tiles that fit the registers. The values may be arrays
        with one element for each configuration."""
        p = problem_of(op)
        block = config["images"] * config["rows"] * config["columns"]
        tiles, unrolled = config["tiles"], config["unroll_ic"]
        fits = (tiles * p.vectors + p.vectors < machine.registers) & (tiles * unrolled * p.vectors <= 256)
        return fits & (block % config["tiles"] == 0)

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the configuration with the shortest estimated time."""
        return best(problem_of(op), machine)[1]

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. ``stage`` accumulates in registers; ``host`` stores the results of a block of
        tiles."""
        steps = steps_of(planner, stage, host)
        planner.placed.update(steps)
        final, result_across, result_down = steps.final, steps.result_across, steps.result_down
        reach, vectors = (access.extent_of(host.op.axis[i]) or 1 for i in (1, 6))
        task, group, tile = _tasks(final, config, reach - 2, vectors)
        is_parallel = access.work(stage.op) >= planner.parallel_points
        if is_parallel:
            final.parallel(task)
        for part, order in ((result_across, (0, 1, 2, 3, 4)), (result_down, (0, 1, 2, 3, 4, 6, 5, 7))):
            part.compute_at(final, tile)
            in_registers(part, order)
        if config["data"] == "task":
            steps.across.compute_at(final, task)
        host.compute_at(final, group if config["data"] == "task" else task)
        _reduce_channels(stage, host, config)
        _transform_data(steps.across, steps.down, steps.padded, config["data"] == "once" and is_parallel)


TEMPLATE = Winograd()
