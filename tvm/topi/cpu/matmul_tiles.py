"""Matmuls with matrix registers (AMX).

The rhs is packed into panels ``(n / 32, k / block, block / depth, 32, depth)``; constant weights are packed at compile
time. A register block is two row tiles by the two column tiles of a panel, so that every loaded tile is used twice. A
block of rows stays in the L2 cache for all panels. If the block has several register blocks and k is long, k is divided
into parts: one part of the panel stays in the L1 cache for all rows, which come from the L2 cache, and vector code adds
the partial results. Otherwise accumulators stay in registers for all of k, and the first part of the panel stays in the
L1 cache.

The lhs is read in place. It is packed into tiles if its last tile of rows or of k would be partial, or if its rows
would map to the same sets of the L1 cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...dtype import info
from ...ir.prim import IntImm
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..template import CPUTemplate
from ..utils import prod
from . import tiles
from .conv2d_tiles import columns_of, epilogue
from .matmul import LINE
from .tiles import COLUMNS, ROW_BYTES, ROWS, Kind

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

TAG = "matmul_tiles"
# The columns of a panel.
PANEL = 2 * COLUMNS
# Rows at a distance of a multiple of this many bytes map to few sets of the L1 cache.
ALIASED = 2048


def panel_width(n: int) -> int | None:
    """Return the columns of a panel, or None for a matrix that is wider than a tile but narrower than a panel."""
    return PANEL if n >= PANEL else n if n <= COLUMNS else None


def k_block(k: int, kind: Kind) -> int:
    """Return the K dimension of a tile: the one that needs the least padding; among equals, the largest."""
    sizes = range(kind.k, 0, -kind.depth)
    return min(sizes, key=lambda b: (-(-k // b) * b + (0 if 2 * b > min(k, kind.k) else k), -b))


def row_tiles(m: int) -> tuple[int, int]:
    """Return the number of tiles into which m rows are divided, and the rows of a tile. Several tiles come in an even
    number, because they are loaded in pairs. A tile size that divides m is preferred, else the one that wastes the
    least computation."""
    if m <= ROWS:
        return 1, m
    exact = [d for d in range(ROWS, ROWS // 2, -1) if m % (2 * d) == 0]
    pairs = -(-m // (2 * ROWS))
    return (m // exact[0], exact[0]) if exact else (2 * pairs, -(-m // (2 * pairs)))


def pays(m: int, row_bytes: int) -> bool:
    """Return whether packing an lhs of whole tiles is profitable."""
    return m >= 8 * ROWS and row_bytes % ALIASED == 0


def products(lhs: Tensor, rhs: Tensor, n: int, kind: Kind, is_batch: bool = False, one_lhs: bool = False,
             one_rhs: bool = False) -> Tensor:  # fmt: skip
    """Return the matmul of ``lhs`` (..., m, k) with panels. With ``is_batch``, each leading index of the lhs has its
    own panels. ``one_lhs`` and ``one_rhs`` mark an operand of a batch with a single matrix."""
    *lead, m, k = (int(d) for d in lhs.shape)
    if is_batch:
        lead = [max(lead[0], int(rhs.shape[0]))]
    panels, blocks, groups, width, depth = (int(d) for d in rhs.shape[-5:])
    (count, rows), block = row_tiles(m), groups * depth
    is_packed = (m, k) != (count * rows, blocks * block) or pays(m, k * info(lhs.dtype).bytes)
    source = _packed_lhs(lhs, count, rows, blocks, block) if is_packed else lhs
    axes = [te.reduce_axis((0, s), name=x) for s, x in zip((blocks, groups, depth), ("k_outer", "group", "inner"))]
    outer, group, inner = axes

    def body(*at):
        *first, oc, t, x, ob = at
        own = [0] * len(first) if one_lhs else first
        j = group * depth + inner
        place = (t, outer, x, j) if is_packed else (t * rows + x, outer * block + j)
        value = source(*own, *place).astype(kind.sums)
        matrix = ([0] if one_rhs else first) if is_batch else []
        return te.sum(value * rhs(*matrix, oc, outer, group, ob, inner).astype(kind.sums), axis=axes)

    in_tiles = (*lead, panels, count, rows, width)
    sums = te.compute(in_tiles, body, name=TAG, tag=TAG, attrs={"kind": kind, "is_packed": is_packed})
    held = te.compute(in_tiles, lambda *at: sums(*at), name=TAG + "_held", tag="held,step")

    def matrix(*at):
        *first, i, j = at
        return held(*first, te.indexdiv(j, width), te.indexdiv(i, rows), te.indexmod(i, rows), te.indexmod(j, width))

    return te.compute((*lead, m, n), matrix, name=TAG + "_matrix", tag="injective")


def _packed_lhs(lhs: Tensor, count: int, rows: int, blocks: int, block: int) -> Tensor:
    """Return the lhs packed into tiles; zeros fill the last tiles."""
    *lead, m, k = (int(d) for d in lhs.shape)

    def body(*at):
        *first, t, outer, x, inner = at
        i, j = t * rows + x, outer * block + inner
        bounds = [(i < m, count * rows > m), (j < k, blocks * block > k)]
        inside = [condition for condition, is_needed in bounds if is_needed]
        value = lhs(*first, i, j)
        return tir.if_then_else(te.all(*inside), value, tir.const(0, lhs.dtype)) if inside else value

    return te.compute((*lead, count, blocks, rows, block), body, name="lhs_tiles", tag="pad,step")


def packed_rhs(rhs: Tensor, n: int, k: int, width: int, transposed: bool, kind: Kind) -> Tensor:
    """Return a batch of rhs matrices (n, k) or (k, n) packed into panels; zeros pad n and k."""
    block, depth = k_block(k, kind), kind.depth

    def body(b, panel, outer, group, j, inner):
        column, at = panel * width + j, outer * block + group * depth + inner
        value = rhs(b, column, at) if transposed else rhs(b, at, column)
        if n % width == 0 and k % block == 0:
            return value
        return tir.if_then_else(te.all(column < n, at < k), value, tir.const(0, rhs.dtype))

    shape = (rhs.shape[0], -(-n // width), -(-k // block), block // depth, width, depth)
    return te.compute(shape, body, name="panels", tag="panels,step")


def extents(op: ComputeOp) -> dict[str, int]:
    *lead, panels, count, rows, width = (access.extent_of(a) or 1 for a in op.axis)
    steps, groups, depth = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {
        "lead": prod(lead), "panels": panels, "tiles": count, "rows": rows, "width": width, "steps": steps,
        "block": groups * depth,
    }  # fmt: skip


class MatmulTiles(CPUTemplate):
    """A matmul with matrix registers."""

    tags = (TAG,)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether all dimensions are constant."""
        return all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return the knobs: the k tiles of a part; with one part, the k tiles whose panel should stay in the L1 cache;
        and the tiles of a block of rows."""
        x = extents(op)
        m = 2 - x["tiles"] % 2
        steps = [d for d in range(1, x["steps"] + 1) if x["steps"] % d == 0]
        rows = [d for d in range(m, x["tiles"] + 1, m) if x["tiles"] % d == 0]
        return {
            "steps": steps, "rows": rows, "near": [0, 8, 12, 16, 20, x["steps"]], "prefetch_distance": [0, 4, 8, 16],
            "prefetch_lines": [1, 2], "non_temporal": [False, True], "streams": [False, True],
        }  # fmt: skip

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the analytic choice. k is divided into parts whose panel stays in the L1 cache if several register
        blocks reuse it there; otherwise one part covers all of k. A panel that slightly exceeds the L1 cache is read
        from the L2 cache, which is slower than adding partial results only together with an epilogue that overlaps with
        the matmul. Row blocks use two thirds of the L2 cache, in addition to panels and accumulators. Packed rows
        bypass the L1 cache; rows that are not adjacent are faster through it."""
        x, space = extents(op), self.space(op, machine)
        tile = ROW_BYTES * ROWS
        near = machine.l1_bytes * 3 // 4 // (2 * tile)
        parts = [d for d in space["steps"] if 8 <= d <= near]
        rows = [d for d in space["rows"] if d * x["steps"] * tile <= machine.l2_bytes * 2 // 3]
        block = max(rows, default=space["rows"][0])
        products = block // (2 - x["tiles"] % 2)
        size = x["lead"] * x["panels"] * x["width"] * x["tiles"] * x["rows"] * info(op.output(0).dtype).bytes
        is_packed = op.attrs["is_packed"]
        has_parts = products > 1 and (block < x["tiles"] or x["steps"] * 2 * tile > 2 * machine.l1_bytes)
        return {
            "steps": max(parts, default=x["steps"]) if has_parts else x["steps"],
            "near": near,
            "rows": block,
            "non_temporal": is_packed and block * x["steps"] * tile > machine.l1_bytes,
            "prefetch_distance": min(products, 32) if is_packed and products >= 4 else 0,
            "prefetch_lines": 2,
            "streams": size > 4 * machine.l2_bytes,
        }

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration: the row blocks are the outer loop, then the panels. If k has parts, ``stage``
        computes a panel for a block of rows, and the epilogue stores all its results. Otherwise the epilogue stores
        those of one register block, which are then in the L1 cache."""
        x, op = extents(stage.op), stage.op
        image = epilogue(planner, host)
        host.compute_inline()
        m = 2 - x["tiles"] % 2
        *lead, i, j = image.op.axis
        # The rows of a single block may end before its last tile, which a panel would compute without need.
        is_short = config["rows"] == x["tiles"] and (x["tiles"] - 1) * x["rows"] >= (access.extent_of(i) or 0)
        is_whole = config["steps"] == x["steps"] or is_short
        i_outer, i = image.split(i, factor=config["rows"] * x["rows"])
        j_outer, j = image.split(j, factor=x["width"])
        of_panel = []
        if is_whole:
            block, i = image.split(i, factor=m * x["rows"])
            of_panel = [block]
        image.reorder(*lead, i_outer, j_outer, *of_panel, i, j)
        image.vectorize(j)
        stored = i
        if is_whole and x["rows"] % 4 == 0 and x["tiles"] * x["rows"] == access.extent_of(image.op.axis[-2]):
            # Keep the code between two register blocks short, so that the second one starts early.
            stored, i = image.split(i, factor=4)
            image.unroll(i)
        if config["streams"] and x["width"] * info(image.op.output(0).dtype).bytes % LINE == 0:
            image.pragma(stored, "stream_stores")
        is_parallel = access.work(op) >= planner.parallel_points
        packed = next((planner.s[t] for t in op.input_tensors if t.op.name == "lhs_tiles"), None)
        outside = x["lead"] * -(-x["tiles"] // config["rows"])
        is_shared = packed is not None and config["rows"] < x["tiles"] and outside >= planner.machine.threads
        task = image.fuse(*lead, i_outer) if is_shared else image.fuse(*lead, i_outer, j_outer)
        if is_parallel:
            image.parallel(task)
        if is_shared:
            packed.compute_at(image, task)
            packed.vectorize(packed.op.axis[-1])
            planner.placed.add(packed)
            image.pragma(j_outer, "overlap_epilogue")
        elif packed is not None:
            planner.placed.add(packed)
            planner.injective(packed)
        stage.compute_at(image, (*of_panel, j_outer if is_shared else task)[0])
        *lead, oc, t, row, ob = stage.op.axis
        outer, group, inner = stage.op.reduce_axis
        t_outer, t = stage.split(t, factor=m)
        stage.reorder(*lead, oc, t_outer, t, row, ob, outer, group, inner)
        columns = columns_of(x["width"])
        shape = tiles.Shape(x["rows"], columns, 1, x["block"], op.attrs["kind"])
        block = tiles.Block(
            shape,
            m,
            x["width"] // columns,
            x["steps"],
            config["near"],
            op.attrs["is_packed"],
            config["non_temporal"],
            (config["prefetch_distance"], config["prefetch_lines"]),
        )
        if not is_whole:
            block = block._replace(blocks=config["rows"] // m, parts=x["steps"] // config["steps"])
        stage.tensorize(t if is_whole else t_outer, tiles.block_product(block))


TEMPLATE = MatmulTiles()
