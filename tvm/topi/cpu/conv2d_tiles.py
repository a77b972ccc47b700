"""Direct convolution by products of tiles (AMX) in a blocked layout.

The rows of a tile are neighbouring pixels of a row of the image, its k is a block of channels. Pixels lie a block (times
the stride) apart, so tiles are loaded from where the data lies; a register block is some tiles of pixels by some tiles of
filters. Sums are written to memory once, where the epilogue reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te
from ...ir.prim import IntImm, IterVar
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..nn.pad import pad
from ..nn.utils import pads, spatial
from ..template import CPUTemplate
from ..utils import get_const_int, get_const_tuple, prod
from . import tiles
from .conv2d import compute_padding, pad_stage
from .tiles import COLUMNS, REGISTERS, ROWS, Kind

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

TAG = "conv2d_tiles"


def columns_of(block: int) -> int:
    """The filters of one tile: a block that is wider than a tile is two."""
    return block if block <= COLUMNS else block // 2


def pixels_of(width: int) -> int:
    """The pixels of a row in a tile: as many as divide it evenly, else those with which least is computed in vain."""
    exact = [d for d in range(ROWS, ROWS // 2, -1) if width % d == 0]
    if exact or width <= ROWS:
        return exact[0] if exact else width
    count = -(-width // ROWS)
    return -(-width // count)


def conv2d(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, kind: Kind, pad_value: Any = 0
) -> Tensor:
    """Data (n, C/c, h, w, c) and a kernel (O/o, I/c, kh, kw, c/depth, o, depth)."""
    strides, dilations = spatial(stride, 2, TAG + ": strides"), spatial(dilation, 2, TAG + ": dilation")
    batch, _, height, width, _ = get_const_tuple(data.shape)
    filters, outer_size, kh_size, kw_size, groups, block, depth = get_const_tuple(kernel.shape)
    window = [(k - 1) * d + 1 for k, d in zip((kh_size, kw_size), dilations)]
    before, after = (list(map(get_const_int, side)) for side in pads(padding, window, 2, TAG))
    h, w = (
        (size + lo + hi - k) // s + 1
        for size, lo, hi, k, s in zip((height, width), before, after, window, strides)
    )
    pixels = pixels_of(w)
    whole = -(-w // pixels) * pixels
    # Tiles read whole pixels beyond the last one.
    after[1] = max(after[1], (whole - 1) * strides[1] + window[1] - width - before[1])
    source = data
    if any(before) or any(after):
        source = pad(data, (0, 0, *before, 0), (0, 0, *after, 0), pad_value, name="data_pad")
    taken = te.compute(
        (batch, outer_size, kh_size, kw_size, h, whole, groups * depth),
        lambda n, c, a, b, y, x, i: source(
            n, c, y * strides[0] + a * dilations[0], x * strides[1] + b * dilations[1], i
        ),
        name="window",
        tag="window,step",
    )
    sizes = (outer_size, kh_size, kw_size, groups, depth)
    axes = [te.reduce_axis((0, s), name=n) for s, n in zip(sizes, ("ic_outer", "kh", "kw", "group", "inner"))]
    outer, kh, kw, group, inner = axes

    def body(n, oc, y, t, x, ob):
        value = taken(n, outer, kh, kw, y, t * pixels + x, group * depth + inner).astype(kind.sums)
        return te.sum(value * kernel(oc, outer, kh, kw, group, ob, inner).astype(kind.sums), axis=axes)

    attrs = {"kind": kind, "step": int(strides[1])}
    in_tiles = (batch, filters, h, whole // pixels, pixels, block)
    sums = te.compute(in_tiles, body, name=TAG, tag=TAG, attrs=attrs)
    held = te.compute(in_tiles, lambda *at: sums(*at), name=TAG + "_held", tag="held,step")

    def image(n, oc, y, x, ob):
        return held(n, oc, y, te.indexdiv(x, pixels), te.indexmod(x, pixels), ob)

    return te.compute((batch, filters, h, w, block), image, name=TAG + "_image", tag="injective")


def extents(op: ComputeOp) -> dict[str, int]:
    *lead, oc, h, t, pixels, ob = (access.extent_of(a) or 1 for a in op.axis)
    *steps, groups, depth = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {"n": prod(lead), "oc": oc, "h": h, "tiles": t, "w": t * pixels, "ob": ob, "steps": prod(steps), "k": groups * depth,
            "columns": columns_of(ob), "pixels": pixels}  # fmt: skip


def blocks(x: dict[str, int]) -> list[tuple[int, int, int]]:
    """Register blocks: rows of pixels, tiles of a row, blocks of filters; sums and both operands fit the registers."""
    each = x["ob"] // x["columns"]
    found = [
        (h, w, oc)
        for oc in (1, 2, 3, 4)
        for h in (1, 2, 3, 4)
        for w in (1, 2, 3, 4)
        if x["oc"] % oc == 0 and x["h"] % h == 0 and x["tiles"] % w == 0
        and h * w * oc * each + h * w + oc * each <= REGISTERS
    ]
    return found or [(1, 1, 1)]


def block_cycles(x: dict[str, int], block: tuple[int, int, int]) -> float:
    """Cycles of the products of a register block for each of its tiles: a product takes a cycle for each row, a load
    half of one for each line of the cache."""
    h, w, oc = block
    m, n = h * w, oc * (x["ob"] // x["columns"])
    loads = m * x["pixels"] / 2 + n * x["k"] / 2
    products = m * n * max(x["pixels"], 8)
    return (max(products, loads) + 0.3 * min(products, loads)) / (m * n)


class Conv2dTiles(CPUTemplate):
    """A convolution by products of tiles."""

    tags = (TAG,)

    def applies(self, op: ComputeOp) -> bool:
        """Whether sizes are known."""
        return all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Every knob and its values."""
        x = extents(op)
        rows = [d for d in range(1, x["h"] + 1) if x["h"] % d == 0]
        return {"block": blocks(x), "rows": rows, "outer": ["filters", "rows"]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """The register block with the fewest estimated cycles, and tasks whose data stays in the L2 cache."""
        x = extents(op)
        block = min(blocks(x), key=lambda b: block_cycles(x, b))
        size = x["steps"] * x["k"] * (2 if op.attrs["kind"].depth == 2 else 1)
        weights = size * x["oc"] * x["ob"]
        outer = "filters" if weights > machine.l2_bytes // 2 or x["h"] < 4 * machine.threads else "rows"
        chunks = x["n"] * (x["oc"] // block[2])
        options = [d for d in range(block[0], x["h"] + 1, block[0]) if x["h"] % d == 0]
        enough = [
            d for d in options
            if chunks * (x["h"] // d) >= 4 * machine.threads and d * x["w"] * size <= machine.l2_bytes // 2
        ]  # fmt: skip
        return {"block": block, "rows": max(enough, default=options[0]), "outer": outer}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Sums stay in registers; ``host`` drains them to memory, where the epilogue reads them."""
        s, op = planner.s, stage.op
        x, kind = extents(op), op.attrs["kind"]
        pixels, columns, k = x["pixels"], x["columns"], x["k"]
        window = next(s[t] for t in op.input_tensors if t.op.tag == "window,step")
        kernel = next(t for t in op.input_tensors if t.op is not window.op)
        padding = pad_stage(planner, window)
        image = self.epilogue(planner, host)
        weights = s[s.cache_read(kernel, tiles.SCOPES["b"], [stage.op])]
        task = self.divide(planner, stage, host, image, config)
        *lead, oc, h, t, w, ob = host.op.axis
        ob_outer, ob = host.split(ob, factor=columns)
        host.reorder(*lead, oc, h, t, ob_outer, w, ob)
        for axis in (oc, h, t, ob_outer):
            host.unroll(axis)
        host.tensorize(w, tiles.store(pixels, k, columns, kind))
        # Products.
        *lead, oc, h, t, w, ob = stage.op.axis
        *steps, group, inner = stage.op.reduce_axis
        ob_outer, ob = stage.split(ob, factor=columns)
        unrolled = [h, t, oc, ob_outer]
        stage.reorder(*lead, *steps, *unrolled, w, ob, group, inner)
        for axis in unrolled:
            stage.unroll(axis)
        stage.tensorize(w, tiles.multiply(pixels, k, columns, kind))
        stage.set_scope(tiles.SCOPES["sums"])
        # Operands.
        window.compute_at(stage, steps[-1])
        window.set_scope(tiles.SCOPES["a"])
        *lead, w, _ = window.op.axis
        t, w = window.split(w, factor=pixels)
        for axis in (*lead, t):
            window.unroll(axis)
        window.tensorize(w, tiles.load_lhs(pixels, k, columns, kind, op.attrs["step"]))
        weights.compute_at(stage, steps[-1])
        *lead, group, ob, inner = weights.op.axis
        ob_outer, ob = weights.split(ob, factor=columns)
        weights.reorder(*lead, ob_outer, group, ob, inner)
        for axis in (*lead, ob_outer):
            weights.unroll(axis)
        weights.tensorize(group, tiles.load_rhs(pixels, k, columns, kind))
        planner.placed.update((window, weights))
        compute_padding(planner, padding, image, task, {"pad": "once"})

    def divide(
        self, planner: Planner, stage: Stage, held: Stage, host: Stage, config: dict[str, Any]
    ) -> IterVar:
        """Split the output into tasks and register blocks; returns the loop of tasks."""
        x = extents(stage.op)
        block_h, block_w, block_oc = config["block"]
        n, oc, h, w, ob = host.op.axis
        oc_outer, oc_block = host.split(oc, factor=block_oc)
        rows, h = host.split(h, factor=config["rows"])
        h_outer, h_block = host.split(h, factor=block_h)
        w_outer, w_block = host.split(w, factor=block_w * x["pixels"])
        lead = (n, oc_outer, rows) if config["outer"] == "filters" else (n, rows, oc_outer)
        host.reorder(*lead, h_outer, w_outer, oc_block, h_block, w_block, ob)
        task = host.fuse(*lead)
        host.vectorize(ob)
        if access.work(stage.op) >= planner.parallel_points:
            host.parallel(task)
        held.compute_at(host, w_outer)
        held.set_scope("local")
        stage.compute_at(host, w_outer)
        return task

    def epilogue(self, planner: Planner, held: Stage) -> Stage:
        """The stage that stores the image: the one that reads the sums, with all that is inlined into it."""
        assert planner.plain is not None, "the planner knows what is inlined"
        readers = planner.plain.consumers(planner.plain.stage_map[held.op])
        uids = {reader.uid for reader in readers}
        (host,) = (stage for stage in planner.s.stages if stage.uid in uids)
        planner.placed.add(host)
        return host


TEMPLATE = Conv2dTiles()
