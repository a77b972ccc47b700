"""Products of matrices on a GPU, and convolutions as such products.

A block of threads computes a tile of results. For each part of the sum it fetches a strip of both operands into shared
memory, where every thread finds what its own smaller tile, held in registers, needs. Convolutions do the same with a
right operand that is never stored: its strips are gathered from the image as they are needed. Where tiles are too few
to occupy the machine, the sum is divided among blocks too, and the parts are added up afterwards.
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
from ..template import GPUTemplate, Knobs
from . import operands, tuned
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.gpu import Planner
    from .tensor_cores import Operand

TAG = "gpu_gemm"
# Tiles of a thread, and how many threads a block has along rows and columns.
THREAD_TILES = ((8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 1))
# Of equal estimates the first is taken: wide blocks were measured to be a little faster.
THREADS = ((8, 32), (4, 32), (16, 16), (8, 16), (16, 8), (8, 8), (2, 32), (4, 16), (4, 8), (1, 64), (1, 128))
STEPS = (16, 32, 8)
# Where nothing is fetched ahead a step only makes the loop longer, and the code.
SHORT_STEPS = (2, 4, 8)
PARTS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 48, 64)
# Numbers of one load. A thread's rows and columns are groups of so many, apart from each other, so that neighbours read
# next to each other.
LANES = 4
# Numbers that memory gives at once at least, and bytes that are worth going along for.
ALONG, PIECE = 8, 16
# Threads of a warp, and how many of them lie side by side in a tile.
WARP, WARP_COLUMNS = 32, 8
# Columns below which a product is many sums rather than tiles.
FEW_COLUMNS = 4


def is_tiled(tensors: Sequence[Tensor], columns: Any = None, batch: Any = None) -> bool:
    """Whether a product of these tensors is computed in tiles: all sizes are known, there are columns enough for tiles,
    and the batch is not larger than a grid."""
    if columns is not None and getattr(columns, "value", 0) < FEW_COLUMNS:
        return False
    if batch is not None and getattr(batch, "value", 0) > MAX_GRID_BLOCKS:
        return False
    return all(getattr(d, "value", 0) for t in tensors for d in t.shape)


class Sizes(NamedTuple):
    """Of a product: results of the batch, rows, columns, terms, and bytes of a number; and how many numbers of the left
    and of the right operand are copied at once."""

    batch: int
    rows: int
    columns: int
    terms: int
    bytes: int
    copies: tuple[int, int] = (1, 1)


class Part(NamedTuple):
    """A part of a dimension of an operator's result that is divided by ``size``: the quotient, or the rest."""

    axis: int
    size: int
    rest: bool


# Which dimensions of an operator's result, or parts of them, are the batch, the rows and the columns of a product.
Places = dict[str, tuple["int | Part", ...]]


