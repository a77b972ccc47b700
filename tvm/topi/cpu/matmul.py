"""Matrix products: a tile of results stays in registers while it runs over all of the sum.

The right operand lies in panels as wide as the tile, so each step reads a few whole vectors of it and one number from
each row of the left one. A panel is used for all rows before the next is fetched: it comes from far away once.
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

# Steps of the sum written out one after the other.
UNROLL = 8
# The widest tile, in vectors, and the tallest, in rows, worth looking at.
MOST_VECTORS, MOST_ROWS = 8, 16
# Rows whose addresses fit the general registers, with some to spare for the loop.
MOST_ADDRESSES = 9
# Fewer independent sums than this leave the multipliers waiting for each other.
CHAINS = 8
# Products of fewer rows do not use the columns often enough to make panels of them first.
FEW_ROWS = 4
# Rows that make it worth keeping the left operand near.
SOME_ROWS = 128
# Parts that rows are cut into at most.
MOST_PARTS = 16
# Bytes of a row of the right operand up to which it is read as it is.
DIRECT_ROW = 512


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def tile_cost(m: int, n: int, rows: int, vectors: int, lanes: int) -> float:
    """Multiplications done, those of the edges that are thrown away among them, each with its share of loads. A row
    costs more than a vector: panels come from the second cache, so short tiles read them at a higher rate."""
    done = ceil_div(m, rows) * rows * ceil_div(n, vectors * lanes) * vectors
    waiting = max(CHAINS / (rows * vectors), 1.0)
    return done * max(1.0 + 2.0 / rows + 0.8 / vectors, 1.2 * waiting)


def tiles(m: int, registers: int) -> list[tuple[int, int]]:
    """Rows and vectors of all tiles whose sums, a row of vectors and one number fit the registers. Where tiles do not
    divide the rows, every row of a tile needs an address of its own."""
    return [
        (rows, vectors)
        for vectors in range(1, MOST_VECTORS + 1)
        for rows in range(1, min(m, MOST_ROWS) + 1)
        if rows * vectors + vectors + 1 <= registers and (m % rows == 0 or rows <= MOST_ADDRESSES)
    ]


def fastest(choices: list[tuple[int, int]], m: int, n: int, lanes: int) -> tuple[int, int]:
    """The tile that costs least; of equals, the largest."""
    return min(choices, key=lambda t: (tile_cost(m, n, *t, lanes), -t[0] * t[1]))


def panel_width(m: int, n: int, machine: Machine, dtype: str) -> int:
    """Columns of a panel when a right operand of ``n`` columns is packed for products with ``m`` rows."""
    lanes = machine.lanes(dtype)
    if m < FEW_ROWS:
        # Each number is used a few times only: the memory decides, and every thread should get some panels.
        fit = [t[1] for t in tiles(m, machine.registers) if t[0] == m and t[1] in (2, 4)]
        vectors = next((v for v in reversed(fit) if ceil_div(n, v * lanes) >= 4 * machine.threads), 1)
        return vectors * lanes
    return fastest(tiles(m, machine.registers), m, n, lanes)[1] * lanes


def row_tile(m: int, n: int, width: int, machine: Machine, dtype: str) -> int:
    """Rows of the tile over panels of this width."""
    lanes = gcd(machine.lanes(dtype), width)
    choices = [t for t in tiles(m, machine.registers) if width // lanes % t[1] == 0]
    return fastest(choices, m, n, lanes)[0]


class Product(NamedTuple):
    """How a product of two tensors is computed: the width of the panels its right operand is copied into (0 if it is
    read as it is), and the rows and columns it is filled up to (0 where it is not)."""

    panel: int = 0
    rows: int = 0
    columns: int = 0


def plan_product(batch: int, m: int, n: int, transposed: bool, dtype: str, machine: Machine) -> Product:
    """The plan for ``batch`` products of m rows and n columns on a machine."""
    if m < FEW_ROWS or 0 in (batch, n):
        return Product()
    lanes = machine.lanes(dtype)
    # Rows of a large matrix lie pages apart, and meet in the same places of the first cache.
    direct = not transposed and n % lanes == 0 and n * info(dtype).bytes <= DIRECT_ROW
    width = 0 if direct else panel_width(m, n, machine, dtype)
    rows = row_tile(m, n, width or n, machine, dtype)
    columns = ceil_div(n, width) * width if width else n
    padded = ceil_div(m, rows) * rows
    return Product(width, padded if padded != m else 0, columns if columns != n else 0)


def _sizes(op: ComputeOp) -> tuple[int, int, int] | None:
    """Rows, columns and terms of a product, None where one is not known."""
    if len(op.axis) < 2 or not op.reduce_axis:
        return None
    m, n, k = (access.extent_of(a) for a in (*op.axis[-2:], op.reduce_axis[0]))
    return (m, n, k) if m and n and k else None


def _width(op: ComputeOp) -> int:
    """The columns that lie side by side: the width of a panel, or all there are."""
    sizes = _sizes(op)
    return op.attrs.get("panel") or (sizes[1] if sizes else 1)


def _lanes(op: ComputeOp, machine: Machine) -> int:
    """Lanes of the vectors: panels hold whole ones."""
    return gcd(machine.lanes(op.output(0).dtype), _width(op))


def _cache_blocks(op: ComputeOp, machine: Machine, rows: int, m: int, k: int) -> dict[str, int]:
    """Parts of the sum and of the rows with room in the second cache for the left operand and two panels, the one in
    use and the one that is fetched."""
    panels, size = 2 * _width(op), info(op.output(0).dtype).bytes
    room = machine.l2_bytes * 3 // 4
    if (m + panels) * k * size <= room:
        return {}
    k_block = k
    if (min(m, SOME_ROWS) + panels) * k * size > room:
        limit = machine.l2_bytes // 4 // ((min(m, 2 * SOME_ROWS) + panels) * size)
        k_block = max((d for d in range(64, limit + 1, UNROLL) if k % d == 0), default=k)
    parts = ceil_div(m, max(room // (k_block * size) - panels, 4 * rows))
    return {"k_block": k_block, "row_parts": min(parts, MOST_PARTS)}


def _row_block(m: int, config: dict[str, Any]) -> int:
    """Rows of a part: whole tiles."""
    rows = config["tile"][0]
    return ceil_div(ceil_div(m, config["row_parts"]), rows) * rows


def _apply_in_parts(planner: Planner, stage: Stage, consumer: Stage, config: dict[str, Any]) -> None:
    """For long sums: a task finishes one part of the sum for all rows of a panel before it begins the next, and adds
    the parts up in a buffer of its own."""
    op = stage.op
    lanes = _lanes(op, planner.machine)
    rows, _ = config["tile"]
    width = _width(op)
    (k,) = op.reduce_axis
    part, _ = stage.split(k, factor=config["k_block"])
    tile = planner.s[planner.s.rfactor(op.output(0), part, 0)]
    *lead, i, j = consumer.op.axis
    block, i = consumer.split(i, factor=_row_block(access.extent_of(op.axis[-2]) or 1, config))
    j_outer, j_inner = consumer.split(j, factor=width)
    j_vector, lane = consumer.split(j_inner, factor=lanes)
    consumer.reorder(block, j_outer, *lead, i, j_vector, lane)
    consumer.vectorize(lane)
    task = consumer.fuse(block, j_outer)
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
    tile.compute_at(stage, i_outer)
    steps = _accumulate(tile, lanes, config["unroll"])
    _fetch_ahead(tile, op, steps, config, config["k_block"])


def _fetch_ahead(stage: Stage, op: ComputeOp, steps: IterVar, config: dict[str, Any], k: int) -> None:
    """While a part of a panel is used tile by tile, bring what comes after it nearer, each tile its share. Without this
    the first tile waits for the memory. Parts and panels follow each other in memory."""
    rows = _row_block(access.extent_of(op.axis[-2]) or 1, config)
    runs, rounds = rows // config["tile"][0], k // config["unroll"]
    if runs < 4 or k % config["unroll"]:
        return
    share = Call("handle", Op.get("tir.tvm_tuple"), (const(rounds), const(min(runs, rounds))))
    stage.prefetch(op.input_tensors[-1], steps, share)


def _accumulate(stage: Stage, lanes: int, unroll: int) -> IterVar:
    *lead, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    j_vector, lane = stage.split(j, factor=lanes)
    k_outer, k_inner = stage.split(k, factor=unroll)
    stage.reorder(*lead, k_outer, k_inner, i, j_vector, lane)
    stage.vectorize(lane)
    for axis in (k_inner, i, j_vector):
        stage.unroll(axis)
    if (access.extent_of(k) or 0) % unroll:
        stage.pragma(k_outer, "loop_partition_hint", True)
    stage.set_scope("local")
    return k_outer


def _panels_stage(planner: Planner, op: ComputeOp) -> Stage | None:
    """The copy of the right operand into panels."""
    found = [planner.s[t] for t in op.input_tensors if (t.op.tag or "") == "panels"]
    return found[0] if found else None


def _spread_with_panels(
    planner: Planner, consumer: Stage, panels: Stage, outer: list[IterVar], lanes: int, points: int
) -> IterVar:
    """Each task copies the panels it needs: those of a matrix, or a single one where there are few matrices."""
    *lead, j_outer, i_outer = outer
    count = 1
    for axis in lead:
        count *= planner.extent_now(consumer, axis)
    whole = count >= planner.machine.threads or points < planner.parallel_points
    task = consumer.fuse(*lead, *([] if whole else [j_outer]))
    if points >= planner.parallel_points:
        consumer.parallel(task)
    if whole:
        # The last panel may not be full.
        consumer.pragma(j_outer, "loop_partition_hint", True)
    *others, k, column = panels.op.axis
    column_outer, lane = panels.split(column, factor=lanes)
    # Where lanes are far apart in memory, neighbours along the sum come from the same lines.
    panels.reorder(*others, column_outer, k, lane)
    panels.vectorize(lane)
    panels.compute_at(consumer, task)
    planner.placed.add(panels)
    return i_outer


def _spread(planner: Planner, consumer: Stage, outer: list[IterVar], points: int) -> IterVar:
    """Share panels out between threads; with few of them, blocks of rows as well. Gives the loop that holds a tile."""
    if points < planner.parallel_points:
        return outer[-1]
    threads = planner.machine.threads
    count, taken = 1, 0
    for axis in outer:
        count *= planner.extent_now(consumer, axis)
        taken += 1
        if count >= 8 * threads:
            break
    shared_out = consumer.fuse(*outer[:taken])
    consumer.parallel(shared_out)
    return outer[-1] if taken < len(outer) else shared_out


class Matmul(CPUTemplate):
    """A matmul over panels of the right operand."""

    tags = ("batch_matmul", "dense_pack")

    def applies(self, op: ComputeOp) -> bool:
        """Whether this schedule fits: known sizes and one sum."""
        is_one_sum = op.num_outputs == 1 and len(op.reduce_axis) == 1
        return is_one_sum and _sizes(op) is not None and op.attrs.get("panel") != 0

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """What may be chosen: the tile, the steps of the sum written out, and the parts of the sum and of the rows that
        are finished before the next ones are begun."""
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        m, _, k = sizes
        lanes = _lanes(op, machine)
        whole = _width(op) // lanes
        fit = [t for t in tiles(m, machine.registers) if whole % t[1] == 0 and m % t[0] == 0]
        blocked = op.tag == "dense_pack"
        return {
            "tile": fit,
            "unroll": [u for u in (1, 2, 4, 8) if u <= k],
            "k_block": [d for d in range(64, k, 8) if k % d == 0] * blocked + [k],
            "row_parts": list(range(1, MOST_PARTS + 1 if blocked else 2)),
        }

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """The pick without measuring."""
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        m, n, k = sizes
        tile = fastest(self.space(op, machine)["tile"], m, n, _lanes(op, machine))
        config = {"tile": tile, "unroll": min(UNROLL, k), "k_block": k, "row_parts": 1}
        if op.tag == "dense_pack" and m >= 4 * tile[0]:
            config |= _cache_blocks(op, machine, tile[0], m, k)
        return config

    def apply(self, planner: Planner, stage: Stage, consumer: Stage, config: dict[str, Any]) -> None:
        """Panels outside, then rows; the tile of sums in registers, and what follows element by element done on it."""
        op = stage.op
        sizes = _sizes(op)
        assert sizes is not None, "applies() was asked"
        if config["k_block"] < sizes[2]:
            _apply_in_parts(planner, stage, consumer, config)
            return
        lanes = _lanes(op, planner.machine)
        rows, vectors = config["tile"]
        *lead, i, j = consumer.op.axis
        blocks = []
        if config["row_parts"] > 1:
            block, i = consumer.split(i, factor=_row_block(sizes[0], config))
            blocks = [block]
        i_outer, i_inner = consumer.split(i, factor=rows)
        j_outer, j_inner = consumer.split(j, factor=vectors * lanes)
        j_vector, lane = consumer.split(j_inner, factor=lanes)
        shared = op.tag == "dense_pack"
        outer = [*blocks, j_outer, *lead, i_outer] if shared else [*lead, j_outer, i_outer]
        consumer.reorder(*outer, i_inner, j_vector, lane)
        consumer.vectorize(lane)
        consumer.unroll(i_inner)
        consumer.unroll(j_vector)
        panels = None if shared else _panels_stage(planner, op)
        if panels is None:
            inside = _spread(planner, consumer, outer, access.work(op))
        else:
            inside = _spread_with_panels(planner, consumer, panels, outer, lanes, access.work(op))
        stage.compute_at(consumer, inside)
        steps = _accumulate(stage, lanes, config["unroll"])
        if shared and inside is i_outer:
            _fetch_ahead(stage, op, steps, config, sizes[2])


TEMPLATE = Matmul()
