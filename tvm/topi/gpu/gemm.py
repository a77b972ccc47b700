"""Matmuls on a GPU, and convolutions as implicit GEMM.

A thread block computes a block tile of the output. For each block_k slice of k it copies a tile of both operands into
shared memory, from which each thread reads the elements for its thread tile, which is in registers. For convolutions
one operand is never stored: its tiles are gathered from the image as needed. If there are too few block tiles to occupy
the machine, k is also split among blocks (split-k), and the partial results are added afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import te
from ...arith import Analyzer
from ...dtype import info
from ...ir.prim import IterVar, ProducerLoad
from ...ir.visit import post_order
from ...target.gpu_cost import MAX_GRID_BLOCKS, SM_REGISTERS
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..nominal import Nominal
from ..template import GPUTemplate, Knobs
from . import tuned
from .classes import configuration, is_known
from .classes import padded as whole
from .machine import Machine
from .operand_layout import Operand, below
from .operand_layout import operand as operand_layout

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

TAG = "gpu_gemm"
# Thread tiles (m, n), and the numbers of threads of a block along m and n.
THREAD_TILES = ((8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 1))
# The first of equal estimates is chosen: wide blocks were measured to be slightly faster.
THREADS = ((8, 32), (4, 32), (16, 16), (8, 16), (16, 8), (8, 8), (2, 32), (4, 16), (4, 8), (1, 64), (1, 128))
BLOCK_KS = (16, 32, 8)
# Without shared memory there is no copy to prefetch: a larger block_k only increases the unroll factor of k.
REGISTER_BLOCK_KS = (2, 4, 8)
SPLIT_KS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 48, 64)
# The elements of one vector load. A thread tile consists of groups of this many elements, interleaved with those of the
# other threads, so that adjacent threads read contiguous memory.
VECTOR_WIDTH = 4
# The number of threads that copy along a contiguous k, which is one memory transaction. Contiguous pieces along k of at
# least MIN_RUN_BYTES bytes are copied in the same order.
K_THREADS, MIN_RUN_BYTES = 8, 16
# The threads of a warp, and the number of adjacent threads along n.
WARP, WARP_COLUMNS = 32, 8
# For smaller n, a matmul is computed as plain reductions instead of tiles.
MIN_N = 4


def is_tiled(tensors: Sequence[Tensor], n: Any = None, batch: Any = None) -> bool:
    """Return whether a matmul of these tensors is computed in tiles: it is not empty, n is large enough, and the batch
    fits a grid. Dynamic dimensions count as large."""
    sizes = Nominal()
    shapes = [[sizes.size(d) for d in t.shape] for t in tensors]
    count = sizes.size(batch) if batch is not None and is_known(batch) else 0
    return fills_tiles(shapes, sizes.size(n) if n is not None else MIN_N, count)


def fills_tiles(shapes: Sequence[Sequence[int]], n: int, batch: int) -> bool:
    """Return the result of ``is_tiled`` for constant dimensions."""
    return n >= MIN_N and batch <= MAX_GRID_BLOCKS and all(all(shape) for shape in shapes)


class Sizes(NamedTuple):
    """The dimensions of a batched matmul, the bytes of an element, and the vector widths with which lhs and rhs are
    copied into shared memory."""

    batch: int
    m: int
    n: int
    k: int
    element_bytes: int
    vector_widths: tuple[int, int] = (1, 1)


class AxisPiece(NamedTuple):
    """A part of an output axis of an operator that is divided by ``size``: the quotient or the remainder."""

    axis: int
    size: int
    is_remainder: bool


# Maps "batch", "m" and "n" of a matmul to axes of an operator's output, or to parts of axes.
AxisRoles = dict[str, tuple["int | AxisPiece", ...]]


def matmul(
    lhs: Callable[..., Any],
    rhs: Callable[..., Any],
    batch: Sequence[Any],
    sizes: tuple[Any, Any, Any],
    dtype: str,
    name: str,
    axis_roles: AxisRoles | None,
    machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """Return the matmul of ``lhs(*batch, k, i)`` and ``rhs(*batch, k, j)``, reduced over k, for ``sizes`` (m, n, k) on
    a machine.

    ``axis_roles`` gives the axes of the operator's output that are batch, m and n. With None, the operator is a
    separate kernel after the matmul. ``workload`` is the operator's name in tuning records. Operands are padded with
    zeros to full block tiles, so that the inner loops need no guards."""
    count = 1
    for d in batch:
        count *= d
    operands = tuple(operand_layout(read, batch, size, sizes[2]) for read, size in zip((lhs, rhs), sizes))
    widths = _vector_width(operands[0], VECTOR_WIDTH, machine), _vector_width(operands[1], VECTOR_WIDTH, machine)

    def choose(number: int, sizes: tuple[int, int, int]) -> dict[str, Any]:
        return tuned.configuration(TEMPLATE, Sizes(number, *sizes, info(dtype).bytes, widths), machine, workload)

    config = configuration(count, sizes, choose)
    (tm, tn), (ty, tx) = config["tile"], config["threads"]
    blocks = tm * ty, tn * tx, config["block_k"] * config["split_k"]
    m, n, k = (whole(size, block) for size, block in zip(sizes, blocks))
    widths = _vector_width(operands[0], blocks[0], machine), _vector_width(operands[1], blocks[1], machine)

    def zero_padded(read: Callable[..., Any], size: Any, padded: Any, width: int) -> Callable[..., Any]:
        if is_known(size) and is_known(k) and padded == size and k == sizes[2]:
            return read

        def guarded(*at):
            *_, r, i = at
            value = read(*at)
            inside = te.all(r < sizes[2], below(i, size, width))
            return te.if_then_else(inside, value, te.const(0, value.dtype))

        return guarded

    a, b = (
        te.compute(
            (*batch, k, padded), zero_padded(read, size, padded, width), name=f"{name}_{word}", tag=f"{TAG},step"
        )
        for read, size, padded, width, word in zip((lhs, rhs), sizes, (m, n), widths, ("left", "right"))
    )
    r = te.reduce_axis((0, k), name="k")

    def body(*at):
        *lead, i, j = at
        return te.sum(a(*lead, r, i).astype(dtype) * b(*lead, r, j).astype(dtype), axis=r)

    attrs = {"axis_roles": axis_roles, "config": config, "operands": operands, "vector_widths": widths}
    if workload is not None:
        attrs["workload"] = workload
    return te.compute((*batch, m, n), body, name=f"{name}_product", tag=TAG, attrs=attrs)


def _vector_width(operand: Operand, block: int, machine: Machine) -> int:
    """Return the number of operand elements in one copy: they are contiguous along m or n, and all inside or all
    outside the operand."""
    if not machine.has_shared or operand.k_contiguous or operand.vector_width < VECTOR_WIDTH or block % VECTOR_WIDTH:
        return 1
    return VECTOR_WIDTH


def _cost(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Return the cycles until the last block is done."""
    cost = machine.cost.tiled_matmul
    if not machine.has_shared:
        return _cost_from_memory(sizes, config, machine)
    (tm, tn), (ty, tx), block_k, split_k = (config[x] for x in ("tile", "threads", "block_k", "split_k"))
    bm, bn, threads = tm * ty, tn * tx, ty * tx
    blocks = sizes.batch * -(-sizes.m // bm) * -(-sizes.n // bn) * split_k
    registers = tm * tn + tm + tn + cost.other_registers
    fit = min(machine.multiprocessor_threads // threads, SM_REGISTERS // (threads * registers), 32)
    fit = max(min(fit, machine.multiprocessor_shared // (2 * (bm + bn) * block_k * sizes.element_bytes + 1024)), 1)
    reads = threads * (-(-tm // VECTOR_WIDTH) / 2 + -(-tn // VECTOR_WIDTH))
    copies = bm / sizes.vector_widths[0] + bn / sizes.vector_widths[1]
    shared = cost.shared_read_cycles * reads + cost.shared_copy_cycles * copies
    work = bm * bn * block_k / cost.multiplies_per_cycle + shared * block_k / machine.warp
    alone = block_k * tm * tn * cost.lone_multiply_cycles * max(1.0, threads / cost.multiplies_per_cycle)
    if tm * tn * block_k > cost.cached_multiplies:
        work, alone = work * cost.long_code_factor, alone * cost.long_code_factor
    # The work of other blocks hides most of the latency of a block.
    rounds, rest = divmod(blocks, machine.multiprocessors * fit)
    cycles = rounds * math.hypot(work * fit, cost.memory_latency_cycles + alone)
    if rest:
        cycles += math.hypot(work * -(-rest // machine.multiprocessors), cost.memory_latency_cycles + alone)
    cycles *= -(-sizes.k // (block_k * split_k)) * _spilling(config, machine)
    if split_k > 1:
        # Partial results are written and read again.
        moved = 2 * split_k * sizes.batch * sizes.m * sizes.n * sizes.element_bytes
        cycles += cost.launch_cycles + cost.partial_sum_cycles * split_k + moved / cost.partial_bytes_per_cycle
    return cycles


def _spilling(config: dict[str, Any], machine: Machine) -> float:
    """Return the slowdown of a thread tile that exceeds the registers and is spilled to memory."""
    cost = machine.cost.tiled_matmul
    tm, tn = config["tile"]
    return cost.spill_factor if tm * tn + tm + tn + cost.least_other_registers > machine.registers else 1.0


def _cost_from_memory(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Return the cycles if threads read global memory directly. A vector load costs as much as the multiplications
    issued with it."""
    cost = machine.cost.tiled_matmul
    (tm, tn), (ty, tx), block_k, split_k = (config[x] for x in ("tile", "threads", "block_k", "split_k"))
    threads = sizes.batch * -(-sizes.m // (tm * ty)) * -(-sizes.n // (tn * tx)) * split_k * ty * tx
    loads = cost.global_load_cycles * (-(-tm // VECTOR_WIDTH) + -(-tn // VECTOR_WIDTH))
    term = (tm * tn + loads + cost.loop_cycles / block_k) * _spilling(config, machine)
    cycles = -(-threads // machine.enough_threads) * term * -(-sizes.k // (block_k * split_k)) * block_k
    return cycles + (cost.launch_cycles + split_k * sizes.batch * sizes.m * sizes.n / 16 if split_k > 1 else 0)


def estimate(sizes: Sizes, machine: Machine) -> float:
    """Return the estimated cycles of a matmul with the analytic choice."""
    return _cost(sizes, TEMPLATE.choose(sizes, machine), machine)


def tile_consumer(planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
    """Return the only consumer of the matmul if it reads the output elementwise."""
    twin = plain.stage_map[stage.op]
    users = plain.consumers(twin)
    if stage.is_output or len(users) != 1 or not isinstance(users[0].op, ComputeOp) or users[0].op.reduce_axis:
        return None
    user = users[0].op
    axis_roles = stage.op.attrs["axis_roles"]
    if axis_roles is None:
        return None
    axes = {p.axis if isinstance(p, AxisPiece) else p for role in axis_roles.values() for p in role}
    if len(user.axis) != len(axes):
        return None
    config = stage.op.attrs["config"]
    blocks = [tile * count for tile, count in zip(config["tile"], config.get("threads") or config["warps"])]
    for which, block in zip(("m", "n"), blocks):
        # A block tile that crosses the boundary of an axis part would belong to two parts.
        if any(isinstance(p, AxisPiece) and p.is_remainder and p.size % block for p in axis_roles[which]):
            return None
    analyzer = Analyzer()
    for axis in user.axis:
        analyzer.bind(axis.var, axis.dom)
    expected = [_linear_index(user, (i,)) for i in axis_roles["batch"]]
    expected += [_linear_index(user, axis_roles["m"]), _linear_index(user, axis_roles["n"])]
    for load in access.loads(user.body):
        if load.producer.op is twin.op and not _reads(load, expected, analyzer):
            return None
    return next(x for x in planner.s.stages if x.uid == users[0].uid)


def _linear_index(op: ComputeOp, role: tuple[int | AxisPiece, ...]):
    """Return the index along m or n as an expression of the axes that form it."""
    value: Any = None
    for axis in role:
        here = op.axis[axis.axis if isinstance(axis, AxisPiece) else axis].var
        if isinstance(axis, AxisPiece):
            here = here % axis.size if axis.is_remainder else here // axis.size
        value = here if value is None else value * _extent(op, axis) + here
    return 0 if value is None else value


def _extent(op: ComputeOp, axis: int | AxisPiece) -> Any:
    if not isinstance(axis, AxisPiece):
        return op.axis[axis].dom.extent
    return axis.size if axis.is_remainder else (op.axis[axis.axis].dom.extent + axis.size - 1) // axis.size


def extent_of_role(op: ComputeOp, role: tuple[int | AxisPiece, ...]) -> int | None:
    """Return the number of iterations of the loops that form m or n of a matmul, or None if it is dynamic."""
    extents = [_extent(op, axis) for axis in role]
    return math.prod(int(n) for n in extents) if all(map(is_known, extents)) else None


def bind_blocks(
    host: Stage, batch: list[IterVar], row: IterVar, column: IterVar, product: ComputeOp, tile: int
) -> IterVar:
    """Bind the loops over block tiles of a matmul to the grid; return the innermost loop. Only the first grid dimension
    is practically unlimited. It covers the axes that may be large, or all axes if the batch or n is dynamic."""
    *lead, m, n = (access.extent_of(a) for a in product.axis)
    if n is None or None in lead:
        block = host.fuse(*batch, row, column)
        host.bind(block, te.thread_axis("blockIdx.x"))
        return block
    if batch:
        host.bind(host.fuse(*batch), te.thread_axis("blockIdx.z"))
    row_tag, column_tag = ("y", "x") if m is not None and m <= MAX_GRID_BLOCKS * tile else ("x", "y")
    host.bind(row, te.thread_axis(f"blockIdx.{row_tag}"))
    host.bind(column, te.thread_axis(f"blockIdx.{column_tag}"))
    return column


def _reads(load: ProducerLoad, expected: list, analyzer: Analyzer) -> bool:
    return len(load.indices) == len(expected) and all(map(analyzer.can_prove_equal, load.indices, expected))


def reduce_split_k(planner: Planner, stage: Stage, consumer: Stage | None) -> None:
    """Add the partial results of split-k and compute the epilogue: one element per thread, or a vector if there are
    many elements."""
    s = planner.s
    host = consumer or stage
    planner.placed.update((stage, host))
    width = VECTOR_WIDTH if access.work(host.op) >= planner.machine.enough_threads else 1
    if not planner.machine.has_shared or not planner.can_vectorize(host.op, width):
        planner.serial(stage, consumer)
        return
    if host is stage:
        stage = s[s.cache_write(stage.op.output(0), "local")]
    *axes, last = host.op.axis
    last, lane = host.split(last, factor=width)
    host.vectorize(lane)
    _, thread = planner.spread(host, planner.fused(host, [*axes, last]))
    stage.compute_at(host, thread)
    stage.set_scope("local")
    *lead, column = stage.op.axis
    (part,) = stage.op.reduce_axis
    stage.reorder(*lead, part, column)
    stage.unroll(part)
    stage.vectorize(column)


def _tile(planner: Planner, host: Stage, stage: Stage, axis_roles: AxisRoles, attrs: dict[str, Any]) -> None:
    """Accumulate thread tiles over block_k slices of k whose operand tiles are in shared memory."""
    (tm, tn), (ty, tx), block_k = (attrs["config"][x] for x in ("tile", "threads", "block_k"))
    inside, threads = _tile_output(planner, host, stage, axis_roles, attrs)
    stage.compute_at(host, inside)
    stage.set_scope("local")
    *lead, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    outer, inner = stage.split(k, factor=block_k)
    stage.reorder(outer, inner, *lead, i, j)
    for axis in (inner, i, j):
        stage.unroll(axis)
    blocks, operands, widths = (tm * ty, tn * tx), attrs["operands"], attrs["vector_widths"]
    for tensor, extent, block, operand, width in zip(stage.op.input_tensors, (tm, tn), blocks, operands, widths):
        tile = planner.s[tensor]
        if not planner.machine.has_shared:
            tile.set_scope("local")
            tile.compute_at(stage, inner)
            _read(tile, min(extent, VECTOR_WIDTH))
            continue
        tile.set_scope("shared")
        tile.compute_at(stage, outer)
        # Copy the next operand tile while the current one is used.
        tile.double_buffer()
        _copy_to_shared(tile, block, operand, width, threads)


def _tile_output(
    planner: Planner, host: Stage, stage: Stage, axis_roles: AxisRoles, attrs: dict[str, Any]
) -> tuple[IterVar, list[IterVar]]:
    """Divide the output into block tiles and thread tiles. Return the loop around a thread tile, and the threads of a
    block."""
    (tm, tn), (ty, tx) = (attrs["config"][x] for x in ("tile", "threads"))
    machine = planner.machine
    shared = machine.has_shared
    width = _store_width(planner, host, axis_roles["n"], min(tn, VECTOR_WIDTH))
    batch, rows, columns = loops_of(host, axis_roles)
    host.reorder(*batch, *rows, *columns)
    row, column = host.fuse(*rows), host.fuse(*columns)
    row_block, row = host.split(row, factor=tm * ty)
    neighbours = []
    if width > 1:
        column, lane = host.split(column, factor=width)
        host.vectorize(lane)
        neighbours.append(lane)
    column_block, column = host.split(column, factor=tn * tx // width)
    apart = []
    if tm > VECTOR_WIDTH and shared:
        group, row = host.split(row, factor=ty * VECTOR_WIDTH)
        apart.append(group)
    if tn > VECTOR_WIDTH and shared:
        group, column = host.split(column, factor=tx * VECTOR_WIDTH // width)
        apart.append(group)
    row_thread, row = host.split(row, factor=min(tm, VECTOR_WIDTH) if shared else tm)
    column_thread, column = host.split(column, factor=(min(tn, VECTOR_WIDTH) if shared else tn) // width)
    host.reorder(*batch, row_block, column_block, *apart, row_thread, column_thread, row, column, *neighbours)
    for group in apart:
        host.bind(group, te.thread_axis("vthread"))
    bind_blocks(host, batch, row_block, column_block, stage.op, tm * ty)
    threads = [te.thread_axis((0, tx), "threadIdx.x"), te.thread_axis((0, ty), "threadIdx.y")]
    if shared and machine.warp == WARP and tx > WARP_COLUMNS and ty % (WARP // WARP_COLUMNS) == 0:
        # The threads of a warp cover a square instead of a row of the block tile, which needs fewer operand elements.
        threads = [
            te.thread_axis((0, n), f"threadIdx.{x}")
            for n, x in ((WARP_COLUMNS, "x"), (ty, "y"), (tx // WARP_COLUMNS, "z"))
        ]
        across, column_thread = host.split(column_thread, factor=WARP_COLUMNS)
        host.reorder(across, row_thread, column_thread)
        host.bind(across, threads[2])
    host.bind(row_thread, threads[1])
    host.bind(column_thread, threads[0])
    host.unroll(row)
    host.unroll(column)
    return column_thread, threads


def _store_width(planner: Planner, host: Stage, n_role: tuple[int | AxisPiece, ...], width: int) -> int:
    """Return the number of elements along n that a thread stores as one vector, which is also the load width of other
    epilogue inputs."""
    is_last = n_role == (len(host.op.axis) - 1,)
    return width if planner.machine.has_shared and is_last and planner.can_vectorize(host.op, width) else 1


def _read(tile: Stage, width: int) -> None:
    """Read the operand elements that one thread needs for one k, in vectors of ``width`` if elements are contiguous."""
    last = tile.op.axis[-1]
    contiguous = all(access.runs_along(x, last.var) == "next" for x in access.loads(tile.op.body))
    chooses = any(access.is_choosing(n) for b in tile.op.body for n in post_order(b))
    if contiguous and not chooses and width > 1:
        last, inner = tile.split(last, factor=width)
        tile.vectorize(inner)
    tile.unroll(last)


def loops_of(host: Stage, axis_roles: AxisRoles) -> tuple[list[IterVar], ...]:
    """Return the loops of the batch, of m and of n, including those of divided axes."""
    divided = {p.axis: p.size for role in axis_roles.values() for p in role if isinstance(p, AxisPiece)}
    pieces = {i: host.split(host.op.axis[i], factor=size) for i, size in divided.items()}
    return tuple(
        [pieces[p.axis][p.is_remainder] if isinstance(p, AxisPiece) else host.op.axis[p] for p in role]
        for role in (axis_roles["batch"], axis_roles["m"], axis_roles["n"])
    )


def _copy_to_shared(tile: Stage, block: int, operand: Operand, width: int, threads: list[IterVar]) -> None:
    """Copy an operand tile, ``block`` elements along m or n, with all threads of the block in vectors of ``width``.
    Adjacent threads copy adjacent vectors."""
    axes = list(tile.op.axis)
    loads = access.loads(tile.op.body)
    contiguous = [all(access.runs_along(x, a.var) == "next" for x in loads) for a in axes[-2:]]
    # Elements may be contiguous along k only in pieces.
    in_runs = operand.k_contiguous and operand.vector_width * info(tile.op.output(0).dtype).bytes >= MIN_RUN_BYTES
    if (contiguous[0] or in_runs) and not contiguous[1]:
        # The operand is contiguous along k. Eight threads copy along k, which is one memory transaction, and the other
        # threads of a warp across it. Padding each row by one vector puts all of them into different banks, and threads
        # still read vectors. Blocks narrower than a vector are padded by one element.
        tile.storage_align(axes[-2], 2 * VECTOR_WIDTH, VECTOR_WIDTH if block >= VECTOR_WIDTH else 1)
        outer, inner = tile.split(axes[-2], factor=K_THREADS)
        axes[-2:] = outer, axes[-1], inner
        tile.reorder(*axes)
    chooses = any(access.is_choosing(n) for b in tile.op.body for n in post_order(b))
    if contiguous[1] and not chooses and access.extent_of(axes[-1]) % VECTOR_WIDTH == 0:
        width = VECTOR_WIDTH
    fused = tile.fuse(*axes)
    if width > 1:
        fused, lanes = tile.split(fused, factor=width)
        tile.vectorize(lanes)
    for thread in threads:
        fused, inner = tile.split(fused, factor=int(thread.dom.extent))
        tile.bind(inner, thread)
    tile.unroll(fused)


class TiledMatmul(Knobs[Sizes, Machine], GPUTemplate):
    """A matmul in thread tiles."""

    tags = (TAG,)

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        return tile_consumer(planner, stage, plain)

    def space(self, sizes: Sizes, machine: Machine) -> dict[str, list]:
        """Return the knobs: the thread tile, the threads of a block along m and n, block_k and split_k."""
        k = sizes.k
        block_ks = BLOCK_KS if machine.has_shared else REGISTER_BLOCK_KS
        return {
            "tile": list(THREAD_TILES),
            "threads": [t for t in THREADS if t[0] * t[1] <= machine.max_threads],
            "block_k": [x for x in block_ks if x <= k] or [min(block_ks)],
            "split_k": [x for x in SPLIT_KS if x * min(BLOCK_KS) <= max(k, min(BLOCK_KS))],
        }

    def valid(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
        """Return whether two tiles of each operand fit the shared memory, and split-k does not mostly add padding."""
        (tm, tn), (ty, tx), block_k, split_k = (config[x] for x in ("tile", "threads", "block_k", "split_k"))
        if machine.has_shared and 2 * (tm * ty + tn * tx + 8) * block_k * sizes.element_bytes > machine.shared_bytes:
            return False
        if sizes.batch * split_k > MAX_GRID_BLOCKS:
            return False
        return split_k == 1 or -(-sizes.k // (block_k * split_k)) * block_k * split_k <= sizes.k * 5 // 4

    def cost(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> float:
        return _cost(sizes, config, machine)

    def choose(self, sizes: Sizes, machine: Machine) -> dict[str, Any]:
        """Return the analytic choice: the fewest estimated cycles."""
        return tuned.cheapest(
            self.space(sizes, machine), lambda c: self.valid(sizes, machine, c), lambda c: _cost(sizes, c, machine)
        )

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        """Apply the configuration: block and thread tiles, copies of operands to shared memory, and the epilogue on the
        output tile."""
        s = planner.s
        attrs = stage.op.attrs
        axis_roles, config = attrs["axis_roles"], attrs["config"]
        if config["split_k"] > 1:
            (k,) = stage.op.reduce_axis
            part, _ = stage.split(k, nparts=config["split_k"])
            partial = s[s.rfactor(stage.op.output(0), part, 0)]
            reduce_split_k(planner, stage, consumer)
            count = len(partial.op.axis)
            axis_roles = {"batch": tuple(range(count - 2)), "m": (count - 2,), "n": (count - 1,)}
            host, stage = partial, s[s.cache_write(partial.op.output(0), "local")]
        elif consumer is None:
            count = len(stage.op.axis)
            axis_roles = {"batch": tuple(range(count - 2)), "m": (count - 2,), "n": (count - 1,)}
            host, stage = stage, s[s.cache_write(stage.op.output(0), "local")]
        else:
            host = consumer
        planner.placed.update((host, stage))
        planner.placed.update(s[t] for t in stage.op.input_tensors)
        _tile(planner, host, stage, axis_roles, attrs)


TEMPLATE = TiledMatmul()
