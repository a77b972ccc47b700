"""Matmuls on the tensor cores of NVIDIA GPUs, and convolutions as implicit GEMM.

A thread block computes a block tile of the output. Asynchronous copies load tiles of both operands into shared memory
several pipeline stages before their use. Each warp loads fragments of them and multiplies them into accumulators, which
contain its warp tile in fp32. On sm_90a four warps may multiply as one warpgroup, directly from shared memory; a
warpgroup then replaces a warp in this description. At the end the block tile is written through shared memory, so that
the epilogue reads and writes whole rows. If there are too few block tiles to occupy the machine, k is also split among
blocks (split-k), and the partial results are added afterwards.

Half precision (fp16, bf16) always uses tensor cores; fp32 does only if ``topi.allow_tf32`` of the PassContext is set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import te
from ...dtype import info
from ...ir.prim import IterVar
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ...target import Target, tensor_core_cycles
from ...target.gpu_cost import MAX_GRID_BLOCKS
from ...te.schedule import Schedule, Stage
from ...te.tensor import Tensor
from .. import access
from ..template import GPUTemplate, Knobs
from . import fragments, gemm, tuned, warpgroup
from .classes import configuration
from .classes import padded as whole
from .gemm import AxisPiece, AxisRoles, Sizes
from .machine import Machine
from .operand_layout import COPY_BYTES, Operand, below, operand

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

TAG = "gpu_tensor_cores"
SUM_TAG = "gpu_tensor_cores_sum"
# Warp tiles (m, n), and the numbers of warps of a block along m and n.
TILES = ((64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 32), (16, 16))
WARPS = ((2, 4), (4, 2), (2, 2), (1, 4), (4, 1), (1, 2), (2, 1), (1, 1))
BLOCK_KS = (64, 32, 16)
# The first of equal estimates is chosen: copying two block_k slices ahead tolerates slow memory accesses.
STAGES = (3, 4, 2)
SPLIT_KS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32)
# The minimum bytes of an asynchronous copy, and the maximum number of elements per thread that are copied through
# registers because they are narrower.
MIN_COPY_BYTES, MAX_STAGED = 4, 32
# The maximum number of registers of a thread.
THREAD_REGISTERS = 255


def fits(dtypes: set[str], out_dtype: str, target: Target) -> bool:
    """Return whether the target has tensor cores for operands of these types and may use them."""
    if len(dtypes) != 1 or not target.features.mma_dtypes.issuperset(dtypes):
        return False
    (dtype,) = dtypes
    if out_dtype not in (dtype, "float32"):
        return False
    return dtype != "float32" or bool(PassContext.current().get_config("topi.allow_tf32"))


def matmul(
    lhs: Callable[..., Any],
    rhs: Callable[..., Any],
    batch: Sequence[Any],
    sizes: tuple[Any, Any, Any],
    name: str,
    axis_roles: AxisRoles | None,
    machine: Machine,
    workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """Return a matmul like ``gemm.matmul`` for operands of tensor cores; the accumulators are fp32."""
    m, n, reduction = sizes
    operands = operand(lhs, batch, m, reduction), operand(rhs, batch, n, reduction)
    dtype = lhs(*[0] * (len(batch) + 2)).dtype
    count = 1
    for d in batch:
        count *= d
    # Tuning records of fp32 belong to matmuls in fp32, not in tf32.
    workload = None if dtype == "float32" else workload

    def choose(number: int, sizes: tuple[int, int, int]) -> dict[str, Any]:
        return tuned.configuration(TEMPLATE, Sizes(number, *sizes, info(dtype).bytes), machine, workload)

    config = configuration(count, sizes, choose)
    split_k = config["split_k"]
    blocks = [t * w for t, w in zip(config["tile"], config["warps"])]
    padded = [whole(size, block) for size, block in zip(sizes, (*blocks, config["block_k"] * split_k))]
    layout = _WARPGROUP_LAYOUT if config.get("warpgroup") else _ROW_LAYOUT

    a = _zero_padded(lhs, operands[0], batch, (m, reduction), (padded[0], padded[2]), layout, dtype, f"{name}_left")
    b = _zero_padded(rhs, operands[1], batch, (n, reduction), (padded[1], padded[2]), layout, dtype, f"{name}_right")
    share = padded[2] // split_k
    r = te.reduce_axis((0, share), name="k")

    def inner_product(lead, k, i, j):
        x = a(*lead, *layout.index(operands[0].k_contiguous, i, k, dtype))
        y = b(*lead, *layout.index(operands[1].k_contiguous, j, k, dtype))
        return te.sum(x.astype(fragments.ACCUMULATOR) * y.astype(fragments.ACCUMULATOR), axis=r)

    attrs = {"axis_roles": axis_roles, "config": {**config, "dtype": dtype}, "operands": operands}
    if workload is not None:
        attrs["workload"] = workload
    shape = (*batch, *padded[:2])
    if split_k == 1:
        return te.compute(
            shape, lambda *at: inner_product(at[:-2], r, *at[-2:]), name=f"{name}_product", tag=TAG, attrs=attrs
        )
    partial = te.compute(
        (split_k, *shape),
        lambda p, *at: inner_product(at[:-2], p * share + r, *at[-2:]),
        name=f"{name}_part",
        tag=TAG,
        attrs=attrs,
    )
    return _sum_of_parts(partial, axis_roles, config, f"{name}_product")


def _zero_padded(
    read: Callable[..., Any],
    side: Operand,
    batch: Sequence[Any],
    size: tuple[Any, Any],
    padded: tuple[Any, Any],
    layout: Layout,
    dtype: str,
    name: str,
) -> Tensor:
    """Return the operand ``read(*batch, k, i)`` of ``size`` (i, k) in the layout of its tiles, with zeros up to the
    size ``padded``."""

    def body(*at):
        lead, (i, k) = at[: len(batch)], layout.coordinates(side.k_contiguous, at[len(batch) :], dtype)
        value = read(*lead, k, i)
        inside = [
            below(x, limit, side.vector_width if (x is k) == side.k_contiguous else 1)
            for x, limit, end in ((k, size[1], padded[1]), (i, size[0], padded[0]))
            if limit != end
        ]
        return te.if_then_else(te.all(*inside), value, te.const(0, dtype)) if inside else value

    shape = layout.shape(side.k_contiguous, *padded, dtype)
    return te.compute((*batch, *shape), body, name=name, tag=f"{TAG},step")


def _sum_of_parts(partial: Tensor, axis_roles: AxisRoles | None, config: dict[str, Any], name: str) -> Tensor:
    """Return the sum of the partial results of split-k."""
    p = te.reduce_axis((0, config["split_k"]), name="p")
    return te.compute(
        partial.shape[1:],
        lambda *at: te.sum(partial(p, *at), axis=p),
        name=name,
        tag=SUM_TAG,
        attrs={"axis_roles": axis_roles, "config": config},
    )


class Layout(NamedTuple):
    """The layout of an operand tile in shared memory: its shape, the index of element (i, k), and the (i, k) of an
    index; i is along m or n."""

    shape: Callable[..., tuple[int, ...]]
    index: Callable[..., tuple[Any, ...]]
    coordinates: Callable[..., tuple[Any, Any]]


def _k_last(k_contiguous: bool, pair: Sequence[Any], *_: Any) -> tuple[Any, ...]:
    """Return the pair (i, k), or (k, i) if k is not contiguous. The function is its own inverse."""
    return tuple(pair) if k_contiguous else tuple(pair[::-1])


def _row_index(k_contiguous: bool, *pair: Any) -> tuple[Any, ...]:
    return _k_last(k_contiguous, pair[:2])


_ROW_LAYOUT = Layout(_row_index, _row_index, _k_last)
_WARPGROUP_LAYOUT = Layout(warpgroup.shape, warpgroup.index, warpgroup.coordinates)


# Search space


def _tables(sizes: Sizes, machine: Machine) -> list[dict[str, list]]:
    """Return the search space of kernels with warps, and that of warpgroups if the machine supports them."""
    k = max(sizes.k, BLOCK_KS[-1])
    table: dict[str, list] = {
        "tile": list(TILES),
        "warps": [w for w in WARPS if w[0] * w[1] * machine.warp <= machine.max_threads],
        "block_k": [x for x in BLOCK_KS if x <= k and x * sizes.element_bytes <= 128],
        "stages": list(STAGES),
        "split_k": [x for x in SPLIT_KS if x * BLOCK_KS[-1] <= k],
    }
    if not machine.has_warpgroups or sizes.element_bytes != 2 or min(sizes.m, sizes.n) < warpgroup.MIN_GROUP_TILE:
        return [table]
    block_k = warpgroup.ROW_BYTES // sizes.element_bytes
    groups = {
        "warpgroup": [True],
        "tile": list(warpgroup.TILES),
        "warps": list(warpgroup.COUNTS),
        "block_k": [block_k],
        "stages": list(warpgroup.STAGES),
        "split_k": [x for x in SPLIT_KS if x == 1 or x * block_k <= k],
    }
    return [table, groups]


# The functions below take the knobs of one configuration, or arrays with the knobs of many; a pair is then a pair of
# arrays.


def shared_bytes(sizes: Sizes, config: dict[str, Any]) -> Any:
    """Return the bytes of shared memory of the operand tiles, or of the output tile that reuses it."""
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    if config.get("warpgroup"):
        return np.maximum(warpgroup.operand_bytes((bm, bn), config["stages"]), bm * (bn + 32) * 4)
    gap = 32 // sizes.element_bytes
    block_k = config["block_k"]
    elements = sum(np.maximum((x + gap) * block_k, x * (block_k + gap)) for x in (bm, bn))
    return np.maximum(config["stages"] * elements * sizes.element_bytes, bm * (bn + 32) * 4)


def registers(config: dict[str, Any], machine: Machine) -> Any:
    """Return the estimated number of registers of a thread."""
    return _held_registers(config) + machine.cost.tensor_core.other_registers


def _held_registers(config: dict[str, Any]) -> Any:
    """Return the registers of a thread for accumulators and fragments."""
    tm, tn = config["tile"]
    return tm * tn // warpgroup.THREADS if config.get("warpgroup") else tm * tn // 32 + (tm + tn) // 2


def _is_known(sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
    """Return whether tile, warps and stages all belong to the space of warps, or all to that of warpgroups."""
    warps, tile, stages = tuple(config["warps"]), tuple(config["tile"]), config["stages"]
    if not config.get("warpgroup"):
        return tile in TILES and warps in WARPS and stages in STAGES
    if not machine.has_warpgroups or tile not in warpgroup.TILES or warps not in warpgroup.COUNTS:
        return False
    return config["block_k"] * sizes.element_bytes == warpgroup.ROW_BYTES and stages in warpgroup.STAGES


def _fits(sizes: Sizes, config: dict[str, Any], machine: Machine) -> Any:
    """Return whether the operand tiles fit the shared memory, the registers of a thread fit the machine, the grid is
    not too large, and split-k does not mostly add padding."""
    block_k, stages, split_k = (config[x] for x in ("block_k", "stages", "split_k"))
    by_group, used = bool(config.get("warpgroup")), registers(config, machine)
    fits = (shared_bytes(sizes, config) <= machine.dynamic_shared) & (used <= THREAD_REGISTERS)
    if by_group:
        threads = config["warps"][0] * config["warps"][1] * warpgroup.THREADS
        fits &= (threads <= machine.max_threads) & (used * threads <= warpgroup.REGISTERS)
    steps = -(-sizes.k // (block_k * split_k))
    fits &= stages <= np.maximum(steps, min(warpgroup.STAGES if by_group else STAGES))
    fits &= sizes.batch * split_k <= MAX_GRID_BLOCKS
    return fits & ((split_k == 1) | (steps * block_k * split_k <= sizes.k * 5 // 4))


def _cost(sizes: Sizes, config: dict[str, Any], machine: Machine) -> Any:
    """Return the cycles until the last block is done."""
    (tm, tn), (wm, wn), block_k, split_k = (config[x] for x in ("tile", "warps", "block_k", "split_k"))
    by_group = bool(config.get("warpgroup"))
    bm, bn, row = tm * wm, tn * wn, block_k * sizes.element_bytes
    work = tensor_core_cycles.Work(
        blocks=sizes.batch * -(-sizes.m // bm) * -(-sizes.n // bn) * split_k,
        threads=wm * wn * (warpgroup.THREADS if by_group else machine.warp),
        registers=_held_registers(config),
        shared_bytes=shared_bytes(sizes, config),
        steps=-(-sizes.k // (block_k * split_k)),
        fetched_bytes=(bm + bn) * row,
        # Both operands, as tensor cores read them from shared memory for each k.
        loaded_bytes=wm * wn * (tm // 64 * (64 + tn) if by_group else tm + tn) * row,
        multiplies=bm * bn * block_k,
        row_bytes=row,
        sums=bm * bn,
        stages=config["stages"],
        element_bytes=sizes.element_bytes,
    )
    groups = tensor_core_cycles.Groups(wm * wn, warpgroup.IN_FLIGHT) if by_group else None
    cycles, _ = tensor_core_cycles.cycles(work, machine.target.features, groups)
    # Partial results of split-k are written and read again.
    cost, moved = machine.cost.tensor_core, 2 * split_k * sizes.batch * sizes.m * sizes.n * 4
    return cycles + np.where(split_k > 1, cost.launch_cycles + moved / cost.partial_bytes_per_cycle, 0)


# Schedule


class Threads(NamedTuple):
    """The threads of a block: warps along m, warps along n, and the lanes of a warp."""

    warps_m: IterVar
    warps_n: IterVar
    lanes: IterVar
    counts: tuple[int, int, int]


def _without_epilogue(stage: Stage, config: dict[str, Any], threads: Threads) -> IterVar:
    """Store the accumulators to memory without an epilogue. Return the loop around the work of a warp."""
    *batch, i, j = stage.op.axis
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    row, i = stage.split(i, factor=bm)
    column, j = stage.split(j, factor=bn)
    stage.reorder(*batch, row, column, i, j)
    gemm.bind_blocks(stage, batch, row, column, stage.op, bm)
    return _warp_tiles(stage, [i, j], config, threads)


def _warp_tiles(stage: Stage, axes: list[IterVar], config: dict[str, Any], threads: Threads) -> IterVar:
    """Divide a block tile among warps, which store their fragments. Return the loop around the work of a warp."""
    (tm, tn), (i, j) = config["tile"], axes
    by_group = bool(config.get("warpgroup"))
    sides = (tm, tn) if by_group else (fragments.SIDE, fragments.SIDE)
    wi, i = stage.split(i, factor=tm)
    wj, j = stage.split(j, factor=tn)
    io, ii = stage.split(i, factor=sides[0])
    jo, ji = stage.split(j, factor=sides[1])
    stage.reorder(wi, wj, io, jo, ii, ji)
    stage.bind(wi, threads.warps_m)
    stage.bind(wj, threads.warps_n)
    stage.unroll(io)
    stage.unroll(jo)
    dtype = config["dtype"]
    stage.tensorize(ii, warpgroup.store(config["tile"], dtype) if by_group else fragments.store(dtype))
    return wj


def _epilogue(
    planner: Planner, stage: Stage, host: Stage, axis_roles: AxisRoles, config: dict[str, Any], threads: Threads
) -> IterVar:
    """Divide the epilogue among blocks, and a block tile among its threads. Return the loop around a block tile."""
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    lanes = _epilogue_vector_width(planner, host, axis_roles["n"])
    batch, rows, columns = gemm.loops_of(host, axis_roles)
    host.reorder(*batch, *rows, *columns)
    row, column = host.fuse(*rows), host.fuse(*columns)
    column, lane = host.split(column, factor=lanes)
    row_block, row = host.split(row, factor=bm)
    column_block, column = host.split(column, factor=bn // lanes)
    host.reorder(*batch, row_block, column_block, row, column, lane)
    column_block = gemm.bind_blocks(host, batch, row_block, column_block, stage.op, bm)
    # If the matrix is smaller than the block tile, a block has fewer elements.
    m, n = (gemm.extent_of_role(host.op, axis_roles[x]) for x in "mn")
    within = bm if m is None else min(bm, m)
    across = bn // lanes if n is None else min(bn // lanes, -(-n // lanes))
    _distribute(host, host.fuse(row, column), threads, within * across)
    host.vectorize(lane)
    return column_block


def _distribute(stage: Stage, axis: IterVar, threads: Threads, count: int) -> None:
    """Bind a loop of ``count`` iterations to the threads of a block, adjacent iterations to adjacent threads. The
    number of used threads divides the loop, because an uneven split would exceed the tile."""
    for thread, n in zip((threads.lanes, threads.warps_n, threads.warps_m), reversed(threads.counts)):
        used = max(d for d in range(1, n + 1) if count % d == 0)
        axis, inner = stage.split(axis, factor=used)
        stage.bind(inner, thread)
        count //= used
    if count > 4 and count % 4 == 0:
        _, axis = stage.split(axis, factor=4)
    stage.unroll(axis)


def _epilogue_vector_width(planner: Planner, host: Stage, n_role: tuple[int | AxisPiece, ...]) -> int:
    """Return the number of elements that an epilogue thread handles as one vector: they are contiguous in the output
    and in its other inputs."""
    op, last = planner.plain_op(host.op), n_role[-1]
    is_piece = isinstance(last, AxisPiece)
    extent = last.size if is_piece else access.extent_of(host.op.axis[last])
    if (last.axis if is_piece else last) != len(host.op.axis) - 1 or extent is None or host.op.num_outputs != 1:
        return 1
    loads = [x for x in access.loads(op.body) if "operands" not in (x.producer.op.attrs or {})]
    if any(access.is_choosing(n) for b in op.body for n in post_order(b)):
        return 1
    if any(access.runs_along(x, op.axis[-1].var) == "far" for x in loads):
        return 1
    kinds = [op.body[0].dtype, *(x.dtype for x in loads)]
    lanes = min(COPY_BYTES // max(info(kind).bytes, 1) for kind in kinds)
    while extent % lanes:
        lanes //= 2
    return 1 if "bool" in kinds else min(lanes, 8)


def _main_loop(s: Schedule, sums: Stage, attrs: dict[str, Any], threads: Threads) -> None:
    """Schedule the loop over k: copies several pipeline stages ahead, loads of fragments, multiplications."""
    config, operands = attrs["config"], attrs["operands"]
    dtype, block_k = config["dtype"], config["block_k"]
    depth = fragments.K[dtype]
    *lead, i, j = sums.op.axis
    (k,) = sums.op.reduce_axis
    tensors = list(sums.op.input_tensors)
    io, ii = sums.split(i, factor=fragments.SIDE)
    jo, ji = sums.split(j, factor=fragments.SIDE)
    ko, ki = sums.split(k, factor=block_k)
    ki, kk = sums.split(ki, factor=depth)
    sums.reorder(ko, ki, *lead, io, jo, ii, ji, kk)
    for axis in (ki, io, jo):
        sums.unroll(axis)
    sums.tensorize(ii, fragments.multiply(operands[0].k_contiguous, operands[1].k_contiguous, dtype))
    for tensor, side, use, tile, warps in zip(tensors, operands, "ab", config["tile"], config["warps"]):
        held = s[s.cache_read(tensor, f"wmma.matrix_{use}", [sums.op.output(0)])]
        held.compute_at(sums, ki)
        *_, r, c = held.op.axis
        ro, ri = held.split(r, factor=fragments.SIDE if side.k_contiguous else depth)
        co, ci = held.split(c, factor=depth if side.k_contiguous else fragments.SIDE)
        held.reorder(ro, co, ri, ci)
        held.unroll(ro)
        held.unroll(co)
        held.tensorize(ri, fragments.load(use, side.k_contiguous, dtype))
        narrow = side.vector_width * info(dtype).bytes < MIN_COPY_BYTES
        if not (narrow and _copy_through_registers(s, tensor, threads, tile * warps, block_k)):
            _copy_to_shared(s[tensor], side, threads, tile * warps * block_k)
        s[tensor].compute_at(sums, ko)
        s[tensor].double_buffer(config["stages"])


def _warpgroup_main_loop(s: Schedule, sums: Stage, attrs: dict[str, Any], threads: Threads) -> None:
    """Schedule the loop over k: copies several pipeline stages ahead, and the multiplications of a whole block_k
    slice."""
    config, operands = attrs["config"], attrs["operands"]
    *lead, i, j = sums.op.axis
    (k,) = sums.op.reduce_axis
    tensors = list(sums.op.input_tensors)
    ko, kk = sums.split(k, factor=config["block_k"])
    sums.reorder(ko, *lead, i, j, kk)
    lhs, rhs = operands
    sums.tensorize(i, warpgroup.multiply(config["tile"], lhs.k_contiguous, rhs.k_contiguous, config["dtype"]))
    for tensor, side, tile, groups in zip(tensors, operands, config["tile"], config["warps"]):
        copy = s[tensor]
        copy.set_scope("shared.dyn")
        *lead, c = copy.op.axis
        co, lanes = copy.split(c, factor=side.vector_width)
        copy.vectorize(lanes)
        _distribute(copy, copy.fuse(*lead, co), threads, tile * groups * config["block_k"] // side.vector_width)
        copy.compute_at(sums, ko)
        copy.double_buffer(config["stages"])


def _copy_through_registers(s: Schedule, tensor: Tensor, threads: Threads, rows: int, block_k: int) -> bool:
    """Copy an operand tile whose vectors are too narrow for asynchronous copies: a thread first loads all its elements
    into registers, then stores them, so that it waits only once. Return whether the threads divide the tile evenly and
    the elements fit the registers; otherwise nothing is scheduled."""
    copy, count = s[tensor], math.prod(threads.counts)
    if count % block_k or rows % (count // block_k) or rows * block_k // count > MAX_STAGED:
        return False
    copy.set_scope("shared.dyn")
    held = s[s.cache_write(tensor, "local")]
    *lead, r, c = copy.op.axis
    copy.storage_align(r, 16, 8)
    r, turn = copy.split(r, factor=rows * block_k // count)
    copy.reorder(*lead, r, c, turn)
    axis, last = copy.split(copy.fuse(*lead, r, c), factor=threads.counts[2])
    copy.bind(last, threads.lanes)
    for thread, n in ((threads.warps_n, threads.counts[1]), (threads.warps_m, threads.counts[0])):
        axis, inner = copy.split(axis, factor=n)
        copy.bind(inner, thread)
    copy.unroll(turn)
    held.compute_at(copy, last)
    for axis in held.op.axis:
        held.unroll(axis)
    return True


def _copy_to_shared(copy: Stage, side: Operand, threads: Threads, elements: int) -> None:
    """Copy an operand tile into shared memory with all threads of the block. Padding rows by 16 bytes puts the eight
    rows that one ldmatrix reads into different banks."""
    copy.set_scope("shared.dyn")
    *lead, r, c = copy.op.axis
    if info(copy.op.output(0).dtype).bytes == 2:
        copy.storage_align(r, 16, 8)
    else:
        copy.storage_align(r, *((8, 4) if side.k_contiguous else (32, 8)))
    co, lanes = copy.split(c, factor=side.vector_width)
    copy.vectorize(lanes)
    _distribute(copy, copy.fuse(*lead, r, co), threads, elements // side.vector_width)


class TensorCores(Knobs[Sizes, Machine], GPUTemplate):
    """A matmul on tensor cores, and the reduction of its split-k."""

    tags = (TAG, SUM_TAG)

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        return gemm.tile_consumer(planner, stage, plain)

    def space(self, sizes: Sizes, machine: Machine) -> dict[str, list]:
        """Return the knobs: the warp tile and the warps of a block, block_k, pipeline stages and split_k; also those of
        warpgroups if the machine supports them."""
        table, *others = _tables(sizes, machine)
        for other in others:
            table = {name: list(dict.fromkeys([*other[name], *table.get(name, [False])])) for name in other}
        return table

    def valid(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
        """Return whether the knobs belong to the space and the machine has the resources that they need."""
        return _is_known(sizes, machine, config) and bool(_fits(sizes, config, machine))

    def cost(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> float:
        return float(_cost(sizes, config, machine))

    def choose(self, sizes: Sizes, machine: Machine) -> dict[str, Any]:
        """Return the analytic choice: the fewest estimated cycles."""
        fits, cost = (functools.partial(f, sizes, machine=machine) for f in (_fits, _cost))
        picks = [tuned.cheapest_of_columns(table, fits, cost) for table in _tables(sizes, machine)]
        best = min((pick for pick in picks if pick is not None), key=lambda c: self.cost(sizes, machine, c))
        return best if len(picks) == 1 else {"warpgroup": False, **best}

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        """Apply the configuration: block and warp tiles, copies to shared memory and fragments, and the epilogue on the
        block tile."""
        s = planner.s
        if stage.op.tag == SUM_TAG:
            gemm.reduce_split_k(planner, stage, consumer)
            return
        attrs = stage.op.attrs
        config, axis_roles = attrs["config"], attrs["axis_roles"]
        counts = (*config["warps"], warpgroup.THREADS if config.get("warpgroup") else planner.machine.warp)
        warps_m, warps_n, lanes = (te.thread_axis((0, n), f"threadIdx.{x}") for x, n in zip("zyx", counts))
        threads = Threads(warps_m, warps_n, lanes, counts)
        sums = s[s.cache_write(stage.op.output(0), "wmma.accumulator")]
        planner.placed.update((stage, sums))
        for axis, tile, warps in zip(stage.op.axis[-2:], config["tile"], config["warps"]):
            stage.align_bounds(axis, tile * warps)
        if consumer is None:
            warp = _without_epilogue(stage, config, threads)
        else:
            planner.placed.add(consumer)
            stage.compute_at(consumer, _epilogue(planner, stage, consumer, axis_roles, config, threads))
            stage.set_scope("shared.dyn")
            # The rows that adjacent threads store are in different banks.
            stage.storage_align(stage.op.axis[-2], 32, 8)
            warp = _warp_tiles(stage, list(stage.op.axis[-2:]), config, threads)
        sums.compute_at(stage, warp)
        planner.placed.update(s[t] for t in sums.op.input_tensors)
        (_warpgroup_main_loop if config.get("warpgroup") else _main_loop)(s, sums, attrs, threads)


TEMPLATE = TensorCores()
