"""Matmuls on a CPU: the template accumulates a register tile of the output over all of k.

The rhs is packed into panels as wide as the register tile, so that each step of k reads a few vectors of the panel and
one element of each lhs row. A panel is used for all rows before the next one, so it is read from memory once.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

from ...dtype import info
from ...ir.op import Op
from ...ir.prim import Call, IterVar, const
from ...te.schedule import Stage
from ...te.tensor import ComputeOp
from .. import access
from ..template import CPUTemplate
from .machine import Machine

if TYPE_CHECKING:
    from ..schedule.cpu import Planner

# The unroll factor of k.
UNROLL = 8
# Vector multiply-adds in an unrolled body. Longer bodies took up to 10 % more time with vectors of 256 and 512 bits.
# Kernels for dynamic numbers of rows use longer bodies if k is blocked, because each body also prefetches, and if
# multiply-adds with lane operands need several steps of k.
ENOUGH_UNROLLED, MORE_UNROLLED = 48, 96
# The minimum k for which a tile with row bounds checks costs no more than a tile without. Kernels for dynamic numbers
# of rows then contain only the checked tile.
DEEP = 256
# The largest register tile considered, in vectors and in rows.
MAX_VECTORS, MAX_ROWS = 8, 16
# The maximum number of rows whose addresses fit the general-purpose registers, in addition to those of the loop.
MAX_ADDRESSES = 9
# The number of independent accumulators that keeps the multipliers busy; with fewer, they wait for the latency of
# multiply-adds.
CHAINS = 8
# The minimum m for which packing the rhs pays, because each packed element must be reused often enough.
PACK_FROM_ROWS = 4
# The maximum number of rows for which a matmul with a transposed rhs is computed by dot products that are vectorized
# along the contiguous k. It uses the schedule of reductions, which a ``panel`` of 0 selects.
DOT_PRODUCT_ROWS = 2
# The unroll factor of k for a single row, where the kernel is bound by memory.
UNROLL_OF_ROW = 2
# The maximum number of columns in a register tile of a single row of dynamic length.
MAX_ROW_COLUMNS = 64
# The m and k for which tiles are chosen if they are dynamic; a dynamic n uses the value of m.
NOMINAL_ROWS, NOMINAL_DEPTH = 48, 64
# The m for which row blocks are chosen if it is dynamic; fewer rows form one block.
MANY_ROWS = 512
# The minimum m for which the lhs should stay in the L2 cache.
KEEP_LHS_FROM_ROWS = 128
# The maximum number of row blocks.
MAX_ROW_BLOCKS = 16
# The bytes of a cache line.
LINE = 64
# The longest rhs row, in bytes, that is read without packing.
MAX_UNPACKED_ROW_BYTES = 512


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def tile_cost(m: int, n: int, rows: int, vectors: int, lanes: int, machine: Machine) -> float:
    """Return the number of multiplications, including those of padding at the edges, each with its share of loads. A
    row costs more than a vector, because panels come from the L2 cache and tiles of few rows read them at a higher
    rate. Multiply-adds with lane operands need fewer loads, but wait for panels whose width is not a whole number of
    cache lines."""
    done = ceil_div(m, rows) * rows * ceil_div(n, vectors * lanes) * vectors
    waiting = max(CHAINS / (rows * vectors), 1.0)
    loads = 2.0 / rows + 0.8 / vectors
    if machine.has_lane_operands:
        loads = 1.5 / rows + 0.2 / vectors + (0.25 if vectors * machine.vector_bytes % LINE else 0)
    return done * max(1.0 + loads, 1.2 * waiting)


def tiles(m: int, machine: Machine) -> list[tuple[int, int]]:
    """Return rows and vectors of all register tiles that fit the registers together with a row of vectors and one
    broadcast, or with one vector per row if multiply-adds have lane operands. If tiles do not divide m, every row of a
    tile needs an address register."""

    def needed(rows: int, vectors: int) -> int:
        return rows * vectors + vectors + (rows + 4 if machine.has_lane_operands and rows > 1 else 1)

    return [
        (rows, vectors)
        for vectors in range(1, MAX_VECTORS + 1)
        for rows in range(1, min(m, MAX_ROWS) + 1)
        if needed(rows, vectors) <= machine.registers and (m % rows == 0 or rows <= MAX_ADDRESSES)
    ]


def fastest(choices: list[tuple[int, int]], m: int, n: int, lanes: int, machine: Machine) -> tuple[int, int]:
    """Return the register tile with the lowest cost; among equals, the largest."""
    return min(choices, key=lambda t: (tile_cost(m, n, *t, lanes, machine), -t[0] * t[1]))


def panel_width(m: int, n: int, machine: Machine, dtype: str) -> int:
    """Return the width of the panels into which an rhs of ``n`` columns is packed for matmuls with ``m`` rows."""
    lanes = machine.lanes(dtype)
    if m < PACK_FROM_ROWS:
        # Each element is used only a few times, so the kernel is bound by memory. Every thread should have some panels.
        fit = [t[1] for t in tiles(m, machine) if t[0] == m and t[1] in (2, 4)]
        vectors = next((v for v in reversed(fit) if ceil_div(n, v * lanes) >= 4 * machine.threads), 1)
        return vectors * lanes
    return fastest(tiles(m, machine), m, n, lanes, machine)[1] * lanes


def row_columns(dtype: str, machine: Machine) -> int:
    """Return the number of columns in a register tile of a single row with dynamic n. Smaller matrices are packed."""
    return min(CHAINS * machine.lanes(dtype), MAX_ROW_COLUMNS)


def row_tile(m: int, n: int, width: int, machine: Machine, dtype: str) -> int:
    """Return the number of rows in the register tile over panels of this width."""
    lanes = gcd(machine.lanes(dtype), width)
    choices = [t for t in tiles(m, machine) if width // lanes % t[1] == 0]
    return fastest(choices, m, n, lanes, machine)[0]


class MatmulPlan(NamedTuple):
    """The plan of a matmul: the width of the panels of its rhs (0 without packing), and the m and n to which it is
    padded (0 without padding)."""

    panel: int = 0
    rows: int = 0
    columns: int = 0


def plan_any_size(m: int | None, n: int | None, transposed: bool, dtype: str, machine: Machine) -> tuple[int, int]:
    """Return the panel width (0 without packing) and the rows of the register tile of a batched matmul with dynamic
    dimensions."""
    rows, columns = NOMINAL_ROWS if m is None else m, NOMINAL_ROWS if n is None else n
    panel = (
        panel_width(rows, columns, machine, dtype)
        if n is None
        else plan_matmul(1, rows, columns, transposed, dtype, machine).panel
    )
    return panel, row_tile(rows, columns, panel or columns, machine, dtype)


def plan_matmul(batch: int, m: int, n: int, transposed: bool, dtype: str, machine: Machine) -> MatmulPlan:
    """Return the plan of a batched matmul on a machine."""
    if m < PACK_FROM_ROWS or 0 in (batch, n):
        return MatmulPlan()
    lanes = machine.lanes(dtype)
    # Rows of a large matrix are pages apart and map to the same sets of the L1 cache.
    direct = not transposed and n % lanes == 0 and n * info(dtype).bytes <= MAX_UNPACKED_ROW_BYTES
    width = 0 if direct else panel_width(m, n, machine, dtype)
    rows = row_tile(m, n, width or n, machine, dtype)
    columns = ceil_div(n, width) * width if width else n
    padded = ceil_div(m, rows) * rows
    return MatmulPlan(width, padded if padded != m else 0, columns if columns != n else 0)


def _sizes(op: ComputeOp) -> tuple[int, int, int] | None:
    """Return m, n and k, or None if one of them is dynamic and not padded to full register tiles."""
    if len(op.axis) < 2 or not op.reduce_axis:
        return None
    m, n, k = (access.extent_of(a) for a in (*op.axis[-2:], op.reduce_axis[0]))
    if m is None and "rows" in op.attrs:
        m = NOMINAL_ROWS // op.attrs["rows"] * op.attrs["rows"]
    step = op.attrs.get("panel") or op.attrs.get("columns")
    if n is None and step:
        n = ceil_div(NOMINAL_ROWS, step) * step
    k = NOMINAL_DEPTH if k is None else k
    return (m, n, k) if m and n and k else None


def _all_rows(op: ComputeOp) -> int:
    """Return the number of rows for which row blocks are chosen."""
    m = access.extent_of(op.axis[-2])
    if m is None:
        return MANY_ROWS if _is_blocked(op) else NOMINAL_ROWS if op.attrs.get("fits") else op.attrs["rows"]
    return m


def _is_blocked(op: ComputeOp) -> bool:
    """Return whether a dynamic number of rows is assumed to be large enough for blocks of k or of rows."""
    return op.attrs["rows"] > PACK_FROM_ROWS and not op.attrs.get("fits")


def _width(op: ComputeOp) -> int:
    """Return the number of contiguous columns: the width of a panel or all of n; for a dynamic n, the columns of a
    tile."""
    sizes = _sizes(op)
    return op.attrs.get("panel") or op.attrs.get("columns") or (sizes[1] if sizes else 1)


def _lanes(op: ComputeOp, machine: Machine) -> int:
    """Return the vector width, which divides the panels."""
    return gcd(machine.lanes(op.output(0).dtype), _width(op))


def cache_blocks(width: int, dtype: str, machine: Machine, rows: int, m: int, k: int) -> dict[str, int]:
    """Return the block_k and the number of row blocks for which the L2 cache holds a block of the lhs and two panels:
    the current one and the prefetched one."""
    panels, size = 2 * width, info(dtype).bytes
    room = machine.l2_bytes * 3 // 4
    if (m + panels) * k * size <= room:
        return {}
    k_block = k
    if (min(m, KEEP_LHS_FROM_ROWS) + panels) * k * size > room:
        limit = machine.l2_bytes // 4 // ((min(m, 2 * KEEP_LHS_FROM_ROWS) + panels) * size)
        k_block = max((d for d in range(64, limit + 1, UNROLL) if k % d == 0), default=k)
    blocks = ceil_div(m, max(room // (k_block * size) - panels, 4 * rows))
    return {"k_block": k_block, "row_parts": min(blocks, MAX_ROW_BLOCKS)}


def rows_that_fit(width: int, dtype: str, machine: Machine, k: int) -> int:
    """Return the maximum number of rows whose lhs fits the L2 cache together with two panels; they need no blocks."""
    return machine.l2_bytes * 3 // 4 // (k * info(dtype).bytes) - 2 * width


def row_block(m: int, rows: int, parts: int) -> int:
    """Return the rows of a row block, which consists of whole register tiles."""
    return ceil_div(ceil_div(m, parts), rows) * rows


def _row_block(op: ComputeOp, config: dict[str, Any]) -> int:
    return row_block(_all_rows(op), config["tile"][0], config["row_parts"])


def _apply_k_blocked(planner: Planner, stage: Stage, consumer: Stage, config: dict[str, Any]) -> None:
    """Schedule a large k: a task finishes one block of k for all rows of a panel before the next block, and accumulates
    the blocks in a buffer."""
    op = stage.op
    lanes = _lanes(op, planner.machine)
    rows, _ = config["tile"]
    width = _width(op)
    (k,) = op.reduce_axis
    part, _ = stage.split(k, factor=config["k_block"])
    tile = planner.s[planner.s.rfactor(op.output(0), part, 0)]
    *lead, i, j = consumer.op.axis
    block = None
    if "rows" not in op.attrs or config["row_parts"] > 1:
        block, i = consumer.split(i, factor=_row_block(op, config))
    j_outer, j_inner = consumer.split(j, factor=width)
    j_vector, lane = consumer.split(j_inner, factor=lanes)
    outer = [j_outer] if block is None else [block, j_outer]
    consumer.reorder(*outer, *lead, i, j_vector, lane)
    consumer.vectorize(lane)
    task = consumer.fuse(*outer) if len(outer) > 1 else j_outer
    consumer.parallel(task)
    stage.compute_at(consumer, task)
    *lead, i, j = stage.op.axis
    (part,) = stage.op.reduce_axis
    i_outer, i_inner = stage.split(i, factor=rows)
    j_vector, lane = stage.split(j, factor=lanes)
    stage.reorder(*lead, part, i_outer, i_inner, j_vector, lane)
    stage.vectorize(lane)
    stage.unroll(i_inner)
    stage.unroll(j_vector)
    if "rows" in op.attrs and block is not None:
        # The last block of rows may be partial.
        stage.pragma(i_outer, "loop_partition_hint", config["k_block"] < DEEP)
    tile.compute_at(stage, i_outer)
    steps = _accumulate(tile, lanes, config["unroll"], planner.machine)
    _prefetch(tile, op, steps, config, config["k_block"])


def _prefetch(stage: Stage, op: ComputeOp, steps: IterVar, config: dict[str, Any], k: int) -> None:
    """Prefetch the next block of a panel while the current one is used; each tile prefetches its share. Without
    prefetching, the first tile would wait for memory. Blocks and panels are contiguous in memory."""
    rows = _row_block(op, config)
    runs, rounds = rows // config["tile"][0], k // config["unroll"]
    if runs < 4 or k % config["unroll"]:
        return
    share = Call("handle", Op.get("tir.tvm_tuple"), (const(rounds), const(min(runs, rounds))))
    stage.prefetch(op.input_tensors[-1], steps, share)


def _accumulate(stage: Stage, lanes: int, unroll: int, machine: Machine) -> IterVar:
    *lead, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    j_vector, lane = stage.split(j, factor=lanes)
    k_outer, k_inner = stage.split(k, factor=unroll)
    stage.reorder(*lead, k_outer, k_inner, i, j_vector, lane)
    stage.vectorize(lane)
    for axis in (k_inner, i, j_vector):
        stage.unroll(axis)
    if machine.has_lane_operands and lanes > 1 and unroll % lanes == 0:
        stage.pragma(k_inner, "lane_operands", lanes)
    steps = access.extent_of(k)
    if steps is None or steps % unroll:
        stage.pragma(k_outer, "loop_partition_hint", True)
    stage.set_scope("local")
    return k_outer


def _has_partial_panel(op: ComputeOp, consumer: Stage, width: int) -> bool:
    """Return whether the last panel of a matmul with a dynamic number of rows may exceed the columns."""
    columns = access.extent_of(consumer.op.axis[-1])
    return "rows" in op.attrs and (columns is None or columns % width > 0)


def _has_functions(planner: Planner, op: ComputeOp) -> bool:
    """Return whether the epilogue of a matmul calls functions such as tanh, whose code becomes long when it is
    unrolled."""
    epilogue = {op}
    for stage in planner.s.stages:
        if any(t.op in epilogue for t in stage.op.input_tensors):
            epilogue.add(stage.op)
    return any(isinstance(e, ComputeOp) and not access.is_cheap(e) for e in epilogue - {op})


def _keep_tile(planner: Planner, stage: Stage, lanes: int) -> Stage:
    """Store the register tile in memory, from which loops read the valid columns of the last panel. Unrolled code would
    need a branch for each element in every size class."""
    product = stage.op.output(0)
    readers = [s.op for s in planner.s.stages if product in s.op.input_tensors]
    copy = planner.s[planner.s.cache_read(product, "local", readers)]
    planner.placed.add(copy)
    *lead, i, j = copy.op.axis
    j_vector, lane = copy.split(j, factor=lanes)
    copy.vectorize(lane)
    copy.unroll(i)
    copy.unroll(j_vector)
    return copy


def _panels_stage(planner: Planner, op: ComputeOp) -> Stage | None:
    """Return the stage that packs the rhs into panels."""
    stages = [planner.s[t] for t in op.input_tensors if (t.op.tag or "") == "panels"]
    return stages[0] if stages else None


def _parallelize_with_panels(
    planner: Planner, consumer: Stage, panels: Stage, outer: list[IterVar], lanes: int, points: int, is_cut: bool
) -> IterVar:
    """Let each task pack the panels it needs: those of one matrix, or a single panel if the batch is small. If the last
    panel may be partial, only the stores of columns are guarded."""
    *lead, j_outer, i_outer = outer
    count = 1
    for axis in lead:
        count *= planner.extent_now(consumer, axis)
    is_matrix = count >= planner.machine.threads or points < planner.parallel_points
    task = consumer.fuse(*lead, *([] if is_matrix else [j_outer]))
    if points >= planner.parallel_points:
        consumer.parallel(task)
    if is_matrix:
        # The last panel may be partial.
        consumer.pragma(j_outer, "loop_partition_hint", not is_cut)
    *others, k, column = panels.op.axis
    column_outer, lane = panels.split(column, factor=lanes)
    # If the lanes are far apart in memory, neighbours along k are in the same cache lines.
    panels.reorder(*others, column_outer, k, lane)
    panels.vectorize(lane)
    panels.compute_at(consumer, task)
    planner.placed.add(panels)
    return i_outer


def _parallelize(planner: Planner, consumer: Stage, outer: list[IterVar], points: int) -> IterVar:
    """Distribute panels among threads, and row blocks too if there are few panels. Return the loop around a tile."""
    if points < planner.parallel_points:
        return outer[-1]
    threads = planner.machine.threads
    count, taken = 1, 0
    for axis in outer:
        count *= planner.extent_now(consumer, axis)
        taken += 1
        if count >= 8 * threads:
            break
    task = consumer.fuse(*outer[:taken])
    consumer.parallel(task)
    return outer[-1] if taken < len(outer) else task


class Matmul(CPUTemplate):
    """A matmul over panels of the rhs."""

    tags = ("batch_matmul", "dense_pack")

    def applies(self, op: ComputeOp) -> bool:
        """Return whether all dimensions are constant and there is one reduction axis."""
        is_one_sum = op.num_outputs == 1 and len(op.reduce_axis) == 1
        return is_one_sum and _sizes(op) is not None and op.attrs.get("panel") != 0

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values: the register tile, the unroll factor of k, and the blocks of k and of
        rows."""
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        m, _, k = sizes
        lanes = _lanes(op, machine)
        vectors = _width(op) // lanes
        fit = [t for t in tiles(m, machine) if vectors % t[1] == 0 and m % t[0] == 0
               and t[0] == op.attrs.get("rows", t[0])]  # fmt: skip
        blocked = op.tag == "dense_pack"
        return {
            "tile": fit,
            "unroll": [u for u in (1, 2, 4, 8) if u <= k],
            "k_block": [d for d in range(64, k, 8) if k % d == 0] * blocked + [k],
            "row_parts": list(range(1, MAX_ROW_BLOCKS + 1 if blocked else 2)),
        }

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the analytic choice."""
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        m, n, k = sizes
        tile = fastest(self.space(op, machine)["tile"], m, n, _lanes(op, machine), machine)
        config = {"tile": tile, "unroll": min(UNROLL, k, machine.max_unroll), "k_block": k, "row_parts": 1}
        if op.tag == "dense_pack" and (_is_blocked(op) if "rows" in op.attrs else m >= 4 * tile[0]):
            config |= cache_blocks(_width(op), op.output(0).dtype, machine, tile[0], _all_rows(op), k)
        if "columns" in op.attrs:
            config["unroll"] = min(config["unroll"], UNROLL_OF_ROW)
        elif "rows" in op.attrs or not machine.has_lane_operands:
            has_more = machine.has_lane_operands or "rows" in op.attrs and config["k_block"] < k
            most = max((MORE_UNROLLED if has_more else ENOUGH_UNROLLED) // (tile[0] * tile[1]), 1)
            config["unroll"] = min(config["unroll"], 1 << most.bit_length() - 1)
        return config

    def apply(self, planner: Planner, stage: Stage, consumer: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration: the panels are the outer loop, then the rows; inside are the register tile and its
        epilogue."""
        op = stage.op
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        if config["k_block"] < sizes[2]:
            _apply_k_blocked(planner, stage, consumer, config)
            return
        lanes = _lanes(op, planner.machine)
        rows, vectors = config["tile"]
        *lead, i, j = consumer.op.axis
        blocks = []
        if config["row_parts"] > 1:
            block, i = consumer.split(i, factor=_row_block(op, config))
            blocks = [block]
        i_outer, i_inner = consumer.split(i, factor=rows)
        j_outer, j_inner = consumer.split(j, factor=vectors * lanes)
        if op.attrs.get("columns"):
            consumer.overlap(j_outer)
        j_vector, lane = consumer.split(j_inner, factor=lanes)
        shared = op.tag == "dense_pack"
        outer = [*blocks, j_outer, *lead, i_outer] if shared else [*lead, j_outer, i_outer]
        consumer.reorder(*outer, i_inner, j_vector, lane)
        is_cut = _has_partial_panel(op, consumer, vectors * lanes)
        if not is_cut:
            consumer.vectorize(lane)
            consumer.unroll(i_inner)
            consumer.unroll(j_vector)
        is_deep = sizes[2] >= DEEP
        if "rows" in op.attrs and (blocks or is_deep or not shared or _has_functions(planner, op)):
            # The last block of rows may be partial. If the tile is cheap compared to its bounds checks, or its epilogue
            # is long, row bounds checks cost less than a copy of tile and epilogue for the remaining rows.
            consumer.pragma(i_outer, "loop_partition_hint", bool(blocks) and not is_deep)
        panels = None if shared else _panels_stage(planner, op)
        if panels is None:
            inside = _parallelize(planner, consumer, outer, access.work(op))
        else:
            inside = _parallelize_with_panels(planner, consumer, panels, outer, lanes, access.work(op), is_cut)
        stage.compute_at(consumer, inside)
        if is_cut:
            _keep_tile(planner, stage, lanes).compute_at(consumer, inside)
        steps = _accumulate(stage, lanes, config["unroll"], planner.machine)
        if shared and inside is i_outer:
            _prefetch(stage, op, steps, config, sizes[2])


TEMPLATE = Matmul()
