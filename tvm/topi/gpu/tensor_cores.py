"""Products of matrices on the tensor cores of NVIDIA GPUs, and convolutions as such products.

A block of warps computes a tile of results. Strips of both operands come into shared memory by asynchronous copies,
several steps ahead of their use; each warp loads fragments of them and multiplies them into accumulators, which hold
its part of the tile as float32. On sm_90a four warps may multiply together, straight from shared memory: a warpgroup
then stands wherever a warp does below. At the end the tile goes through shared memory, so that what follows element by
element reads and writes rows. Where tiles are too few to occupy the machine, the sum is divided among blocks, and the
parts are added up afterwards.

Halves (float16, bfloat16) are always multiplied so; float32 only where ``topi.allow_tf32`` of the PassContext is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import te
from ...arith import Analyzer
from ...dtype import info
from ...ir.prim import IterVar, PrimExpr, ProducerLoad, Range, Var, const
from ...ir.subst import substitute
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ...target import Target
from ...target.gpu_cost import MAX_GRID_BLOCKS, SM_REGISTERS
from ...te.schedule import Schedule, Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..template import GPUTemplate, Knobs
from . import fragments, gemm, tuned, warpgroup
from .gemm import Part, Places, Sizes
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.gpu import Planner

TAG = "gpu_tensor_cores"
SUM_TAG = "gpu_tensor_cores_sum"
# Results of a warp, and how many warps a block has along rows and columns.
TILES = ((64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 32), (16, 16))
WARPS = ((2, 4), (4, 2), (2, 2), (1, 4), (4, 1), (1, 2), (2, 1), (1, 1))
STEPS = (64, 32, 16)
# Of equal estimates the first is taken: two steps ahead forgive a memory that is slow for once.
STAGES = (3, 4, 2)
PARTS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32)
# Bytes of one copy, and the least that are copied beside the program; numbers a thread holds that are less.
COPY, LEAST_COPY, MOST_HELD = 16, 4, 32
# Registers of a thread at most.
THREAD_REGISTERS = 255


def fits(dtypes: set[str], out_dtype: str, target: Target) -> bool:
    """Whether the target has tensor cores for operands of these types, and may use them."""
    if len(dtypes) != 1 or not target.features.mma_dtypes.issuperset(dtypes):
        return False
    (dtype,) = dtypes
    if out_dtype not in (dtype, "float32"):
        return False
    return dtype != "float32" or bool(PassContext.current().get_config("topi.allow_tf32"))


class Operand(NamedTuple):
    """How an operand lies in memory: whether its neighbours go along the sum, and how many of them one copy takes."""

    along: bool
    lanes: int


def operand(read: Callable[..., Any], batch: Sequence[int], size: int, terms: int) -> Operand:
    lead = [Var(f"b{i}", "int32") for i in range(len(batch))]
    k, i = Var("k", "int32"), Var("i", "int32")
    analyzer = Analyzer()
    for var, extent in zip([*lead, k, i], [*batch, terms, size]):
        analyzer.bind(var, Range(min=const(0, "int32"), extent=const(extent, "int32")))
    value = _through_padding(read(*lead, k, i))
    most = COPY // info(value.dtype).bytes
    rows, columns = (_lanes(value, var, extent, most, analyzer) for var, extent in ((k, terms), (i, size)))
    return Operand(rows >= columns, max(rows, columns))


def _through_padding(value: PrimExpr) -> PrimExpr:
    """What is read, with the padding around it."""
    while True:
        made = value.producer.op if type(value) is ProducerLoad else None
        if not isinstance(made, ComputeOp) or not (made.tag or "").endswith(",pad"):
            return value
        value = substitute(made.body[0], {a.var: x for a, x in zip(made.axis, value.indices)})


def _lanes(value: PrimExpr, var: Var, extent: int, most: int, analyzer: Analyzer) -> int:
    """How many neighbours along ``var`` lie side by side, aligned, and are all there or all not."""
    for lanes in (x for x in (8, 4, 2) if x <= most and extent % x == 0):
        group, lane = Var("group", "int32"), Var("lane", "int32")
        analyzer.bind(group, Range(min=const(0, "int32"), extent=const(extent // lanes, "int32")))
        analyzer.bind(lane, Range(min=const(0, "int32"), extent=const(lanes, "int32")))
        if _runs(substitute(value, {var: group * lanes + lane}), lane, lanes, analyzer):
            return lanes
    return 1


def _runs(value: PrimExpr, lane: Var, lanes: int, analyzer: Analyzer) -> bool:
    if access.is_choosing(value):
        condition = analyzer.simplify(value.args[0])
        return not any(n is lane for n in post_order(condition)) and _runs(value.args[1], lane, lanes, analyzer)
    if type(value) is not ProducerLoad:
        return False
    place: Any = const(0, "int32")
    for index, size in zip(value.indices, value.producer.shape):
        place = place * size + index
    place = analyzer.simplify(place)
    if access.stride_along(place, lane) != 1:
        return False
    start = analyzer.modular_set(analyzer.simplify(substitute(place, {lane: const(0, "int32")})))
    return start.coeff % lanes == 0 and start.base % lanes == 0


def product(
    left: Callable[..., Any], right: Callable[..., Any], batch: Sequence[int], sizes: tuple[int, int, int],
    name: str, places: Places | None, machine: Machine, workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """As ``gemm.product``; sums are float32."""
    rows, columns, terms = sizes
    sides = operand(left, batch, rows, terms), operand(right, batch, columns, terms)
    dtype = left(*[0] * (len(batch) + 2)).dtype
    count = 1
    for d in batch:
        count *= d
    # Records of float32 are of products that are exact.
    workload = None if dtype == "float32" else workload
    known = Sizes(count, *sizes, info(dtype).bytes)
    config = tuned.configuration(TEMPLATE, known, machine, workload)
    parts = config["parts"]
    blocks = [t * w for t, w in zip(config["tile"], config["warps"])]
    whole = [-(-n // block) * block for n, block in zip(sizes, (*blocks, config["step"] * parts))]
    lies = _IN_BLOCKS if config.get("warpgroup") else _IN_ROWS

    def strips(read: Callable[..., Any], side: Operand, size: int, padded: int, word: str) -> Tensor:
        def body(*at):
            lead, (i, k) = at[: len(batch)], lies.element(side.along, at[len(batch) :], dtype)
            value = read(*lead, k, i)
            inside = [below(x, n, side.lanes if (x is k) == side.along else 1)
                      for x, n, all_of in ((k, terms, whole[2]), (i, size, padded)) if n != all_of]
            return te.if_then_else(te.all(*inside), value, te.const(0, dtype)) if inside else value

        shape = lies.shape(side.along, padded, whole[2], dtype)
        return te.compute((*batch, *shape), body, name=f"{name}_{word}", tag=f"{TAG},step")

    a = strips(left, sides[0], rows, whole[0], "left")
    b = strips(right, sides[1], columns, whole[1], "right")
    share = whole[2] // parts
    r = te.reduce_axis((0, share), name="k")

    def term(lead, k, i, j):
        x = a(*lead, *lies.place(sides[0].along, i, k, dtype))
        y = b(*lead, *lies.place(sides[1].along, j, k, dtype))
        return te.sum(x.astype(fragments.SUM) * y.astype(fragments.SUM), axis=r)

    attrs = {"places": places, "config": {**config, "dtype": dtype}, "sides": sides}
    if workload is not None:
        attrs["workload"] = workload
    shape = (*batch, *whole[:2])
    if parts == 1:
        return te.compute(shape, lambda *at: term(at[:-2], r, *at[-2:]), name=f"{name}_product", tag=TAG, attrs=attrs)
    partial = te.compute((parts, *shape), lambda p, *at: term(at[:-2], p * share + r, *at[-2:]),
                         name=f"{name}_part", tag=TAG, attrs=attrs)
    p = te.reduce_axis((0, parts), name="p")
    return te.compute(shape, lambda *at: te.sum(partial(p, *at), axis=p), name=f"{name}_product", tag=SUM_TAG,
                      attrs={"places": places, "config": config})


class Layout(NamedTuple):
    """How strips lie: their shape, where a term of a row is, and the row and the term of a place."""

    shape: Callable[..., tuple[int, ...]]
    place: Callable[..., tuple[Any, ...]]
    element: Callable[..., tuple[Any, Any]]


def _turned(along: bool, pair: Sequence[Any], *_: Any) -> tuple[Any, ...]:
    return tuple(pair) if along else tuple(pair[::-1])


_IN_ROWS = Layout(lambda along, *pair: _turned(along, pair[:2]), lambda along, *pair: _turned(along, pair[:2]), _turned)
_IN_BLOCKS = Layout(warpgroup.shape, warpgroup.place, warpgroup.element)


def below(x: Any, limit: int, lanes: int) -> PrimExpr:
    """x < limit, the same for all lanes of a copy."""
    return te.indexdiv(x, lanes) < limit // lanes if lanes > 1 else x < limit


# What may be chosen


def _tables(sizes: Sizes, machine: Machine) -> list[dict[str, list]]:
    """The choices of warps, and of warpgroups where there are any."""
    k = max(sizes.terms, STEPS[-1])
    table: dict[str, list] = {
        "tile": list(TILES),
        "warps": [w for w in WARPS if w[0] * w[1] * machine.warp <= machine.max_threads],
        "step": [s for s in STEPS if s <= k and s * sizes.bytes <= 128],
        "stages": list(STAGES),
        "parts": [p for p in PARTS if p * STEPS[-1] <= k],
    }
    if not machine.has_warpgroups or sizes.bytes != 2 or min(sizes.rows, sizes.columns) < warpgroup.FEWEST:
        return [table]
    step = warpgroup.ROW // sizes.bytes
    groups = {
        "warpgroup": [True],
        "tile": list(warpgroup.TILES),
        "warps": list(warpgroup.COUNTS),
        "step": [step],
        "stages": list(warpgroup.STAGES),
        "parts": [p for p in PARTS if p == 1 or p * step <= k],
    }
    return [table, groups]


def shared_bytes(sizes: Sizes, config: dict[str, Any]) -> int:
    """Of the strips, or of the tile of results that takes their place."""
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    if config.get("warpgroup"):
        return max(warpgroup.strip_bytes((bm, bn), config["stages"]), bm * (bn + 32) * 4)
    gap = 32 // sizes.bytes
    strips = config["stages"] * sum(max((x + gap) * config["step"], x * (config["step"] + gap)) for x in (bm, bn))
    return max(strips * sizes.bytes, bm * (bn + 32) * 4)


def registers(config: dict[str, Any], machine: Machine) -> int:
    tm, tn = config["tile"]
    if config.get("warpgroup"):
        return tm * tn // warpgroup.THREADS + machine.cost.tensor_core.other_registers
    return tm * tn // 32 + (tm + tn) // 2 + machine.cost.tensor_core.other_registers


def _is_known(sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
    """Whether tile, warps and stages are those of warps, or those of warpgroups as asked."""
    (wm, wn), tile, stages = config["warps"], config["tile"], config["stages"]
    if not config.get("warpgroup"):
        return tile in TILES and (wm, wn) in WARPS and stages in STAGES
    if not machine.has_warpgroups or tile not in warpgroup.TILES or (wm, wn) not in warpgroup.COUNTS:
        return False
    threads = wm * wn * warpgroup.THREADS
    fits = threads <= machine.max_threads and registers(config, machine) * threads <= warpgroup.REGISTERS
    return fits and config["step"] * sizes.bytes == warpgroup.ROW and stages in warpgroup.STAGES


def _cost(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Cycles until the last block is done."""
    cost = machine.cost.tensor_core
    (tm, tn), (wm, wn), step, stages, parts = (config[x] for x in ("tile", "warps", "step", "stages", "parts"))
    by_group = bool(config.get("warpgroup"))
    bm, bn, warps = tm * wm, tn * wn, wm * wn * (4 if by_group else 1)
    blocks = sizes.batch * -(-sizes.rows // bm) * -(-sizes.columns // bn) * parts
    used = -(-registers(config, machine) // 8) * 8 * warps * machine.warp
    fit = min(SM_REGISTERS // used, machine.multiprocessor_shared // (shared_bytes(sizes, config) + 1024), 32)
    fit = max(min(fit, machine.multiprocessor_threads // (warps * machine.warp)), 1)
    rate = (cost.group_multiplies_per_cycle if by_group else cost.multiplies_per_cycle) * 2 / sizes.bytes
    strips = (bm + bn) * step * sizes.bytes
    # Elements of both operands that the units read in a step, for each of its terms.
    read = wm * wn * (tm // 64 * (64 + tn) if by_group else tm + tn)
    # Busy cycles of a step of one block, and how long it takes when it is alone.
    fetch = strips / (cost.group_fetch_bytes_per_cycle if by_group else cost.fetch_bytes_per_cycle)
    busy = max(bm * bn * step / rate, (read * step * sizes.bytes + strips) / cost.shared_bytes_per_cycle, fetch)
    if by_group:
        # Products stand still while groups wait for each other, ask for the next strips and begin again.
        pause = cost.group_step_cycles * (2 + wm * wn)
        alone = max(pause + bm * bn * step / rate, cost.group_latency_cycles / (stages - 1 - warpgroup.IN_FLIGHT), busy)
    else:
        products = tm * tn * step / (rate / 4) * -(-warps // 4)
        loads = cost.step_cycles + step * sizes.bytes / 32 * cost.fragment_load_cycles
        alone = max(loads + products, cost.memory_latency_cycles / (stages - 1), busy)
    ends = cost.block_cycles + bm * bn * 12 / cost.shared_bytes_per_cycle
    steps = -(-sizes.terms // (step * parts))
    rounds, rest = divmod(blocks, machine.multiprocessors * fit)
    # What a block waits for is hidden behind the others' work: wholly by warpgroups, which work beside the program.
    together = max if by_group else math.hypot
    cycles = rounds * (together(busy * fit, alone) * steps + ends)
    if rest:
        cycles += together(busy * -(-rest // machine.multiprocessors), alone) * steps + ends
    if parts > 1:
        # Parts are written and read again.
        moved = 2 * parts * sizes.batch * sizes.rows * sizes.columns * 4
        cycles += cost.launch_cycles + moved / cost.partial_bytes_per_cycle
    return cycles


# The schedule


class Threads(NamedTuple):
    """The threads of a block: warps along rows, warps along columns, and the threads of a warp."""

    rows: IterVar
    columns: IterVar
    lanes: IterVar
    counts: tuple[int, int, int]


def _blocks(host: Stage, batch: list[IterVar], row: IterVar, column: IterVar, rows: int, tile: int) -> None:
    if batch:
        host.bind(host.fuse(*batch), te.thread_axis("blockIdx.z"))
    # Only the first dimension of a grid is practically without limit.
    row_tag, column_tag = ("y", "x") if rows <= MAX_GRID_BLOCKS * tile else ("x", "y")
    host.bind(row, te.thread_axis(f"blockIdx.{row_tag}"))
    host.bind(column, te.thread_axis(f"blockIdx.{column_tag}"))


def _whole_tiles(stage: Stage, config: dict[str, Any], threads: Threads) -> IterVar:
    """Sums go to memory as they are."""
    *batch, i, j = stage.op.axis
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    row, i = stage.split(i, factor=bm)
    column, j = stage.split(j, factor=bn)
    stage.reorder(*batch, row, column, i, j)
    rows = access.extent_of(stage.op.axis[-2]) or 0
    _blocks(stage, batch, row, column, rows, bm)
    return _warp_tiles(stage, [i, j], config, threads)


def _warp_tiles(stage: Stage, axes: list[IterVar], config: dict[str, Any], threads: Threads) -> IterVar:
    """Divide a tile among warps, which store their fragments; the loop around what a warp does."""
    (tm, tn), (i, j) = config["tile"], axes
    by_group = bool(config.get("warpgroup"))
    sides = (tm, tn) if by_group else (fragments.SIDE, fragments.SIDE)
    wi, i = stage.split(i, factor=tm)
    wj, j = stage.split(j, factor=tn)
    io, ii = stage.split(i, factor=sides[0])
    jo, ji = stage.split(j, factor=sides[1])
    stage.reorder(wi, wj, io, jo, ii, ji)
    stage.bind(wi, threads.rows)
    stage.bind(wj, threads.columns)
    stage.unroll(io)
    stage.unroll(jo)
    dtype = config["dtype"]
    stage.tensorize(ii, warpgroup.store(config["tile"], dtype) if by_group else fragments.store(dtype))
    return wj


def _elements(
    planner: Planner, stage: Stage, host: Stage, places: Places, config: dict[str, Any], threads: Threads
) -> IterVar:
    """Divide what follows the product among blocks, and a block's tile among its threads; the loop around a tile."""
    bm, bn = (t * w for t, w in zip(config["tile"], config["warps"]))
    lanes = _host_lanes(planner, host, places["columns"])
    batch, rows, columns = gemm.loops_of(host, places)
    host.reorder(*batch, *rows, *columns)
    row, column = host.fuse(*rows), host.fuse(*columns)
    column, lane = host.split(column, factor=lanes)
    row_block, row = host.split(row, factor=bm)
    column_block, column = host.split(column, factor=bn // lanes)
    host.reorder(*batch, row_block, column_block, row, column, lane)
    _blocks(host, batch, row_block, column_block, access.extent_of(stage.op.axis[-2]) or 1, bm)
    # A matrix smaller than the tile leaves fewer elements to a block.
    within = min(bm, gemm.extent_at(host.op, places["rows"]))
    across = min(bn // lanes, -(-gemm.extent_at(host.op, places["columns"]) // lanes))
    _spread(host, host.fuse(row, column), threads, within * across)
    host.vectorize(lane)
    return column_block


def _spread(stage: Stage, axis: IterVar, threads: Threads, count: int) -> None:
    """Carry a loop of ``count`` iterations by the threads of a block, neighbours by neighbours. As many threads take
    part as divide the loop: one that is split unevenly would reach past the tile."""
    for thread, n in zip((threads.lanes, threads.columns, threads.rows), reversed(threads.counts)):
        part = max(d for d in range(1, n + 1) if count % d == 0)
        axis, inner = stage.split(axis, factor=part)
        stage.bind(inner, thread)
        count //= part
    if count > 4 and count % 4 == 0:
        _, axis = stage.split(axis, factor=4)
    stage.unroll(axis)


def _host_lanes(planner: Planner, host: Stage, columns: tuple[int | Part, ...]) -> int:
    """Elements a thread takes at once: they lie side by side in the result and in what is read with it."""
    op, last = planner.plain_op(host.op), columns[-1]
    is_part = isinstance(last, Part)
    extent = last.size if is_part else access.extent_of(host.op.axis[last])
    if (last.axis if is_part else last) != len(host.op.axis) - 1 or extent is None or host.op.num_outputs != 1:
        return 1
    loads = [x for x in access.loads(op.body) if "sides" not in (x.producer.op.attrs or {})]
    if any(access.is_choosing(n) for b in op.body for n in post_order(b)):
        return 1
    if any(access.runs_along(x, op.axis[-1].var) == "far" for x in loads):
        return 1
    kinds = [op.body[0].dtype, *(x.dtype for x in loads)]
    lanes = min(COPY // max(info(kind).bytes, 1) for kind in kinds)
    while extent % lanes:
        lanes //= 2
    return 1 if "bool" in kinds else min(lanes, 8)


def _multiply(s: Schedule, sums: Stage, attrs: dict[str, Any], threads: Threads) -> None:
    """The loop over the sum: strips for several steps ahead, fragments, products."""
    config, sides = attrs["config"], attrs["sides"]
    dtype, step = config["dtype"], config["step"]
    terms = fragments.TERMS[dtype]
    *lead, i, j = sums.op.axis
    (k,) = sums.op.reduce_axis
    operands = list(sums.op.input_tensors)
    io, ii = sums.split(i, factor=fragments.SIDE)
    jo, ji = sums.split(j, factor=fragments.SIDE)
    ko, ki = sums.split(k, factor=step)
    ki, kk = sums.split(ki, factor=terms)
    sums.reorder(ko, ki, *lead, io, jo, ii, ji, kk)
    for axis in (ki, io, jo):
        sums.unroll(axis)
    sums.tensorize(ii, fragments.multiply(sides[0].along, sides[1].along, dtype))
    for tensor, side, use, tile, warps in zip(operands, sides, "ab", config["tile"], config["warps"]):
        held = s[s.cache_read(tensor, f"wmma.matrix_{use}", [sums.op.output(0)])]
        held.compute_at(sums, ki)
        *_, r, c = held.op.axis
        ro, ri = held.split(r, factor=fragments.SIDE if side.along else terms)
        co, ci = held.split(c, factor=terms if side.along else fragments.SIDE)
        held.reorder(ro, co, ri, ci)
        held.unroll(ro)
        held.unroll(co)
        held.tensorize(ri, fragments.load(use, side.along, dtype))
        if not (side.lanes * info(dtype).bytes < LEAST_COPY and _fetch_narrow(s, tensor, threads, tile * warps, step)):
            _fetch(s[tensor], side, threads, tile * warps * step)
        s[tensor].compute_at(sums, ko)
        s[tensor].double_buffer(config["stages"])


def _multiply_by_group(s: Schedule, sums: Stage, attrs: dict[str, Any], threads: Threads) -> None:
    """The loop over the sum: strips for several steps ahead, and products of a whole step."""
    config, sides = attrs["config"], attrs["sides"]
    *lead, i, j = sums.op.axis
    (k,) = sums.op.reduce_axis
    operands = list(sums.op.input_tensors)
    ko, kk = sums.split(k, factor=config["step"])
    sums.reorder(ko, *lead, i, j, kk)
    sums.tensorize(i, warpgroup.multiply(config["tile"], sides[0].along, sides[1].along, config["dtype"]))
    for tensor, side, tile, groups in zip(operands, sides, config["tile"], config["warps"]):
        strip = s[tensor]
        strip.set_scope("shared.dyn")
        *rows, c = strip.op.axis
        co, lanes = strip.split(c, factor=side.lanes)
        strip.vectorize(lanes)
        _spread(strip, strip.fuse(*rows, co), threads, tile * groups * config["step"] // side.lanes)
        strip.compute_at(sums, ko)
        strip.double_buffer(config["stages"])


def _fetch_narrow(s: Schedule, tensor: Tensor, threads: Threads, rows: int, step: int) -> bool:
    """As ``_fetch`` where numbers are too narrow for copies beside the program: a thread first asks for all it brings,
    then stores it, and so waits once. Says whether that goes with the threads there are, and into registers."""
    strip, count = s[tensor], math.prod(threads.counts)
    if count % step or rows % (count // step) or rows * step // count > MOST_HELD:
        return False
    strip.set_scope("shared.dyn")
    held = s[s.cache_write(tensor, "local")]
    *lead, r, c = strip.op.axis
    strip.storage_align(r, 16, 8)
    r, turn = strip.split(r, factor=rows * step // count)
    strip.reorder(*lead, r, c, turn)
    axis, last = strip.split(strip.fuse(*lead, r, c), factor=threads.counts[2])
    strip.bind(last, threads.lanes)
    for thread, n in ((threads.columns, threads.counts[1]), (threads.rows, threads.counts[0])):
        axis, inner = strip.split(axis, factor=n)
        strip.bind(inner, thread)
    strip.unroll(turn)
    held.compute_at(strip, last)
    for axis in held.op.axis:
        held.unroll(axis)
    return True


def _fetch(strip: Stage, side: Operand, threads: Threads, elements: int) -> None:
    """Bring a strip into shared memory by all threads of the block. A gap of 16 bytes between its rows keeps the eight
    rows that ldmatrix reads at once in different banks."""
    strip.set_scope("shared.dyn")
    *lead, r, c = strip.op.axis
    if info(strip.op.output(0).dtype).bytes == 2:
        strip.storage_align(r, 16, 8)
    else:
        strip.storage_align(r, *((8, 4) if side.along else (32, 8)))
    co, lanes = strip.split(c, factor=side.lanes)
    strip.vectorize(lanes)
    _spread(strip, strip.fuse(*lead, r, co), threads, elements // side.lanes)


class TensorCores(Knobs[Sizes, Machine], GPUTemplate):
    """A matmul on tensor cores, and the sum of its parts."""

    tags = (TAG, SUM_TAG)

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        return gemm.tile_consumer(planner, stage, plain)

    def space(self, sizes: Sizes, machine: Machine) -> dict[str, list]:
        """The tile of a warp and the warps of a block, terms fetched at a time and how many of them, parts of the sum;
        and those of warpgroups where there are any."""
        own, *others = _tables(sizes, machine)
        for other in others:
            own = {name: list(dict.fromkeys([*other[name], *own.get(name, [False])])) for name in other}
        return own

    def valid(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
        """Whether the strips fit the shared memory, the grid is not too large, and parts are not mostly filling."""
        step, parts = config["step"], config["parts"]
        if shared_bytes(sizes, config) > machine.dynamic_shared or sizes.batch * parts > MAX_GRID_BLOCKS:
            return False
        if registers(config, machine) > THREAD_REGISTERS or not _is_known(sizes, machine, config):
            return False
        steps = -(-sizes.terms // (step * parts))
        if config["stages"] > max(steps, min(warpgroup.STAGES if config.get("warpgroup") else STAGES)):
            return False
        return parts == 1 or steps * step * parts <= sizes.terms * 5 // 4

    def cost(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> float:
        return _cost(sizes, config, machine)

    def choose(self, sizes: Sizes, machine: Machine) -> dict[str, Any]:
        """The pick without measuring: the fewest cycles by estimate."""
        picks = [tuned.cheapest(table, lambda c: self.valid(sizes, machine, c), lambda c: _cost(sizes, c, machine))
                 for table in _tables(sizes, machine)]
        best = min(picks, key=lambda c: _cost(sizes, c, machine))
        return best if len(picks) == 1 else {"warpgroup": False, **best}

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        """Blocks, warps, strips and fragments; what follows element by element is done on the tile."""
        s = planner.s
        if stage.op.tag == SUM_TAG:
            gemm.sum_parts(planner, stage, consumer)
            return
        attrs = stage.op.attrs
        config, places = attrs["config"], attrs["places"]
        counts = (*config["warps"], warpgroup.THREADS if config.get("warpgroup") else planner.machine.warp)
        rows, columns, lanes = (te.thread_axis((0, n), f"threadIdx.{x}") for x, n in zip("zyx", counts))
        threads = Threads(rows, columns, lanes, counts)
        sums = s[s.cache_write(stage.op.output(0), "wmma.accumulator")]
        planner.placed.update((stage, sums))
        for axis, tile, warps in zip(stage.op.axis[-2:], config["tile"], config["warps"]):
            stage.align_bounds(axis, tile * warps)
        if consumer is None:
            warp = _whole_tiles(stage, config, threads)
        else:
            planner.placed.add(consumer)
            stage.compute_at(consumer, _elements(planner, stage, consumer, places, config, threads))
            stage.set_scope("shared.dyn")
            # Rows of neighbouring threads are in different banks.
            stage.storage_align(stage.op.axis[-2], 32, 8)
            warp = _warp_tiles(stage, list(stage.op.axis[-2:]), config, threads)
        sums.compute_at(stage, warp)
        planner.placed.update(s[t] for t in sums.op.input_tensors)
        (_multiply_by_group if config.get("warpgroup") else _multiply)(s, sums, attrs, threads)


TEMPLATE = TensorCores()