def product(
    left: Callable[..., Any], right: Callable[..., Any], batch: Sequence[int], sizes: tuple[int, int, int],
    dtype: str, name: str, places: Places | None, machine: Machine, workload: tuple[Any, ...] | None = None,
) -> Tensor:
    """The sums over k of ``left(*batch, k, row) * right(*batch, k, column)`` for ``sizes`` (rows, columns, terms) on a
    machine.

    ``places`` says which dimensions of the operator's own result are batch, rows and columns, None if they are not
    such: the operator is then a kernel of its own after the product. ``workload`` is what tuning records call the
    operator. Tiles are whole ones: past the edges the operands are nothing, so that the inner loops need not ask where
    they are."""
    from . import tensor_cores

    left, right = (operands.through(read, batch, size, sizes[2]) for read, size in zip((left, right), sizes))
    start = [0] * (len(batch) + 2)
    if tensor_cores.fits({left(*start).dtype, right(*start).dtype}, dtype, machine.target):
        return tensor_cores.product(left, right, batch, sizes, name, places, machine, workload)
    count = 1
    for d in batch:
        count *= d
    sides = tuple(tensor_cores.operand(read, batch, size, sizes[2]) for read, size in zip((left, right), sizes))
    copies = _lanes(sides[0], LANES, machine), _lanes(sides[1], LANES, machine)
    known = Sizes(count, *sizes, info(dtype).bytes, copies)
    config = tuned.configuration(TEMPLATE, known, machine, workload)
    (tm, tn), (ty, tx) = config["tile"], config["threads"]
    whole = [-(-n // block) * block for n, block in zip(sizes, (tm * ty, tn * tx, config["step"] * config["parts"]))]

    lanes = _lanes(sides[0], tm * ty, machine), _lanes(sides[1], tn * tx, machine)

    def filled(read: Callable[..., Any], size: int, padded: int, together: int) -> Callable[..., Any]:
        terms = sizes[2]
        if padded == size and whole[2] == terms:
            return read

        def inside(*at):
            *_, k, i = at
            value = read(*at)
            here = te.all(k < terms, tensor_cores.below(i, size, together))
            return te.if_then_else(here, value, te.const(0, value.dtype))

        return inside

    m, n, k = whole
    a, b = (te.compute((*batch, k, padded), filled(read, size, padded, together), name=f"{name}_{word}",
                       tag=f"{TAG},step")
            for read, size, padded, together, word in zip((left, right), sizes, (m, n), lanes, ("left", "right")))
    r = te.reduce_axis((0, k), name="k")

    def body(*at):
        *lead, i, j = at
        return te.sum(a(*lead, r, i).astype(dtype) * b(*lead, r, j).astype(dtype), axis=r)

    attrs = {"places": places, "config": config, "sides": sides, "lanes": lanes}
    if workload is not None:
        attrs["workload"] = workload
    return te.compute((*batch, m, n), body, name=f"{name}_product", tag=TAG, attrs=attrs)


def _lanes(found: Operand, block: int, machine: Machine) -> int:
    """Numbers of an operand that are fetched at once: neighbours across the sum that are all there or all not."""
    return LANES if machine.has_shared and not found.along and found.lanes >= LANES and block % LANES == 0 else 1


def _cost(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Cycles until the last block is done."""
    cost = machine.cost.tiled_matmul
    if not machine.has_shared:
        return _cost_from_memory(sizes, config, machine)
    (tm, tn), (ty, tx), step, parts = (config[x] for x in ("tile", "threads", "step", "parts"))
    bm, bn, threads = tm * ty, tn * tx, ty * tx
    blocks = sizes.batch * -(-sizes.rows // bm) * -(-sizes.columns // bn) * parts
    registers = tm * tn + tm + tn + cost.other_registers
    fit = min(machine.multiprocessor_threads // threads, SM_REGISTERS // (threads * registers), 32)
    fit = max(min(fit, machine.multiprocessor_shared // (2 * (bm + bn) * step * sizes.bytes + 1024)), 1)
    reads = threads * (-(-tm // LANES) / 2 + -(-tn // LANES))
    copies = bm / sizes.copies[0] + bn / sizes.copies[1]
    shared = cost.shared_read_cycles * reads + cost.shared_copy_cycles * copies
    work = bm * bn * step / cost.multiplies_per_cycle + shared * step / machine.warp
    alone = step * tm * tn * cost.lone_multiply_cycles * max(1.0, threads / cost.multiplies_per_cycle)
    if tm * tn * step > cost.cached_multiplies:
        work, alone = work * cost.long_code_factor, alone * cost.long_code_factor
    # What a block waits for is hidden behind the others' work for the most part.
    rounds, rest = divmod(blocks, machine.multiprocessors * fit)
    cycles = rounds * math.hypot(work * fit, cost.memory_latency_cycles + alone)
    if rest:
        cycles += math.hypot(work * -(-rest // machine.multiprocessors), cost.memory_latency_cycles + alone)
    cycles *= -(-sizes.terms // (step * parts)) * _spilling(config, machine)
    if parts > 1:
        # Parts are written and read again.
        moved = 2 * parts * sizes.batch * sizes.rows * sizes.columns * sizes.bytes
        cycles += cost.launch_cycles + cost.partial_sum_cycles * parts + moved / cost.partial_bytes_per_cycle
    return cycles


def _spilling(config: dict[str, Any], machine: Machine) -> float:
    """How much longer it takes where a tile is larger than the registers: it goes to memory and back."""
    cost = machine.cost.tiled_matmul
    tm, tn = config["tile"]
    return cost.spill_factor if tm * tn + tm + tn + cost.least_other_registers > machine.registers else 1.0


def _cost_from_memory(sizes: Sizes, config: dict[str, Any], machine: Machine) -> float:
    """Cycles where each thread reads what it multiplies: loads of four numbers count as much as the multiplications
    they stand beside."""
    cost = machine.cost.tiled_matmul
    (tm, tn), (ty, tx), step, parts = (config[x] for x in ("tile", "threads", "step", "parts"))
    threads = sizes.batch * -(-sizes.rows // (tm * ty)) * -(-sizes.columns // (tn * tx)) * parts * ty * tx
    loads = cost.global_load_cycles * (-(-tm // LANES) + -(-tn // LANES))
    term = (tm * tn + loads + cost.loop_cycles / step) * _spilling(config, machine)
    cycles = -(-threads // machine.enough_threads) * term * -(-sizes.terms // (step * parts)) * step
    return cycles + (cost.launch_cycles + parts * sizes.batch * sizes.rows * sizes.columns / 16 if parts > 1 else 0)


def estimate(sizes: Sizes, machine: Machine) -> float:
    """Estimated cycles of a product as it is picked."""
    return _cost(sizes, TEMPLATE.choose(sizes, machine), machine)


def tile_consumer(planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
    """The one operation that reads the product, if it is the operator's result element for element."""
    twin = plain.stage_map[stage.op]
    users = plain.consumers(twin)
    if stage.is_output or len(users) != 1 or not isinstance(users[0].op, ComputeOp) or users[0].op.reduce_axis:
        return None
    user = users[0].op
    places = stage.op.attrs["places"]
    if places is None:
        return None
    if len(user.axis) != len({p.axis if isinstance(p, Part) else p for some in places.values() for p in some}):
        return None
    config = stage.op.attrs["config"]
    blocks = [tile * count for tile, count in zip(config["tile"], config.get("threads") or config["warps"])]
    for which, block in zip(("rows", "columns"), blocks):
        # A tile that reaches past its part of a dimension would be taken for one of two parts.
        if any(isinstance(p, Part) and p.rest and p.size % block for p in places[which]):
            return None
    analyzer = Analyzer()
    for axis in user.axis:
        analyzer.bind(axis.var, axis.dom)
    wanted = [_joined(user, (i,)) for i in places["batch"]]
    wanted += [_joined(user, places["rows"]), _joined(user, places["columns"])]
    for load in access.loads(user.body):
        if load.producer.op is twin.op and not _reads(load, wanted, analyzer):
            return None
    return next(x for x in planner.s.stages if x.uid == users[0].uid)


def _joined(op: ComputeOp, places: tuple[int | Part, ...]):
    value: Any = None
    for place in places:
        here = op.axis[place.axis if isinstance(place, Part) else place].var
        if isinstance(place, Part):
            here = here % place.size if place.rest else here // place.size
        value = here if value is None else value * _extent(op, place) + here
    return 0 if value is None else value


def _extent(op: ComputeOp, place: int | Part) -> Any:
    if not isinstance(place, Part):
        return op.axis[place].dom.extent
    return place.size if place.rest else (op.axis[place.axis].dom.extent + place.size - 1) // place.size


def extent_at(op: ComputeOp, places: tuple[int | Part, ...]) -> int:
    """Iterations of the loops that are the rows, or the columns, of a matmul."""
    return math.prod(int(_extent(op, place)) for place in places)


def _reads(load: ProducerLoad, wanted: list, analyzer: Analyzer) -> bool:
    return len(load.indices) == len(wanted) and all(map(analyzer.can_prove_equal, load.indices, wanted))


def sum_parts(planner: Planner, stage: Stage, consumer: Stage | None) -> None:
    """Add up the parts, and do what follows: each element by a thread of its own, or a few neighbours where there are
    many."""
    s = planner.s
    host = consumer or stage
    planner.placed.update((stage, host))
    lanes = LANES if access.work(host.op) >= planner.machine.enough_threads else 1
    if not planner.machine.has_shared or not planner.stores_together(host.op, lanes):
        planner.serial(stage, consumer)
        return
    if host is stage:
        stage = s[s.cache_write(stage.op.output(0), "local")]
    *axes, last = host.op.axis
    last, lane = host.split(last, factor=lanes)
    host.vectorize(lane)
    _, thread = planner.spread(host, planner.fused(host, [*axes, last]))
    stage.compute_at(host, thread)
    stage.set_scope("local")
    *lead, column = stage.op.axis
    (part,) = stage.op.reduce_axis
    stage.reorder(*lead, part, column)
    stage.unroll(part)
    stage.vectorize(column)


def _tile(planner: Planner, host: Stage, stage: Stage, places: Places, attrs: dict[str, Any]) -> None:
    (tm, tn), (ty, tx), step = (attrs["config"][x] for x in ("tile", "threads", "step"))
    s, machine = planner.s, planner.machine
    shared = machine.has_shared
    together = _stored_together(planner, host, places["columns"], min(tn, LANES))
    batch, rows, columns = loops_of(host, places)
    host.reorder(*batch, *rows, *columns)
    row, column = host.fuse(*rows), host.fuse(*columns)
    row_block, row = host.split(row, factor=tm * ty)
    neighbours = []
    if together > 1:
        column, lane = host.split(column, factor=together)
        host.vectorize(lane)
        neighbours.append(lane)
    column_block, column = host.split(column, factor=tn * tx // together)
    apart = []
    if tm > LANES and shared:
        group, row = host.split(row, factor=ty * LANES)
        apart.append(group)
    if tn > LANES and shared:
        group, column = host.split(column, factor=tx * LANES // together)
        apart.append(group)
    row_thread, row = host.split(row, factor=min(tm, LANES) if shared else tm)
    column_thread, column = host.split(column, factor=(min(tn, LANES) if shared else tn) // together)
    host.reorder(*batch, row_block, column_block, *apart, row_thread, column_thread, row, column, *neighbours)
    for group in apart:
        host.bind(group, te.thread_axis("vthread"))
    if batch:
        host.bind(host.fuse(*batch), te.thread_axis("blockIdx.z"))
    # Only the first dimension of a grid is practically without limit.
    count = access.extent_of(stage.op.axis[-2]) or 1
    row_tag, column_tag = ("y", "x") if count <= MAX_GRID_BLOCKS * tm * ty else ("x", "y")
    host.bind(row_block, te.thread_axis(f"blockIdx.{row_tag}"))
    host.bind(column_block, te.thread_axis(f"blockIdx.{column_tag}"))
    threads = [te.thread_axis((0, tx), "threadIdx.x"), te.thread_axis((0, ty), "threadIdx.y")]
    if shared and machine.warp == WARP and tx > WARP_COLUMNS and ty % (WARP // WARP_COLUMNS) == 0:
        # Threads of a warp are those of a square rather than of a row: together they read less of the strips.
        threads = [te.thread_axis((0, n), f"threadIdx.{x}")
                   for n, x in ((WARP_COLUMNS, "x"), (ty, "y"), (tx // WARP_COLUMNS, "z"))]
        across, column_thread = host.split(column_thread, factor=WARP_COLUMNS)
        host.reorder(across, row_thread, column_thread)
        host.bind(across, threads[2])
    host.bind(row_thread, threads[1])
    host.bind(column_thread, threads[0])
    host.unroll(row)
    host.unroll(column)
    stage.compute_at(host, column_thread)
    stage.set_scope("local")
    *lead, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    outer, inner = stage.split(k, factor=step)
    stage.reorder(outer, inner, *lead, i, j)
    for axis in (inner, i, j):
        stage.unroll(axis)
    blocks, sides, lanes = (tm * ty, tn * tx), attrs["sides"], attrs["lanes"]
    for operand, width, block, side, wide in zip(stage.op.input_tensors, (tm, tn), blocks, sides, lanes):
        strip = s[operand]
        if not shared:
            strip.set_scope("local")
            strip.compute_at(stage, inner)
            _read(strip, min(width, LANES))
            continue
        strip.set_scope("shared")
        strip.compute_at(stage, outer)
        # The next strip is on its way while this one is used.
        strip.double_buffer()
        _fetch(strip, block, side, wide, threads)


def _stored_together(planner: Planner, host: Stage, columns: tuple[int | Part, ...], lanes: int) -> int:
    """Neighbours along a row that a thread stores, and reads of what is read with them, at once."""
    is_last = columns == (len(host.op.axis) - 1,)
    return lanes if planner.machine.has_shared and is_last and planner.stores_together(host.op, lanes) else 1


def _read(strip: Stage, lanes: int) -> None:
    """Read what one thread needs of an operand for one term, ``lanes`` numbers at a time where they lie together."""
    last = strip.op.axis[-1]
    together = all(access.runs_along(x, last.var) == "next" for x in access.loads(strip.op.body))
    chooses = any(access.is_choosing(n) for b in strip.op.body for n in post_order(b))
    if together and not chooses and lanes > 1:
        last, inner = strip.split(last, factor=lanes)
        strip.vectorize(inner)
    strip.unroll(last)


def loops_of(host: Stage, places: Places) -> tuple[list[IterVar], ...]:
    """The loops of the batch, the rows and the columns, those of divided dimensions among them."""
    divided = {p.axis: p.size for some in places.values() for p in some if isinstance(p, Part)}
    parts = {i: host.split(host.op.axis[i], factor=size) for i, size in divided.items()}
    return tuple([parts[p.axis][p.rest] if isinstance(p, Part) else host.op.axis[p] for p in places[x]]
                 for x in ("batch", "rows", "columns"))


def _fetch(strip: Stage, block: int, side: Operand, together: int, threads: list[IterVar]) -> None:
    """Fetch a strip of ``block`` rows or columns by all threads of the block, neighbours by neighbours, so many numbers
    ``together``."""
    axes = list(strip.op.axis)
    loads = access.loads(strip.op.body)
    along = [all(access.runs_along(x, a.var) == "next" for x in loads) for a in axes[-2:]]
    # Terms may lie together in pieces, with others in between.
    in_pieces = side.along and side.lanes * info(strip.op.output(0).dtype).bytes >= PIECE
    if (along[0] or in_pieces) and not along[1]:
        # The operand lies along the sum. Eight threads go along it, as far as memory is fetched at once, and the others
        # of a warp across it: a gap of one load keeps all of them in different banks, and threads still read several
        # neighbours at a time. Where there are fewer than that, terms lie together.
        strip.storage_align(axes[-2], 2 * LANES, LANES if block >= LANES else 1)
        outer, inner = strip.split(axes[-2], factor=ALONG)
        axes[-2:] = outer, axes[-1], inner
        strip.reorder(*axes)
    chooses = any(access.is_choosing(n) for b in strip.op.body for n in post_order(b))
    if along[1] and not chooses and access.extent_of(axes[-1]) % LANES == 0:
        together = LANES
    fused = strip.fuse(*axes)
    if together > 1:
        fused, lanes = strip.split(fused, factor=together)
        strip.vectorize(lanes)
    for thread in threads:
        fused, inner = strip.split(fused, factor=int(thread.dom.extent))
        strip.bind(inner, thread)
    strip.unroll(fused)


class TiledMatmul(Knobs[Sizes, Machine], GPUTemplate):
    """A matmul in tiles of threads."""

    tags = (TAG,)

    def consumer(self, planner: Planner, stage: Stage, plain: Schedule) -> Stage | None:
        return tile_consumer(planner, stage, plain)

    def space(self, sizes: Sizes, machine: Machine) -> dict[str, list]:
        """What may be chosen: the tile and the threads of a block, terms fetched at a time, parts of the sum."""
        k = sizes.terms
        steps = STEPS if machine.has_shared else SHORT_STEPS
        return {
            "tile": list(THREAD_TILES),
            "threads": [t for t in THREADS if t[0] * t[1] <= machine.max_threads],
            "step": [s for s in steps if s <= k] or [min(steps)],
            "parts": [p for p in PARTS if p * min(STEPS) <= max(k, min(STEPS))],
        }

    def valid(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> bool:
        """Whether two strips of each operand fit the shared memory, and parts are not mostly filling."""
        (tm, tn), (ty, tx), step, parts = (config[x] for x in ("tile", "threads", "step", "parts"))
        if machine.has_shared and 2 * (tm * ty + tn * tx + 8) * step * sizes.bytes > machine.shared_bytes:
            return False
        if sizes.batch * parts > MAX_GRID_BLOCKS:
            return False
        return parts == 1 or -(-sizes.terms // (step * parts)) * step * parts <= sizes.terms * 5 // 4

    def cost(self, sizes: Sizes, machine: Machine, config: dict[str, Any]) -> float:
        return _cost(sizes, config, machine)

    def choose(self, sizes: Sizes, machine: Machine) -> dict[str, Any]:
        """The pick without measuring: the fewest cycles by estimate."""
        return tuned.cheapest(
            self.space(sizes, machine), lambda c: self.valid(sizes, machine, c), lambda c: _cost(sizes, c, machine)
        )

    def apply(self, planner: Planner, stage: Stage, consumer: Stage | None) -> None:
        """Blocks, threads, shared strips, and what follows element by element done on the tile."""
        s = planner.s
        attrs = stage.op.attrs
        places, config = attrs["places"], attrs["config"]
        if config["parts"] > 1:
            (k,) = stage.op.reduce_axis
            part, _ = stage.split(k, nparts=config["parts"])
            partial = s[s.rfactor(stage.op.output(0), part, 0)]
            sum_parts(planner, stage, consumer)
            count = len(partial.op.axis)
            places = {"batch": tuple(range(count - 2)), "rows": (count - 2,), "columns": (count - 1,)}
            host, stage = partial, s[s.cache_write(partial.op.output(0), "local")]
        elif consumer is None:
            count = len(stage.op.axis)
            places = {"batch": tuple(range(count - 2)), "rows": (count - 2,), "columns": (count - 1,)}
            host, stage = stage, s[s.cache_write(stage.op.output(0), "local")]
        else:
            host = consumer
        planner.placed.update((host, stage))
        planner.placed.update(s[t] for t in stage.op.input_tensors)
        _tile(planner, host, stage, places, attrs)


TEMPLATE = TiledMatmul()
