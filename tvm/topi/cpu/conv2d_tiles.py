"""Direct convolution with matrix registers (AMX) in a blocked layout.

The rows of a tile are adjacent pixels of an image row; its K dimension is a block of channels. Pixels are one block
(times the stride) apart in memory, so tiles are loaded without a copy. A register block is several tiles of pixels by
several tiles of filters. Accumulators are written to memory once, where the epilogue reads them. The rows of a narrow
image are concatenated in one tile. If there are few channels, the taps of a row of the window together form the K
dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ... import te, tir
from ...ir.prim import IntImm, IterVar
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from .. import access
from ..nn.utils import pads, spatial
from ..template import CPUTemplate
from ..utils import get_const_int, get_const_tuple, prod
from . import tiles
from .conv2d import compute_padding, pad_stage
from .tiles import COLUMNS, REGISTERS, ROWS, Kind

if TYPE_CHECKING:
    from ..schedule.cpu import Machine, Planner

TAG = "conv2d_tiles"
# The maximum width of images whose rows are concatenated; one such row would fill at most half of a tile.
MAX_FLAT = 8


def columns_of(block: int) -> int:
    """Return the number of filters in one tile; a block that is wider than a tile is divided evenly."""
    return next(block // n for n in range(-(-block // COLUMNS), block + 1) if block % n == 0)


def parts_of(block: int) -> int:
    """Return the number of parts of a block of filters that are computed one after the other. The accumulators of one
    pixel tile and four filter tiles would not fit the registers together with their operands."""
    return 1 if block // columns_of(block) <= 3 else 2


def pixels_of(width: int) -> int:
    """Return the number of pixels of a row in a tile: a divisor of the width if possible, else the number that wastes
    the least computation."""
    exact = [d for d in range(ROWS, ROWS // 2, -1) if width % d == 0]
    if exact or width <= ROWS:
        return exact[0] if exact else width
    count = -(-width // ROWS)
    return -(-width // count)


class Windows(NamedTuple):
    """The input of a convolution. ``source`` is the padded image. If ``is_flat``, its rows of ``width`` pixels are
    concatenated. The pixels of ``rows`` output rows are divided into ``count`` tiles of ``pixels``."""

    source: Tensor
    is_flat: bool
    width: int
    rows: int
    count: int
    pixels: int
    size: tuple[int, int]


def windows(data: Tensor, window: list[int], strides: Any, padding: Any, pad_value: Any) -> Windows:
    """Return the padded image in the form in which tiles read it."""
    _, _, height, width, _ = get_const_tuple(data.shape)
    before, after = (list(map(get_const_int, side)) for side in pads(padding, window, 2, TAG))
    h, w = (
        (size + lo + hi - k) // s + 1
        for size, lo, hi, k, s in zip((height, width), before, after, window, strides)
    )  # fmt: skip
    is_flat = w <= MAX_FLAT and (strides[0], strides[1]) == (1, 1) and h > 1
    wide = width + before[1] + after[1]
    # The pixels between the rows of a flat image are computed and discarded.
    length = (h - 1) * wide + w if is_flat else w
    pixels = pixels_of(length)
    count = -(-length // pixels)
    # Tiles read whole pixels beyond the last one.
    if is_flat:
        more = count * pixels + (window[0] - 1) * wide + window[1] - 1
        source = _flat(data, before, wide, max(more, (height + before[0] + after[0]) * wide), pad_value)
    else:
        after[1] = max(after[1], (count * pixels - 1) * strides[1] + window[1] - width - before[1])
        source = _padded(data, before, after, pad_value) if any(before) or any(after) else data
    return Windows(source, is_flat, wide, 1 if is_flat else h, count, pixels, (h, w))


def conv2d(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, kind: Kind, pad_value: Any = 0
) -> Tensor:
    """Return the convolution of data (n, C/c, h, w, c) with a kernel (O/o, I/c, kh, kw, c/depth, o, depth). If I is
    smaller than C, there are several groups of whole blocks."""
    strides, dilations = spatial(stride, 2, TAG + ": strides"), spatial(dilation, 2, TAG + ": dilation")
    batch, in_blocks, *_ = get_const_tuple(data.shape)
    filters, outer_size, kh_size, kw_size, groups, block, depth = get_const_tuple(kernel.shape)
    read = windows(data, [(k - 1) * d + 1 for k, d in zip((kh_size, kw_size), dilations)], strides, padding, pad_value)
    pixels, channels, parts = read.pixels, groups * depth, in_blocks // outer_size
    each = parts_of(block)
    wide = block // each
    taps = next(d for d in range(kw_size, 0, -1) if kw_size % d == 0 and (d == 1 or _can_merge(d, channels, kind)))
    if dilations[1] != 1 or in_blocks != 1 or read.is_flat:
        taps = 1
    sizes = (outer_size, kh_size, kw_size // taps, taps, groups, depth)
    names = ("ic_outer", "kh", "kw", "tap", "group", "inner")
    axes = [te.reduce_axis((0, s), name=n) for s, n in zip(sizes, names)]
    outer, kh, kw, tap, group, inner = axes

    def body(n, oc, y, t, x, ob):
        block_in = te.indexdiv(oc, filters * each // parts) * outer_size + outer if parts > 1 else outer
        if each > 1:
            oc, ob = te.indexdiv(oc, each), te.indexmod(oc, each) * wide + ob
        row, column, x = kh * dilations[0], (kw * taps + tap) * dilations[1], t * pixels + x
        if read.is_flat:
            place = (x + row * read.width + column,)
        else:
            place = (y * strides[0] + row, x * strides[1] + column)
        value = read.source(n, block_in, *place, group * depth + inner).astype(kind.sums)
        weight = kernel(oc, outer, kh, kw * taps + tap, group, ob, inner)
        return te.sum(value * weight.astype(kind.sums), axis=axes)

    steps = tuple(tuple(map(int, pair)) for pair in (strides, dilations))
    attrs = {"kind": kind, "steps": steps, "width": read.width if read.is_flat else 0, "groups": parts}
    in_tiles = (batch, filters * each, read.rows, read.count, pixels, wide)
    sums = te.compute(in_tiles, body, name=TAG, tag=TAG, attrs=attrs)
    held = te.compute(in_tiles, lambda *at: sums(*at), name=TAG + "_held", tag="held,step")

    def image(n, oc, y, x, ob):
        y, x = (0, y * read.width + x) if read.is_flat else (y, x)
        if each > 1:
            oc, ob = oc * each + te.indexdiv(ob, wide), te.indexmod(ob, wide)
        return held(n, oc, y, te.indexdiv(x, pixels), te.indexmod(x, pixels), ob)

    return te.compute((batch, filters, *read.size, block), image, name=TAG + "_image", tag="injective")


def _can_merge(taps: int, channels: int, kind: Kind) -> bool:
    """Return whether several taps of a window row can form one K dimension because their channels are contiguous."""
    return taps * channels <= kind.k and taps * channels // kind.depth <= ROWS


def _padded(data: Tensor, before: list[int], after: list[int], pad_value: Any) -> Tensor:
    batch, blocks, h, w, block = get_const_tuple(data.shape)
    shape = (batch, blocks, h + before[0] + after[0], w + before[1] + after[1], block)

    def body(n, c, y, x, i):
        y, x = y - before[0], x - before[1]
        bounds = [(y >= 0, before[0]), (y < h, after[0]), (x >= 0, before[1]), (x < w, after[1])]
        is_inside = te.all(*(condition for condition, count in bounds if count))
        return tir.if_then_else(is_inside, data(n, c, y, x, i), tir.const(pad_value, data.dtype))

    return te.compute(shape, body, name="data_pad", tag="pad,step")


def _flat(data: Tensor, before: list[int], width: int, pixels: int, pad_value: Any) -> Tensor:
    """Return the padded image with its rows concatenated, followed by some additional pixels."""
    batch, blocks, h, w, block = get_const_tuple(data.shape)

    def body(n, c, p, i):
        y, x = te.indexdiv(p, width) - before[0], te.indexmod(p, width) - before[1]
        is_inside = te.all(y >= 0, y < h, x >= 0, x < w)
        return tir.if_then_else(is_inside, data(n, c, y, x, i), tir.const(pad_value, data.dtype))

    return te.compute((batch, blocks, pixels, block), body, name="data_flat", tag="pad,step")


def extents(op: ComputeOp) -> dict[str, int]:
    *lead, oc, h, t, pixels, ob = (access.extent_of(a) or 1 for a in op.axis)
    *steps, taps, groups, depth = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return {
        "n": prod(lead), "oc": oc, "h": h, "tiles": t, "w": t * pixels, "ob": ob, "window": tuple(steps), "taps": taps,
        "channels": groups * depth, "k": taps * groups * depth, "columns": columns_of(ob), "pixels": pixels,
        "of_group": oc // op.attrs.get("groups", 1),
    }  # fmt: skip


def blocks(x: dict[str, int]) -> list[tuple[int, int, int]]:
    """Return the register blocks (rows of pixels, tiles of a row, blocks of filters) whose accumulators and operands
    fit the registers."""
    each = x["ob"] // x["columns"]
    found = [
        (h, w, oc)
        for oc in (1, 2, 3, 4)
        for h in (1, 2, 3, 4)
        for w in (1, 2, 3, 4)
        if x["of_group"] % oc == 0
        and x["h"] % h == 0
        and x["tiles"] % w == 0
        and h * w * oc * each + h * w + oc * each <= REGISTERS
    ]
    return found or [(1, 1, 1)]


def block_cycles(x: dict[str, int], block: tuple[int, int, int]) -> float:
    """Return the cycles of a register block per tile: a tile multiplication takes one cycle per row, a load half a
    cycle per cache line."""
    h, w, oc = block
    m, n = h * w, oc * (x["ob"] // x["columns"])
    loads = m * x["pixels"] / 2 + n * x["k"] / 2
    products = m * n * max(x["pixels"], 8)
    return (max(products, loads) + 0.3 * min(products, loads)) / (m * n)


def shape_of(op: ComputeOp) -> tiles.Shape:
    """Return the tile shape of a convolution stage."""
    x = extents(op)
    return tiles.Shape(x["pixels"], x["columns"], x["taps"], x["channels"], op.attrs["kind"])


def in_parts(host: Stage, wide: int) -> tuple[IterVar, ...]:
    """Return the loops of an image: batch, blocks of ``wide`` filters, filters in a block, rows and columns."""
    n, oc, h, w, ob = host.op.axis
    if access.extent_of(ob) != wide:
        part, ob = host.split(ob, factor=wide)
        host.reorder(n, oc, part, h, w, ob)
        oc = host.fuse(oc, part)
    return n, oc, ob, h, w


class Conv2dTiles(CPUTemplate):
    """A convolution with matrix registers."""

    tags = (TAG,)

    def applies(self, op: ComputeOp) -> bool:
        """Return whether all dimensions are constant."""
        return all(isinstance(a.dom.extent, IntImm) for a in (*op.axis, *op.reduce_axis))

    def space(self, op: ComputeOp, machine: Machine) -> dict[str, list]:
        """Return every knob and its values."""
        x = extents(op)
        rows = [d for d in range(1, x["h"] + 1) if x["h"] % d == 0]
        return {"block": blocks(x), "rows": rows, "outer": ["filters", "rows"], "non_temporal": [False, True]}

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Return the register block with the fewest estimated cycles; among equals, one with several rows, because
        windows of adjacent rows read the same cache lines. The data of a task stays in the L2 cache."""
        x = extents(op)
        block = min(blocks(x), key=lambda b: (block_cycles(x, b), b[1]))
        size = prod(x["window"]) * x["k"] * (2 if op.attrs["kind"].depth == 2 else 1)
        weights = size * x["oc"] * x["ob"]
        outer = "filters" if weights > machine.l2_bytes // 2 or x["h"] < 4 * machine.threads else "rows"
        chunks = x["n"] * (x["oc"] // block[2])
        options = [d for d in range(block[0], x["h"] + 1, block[0]) if x["h"] % d == 0]
        enough = [
            d for d in options
            if chunks * (x["h"] // d) >= 4 * machine.threads and d * x["w"] * size <= machine.l2_bytes // 2
        ]  # fmt: skip
        # Weights of a register block that exceed the L1 cache are loaded non-temporally, so that they do not evict the
        # image.
        non_temporal = size * x["ob"] * block[2] > machine.l1_bytes // 2
        return {"block": block, "rows": max(enough, default=options[0]), "outer": outer, "non_temporal": non_temporal}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Apply the configuration. A register block writes its accumulators to memory, where the epilogue reads
        them."""
        op = stage.op
        shape, x = shape_of(op), extents(op)
        block_h, block_w, block_oc = config["block"]
        padding = pad_stage(planner, stage)
        image = epilogue(planner, host)
        host.compute_inline()
        task = self.divide(planner, stage, image, config)
        *lead, oc, h, t, w, ob = stage.op.axis
        # The last pixel of a tile may be between two rows, where it is never read; tiles are stored whole.
        stage.align_bounds(w, shape.rows)
        t_outer, t = stage.split(t, factor=block_w)
        stage.reorder(*lead, t_outer, oc, h, t, w, ob, *stage.op.reduce_axis)
        stage.set_scope("local")
        window = tiles.Window(block_h, block_w, block_oc, x["window"], *op.attrs["steps"], op.attrs["width"])
        m, n, steps = block_h * block_w, block_oc * (x["ob"] // x["columns"]), prod(x["window"])
        near = 0 if config["non_temporal"] else steps
        stage.tensorize(oc, tiles.block_product(tiles.Block(shape, m, n, steps, near, window=window)))
        compute_padding(planner, padding, image, task, {"pad": "once"})

    def divide(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> IterVar:
        """Split the output into tasks and register blocks; return the loop of tasks. A task of a flat image computes
        all pixels of some filters, which are stored together."""
        x = extents(stage.op)
        block_h, block_w, block_oc = config["block"]
        n, oc, ob, h, w = in_parts(host, x["ob"])
        oc_outer, oc_block = host.split(oc, factor=block_oc)
        if stage.op.attrs["width"]:
            lead, inside = (n, oc_outer), (oc_block, h, w)
        else:
            # A task consists of whole register blocks.
            whole = range(max(config["rows"], block_h), x["h"] + 1)
            rows, h = host.split(h, factor=next(d for d in whole if d % block_h == 0 == x["h"] % d))
            h_outer, h_block = host.split(h, factor=block_h)
            w_outer, w_block = host.split(w, factor=block_w * x["pixels"])
            lead = (n, oc_outer, rows) if config["outer"] == "filters" else (n, rows, oc_outer)
            inside = (h_outer, w_outer, oc_block, h_block, w_block)
        host.reorder(*lead, *inside, ob)
        task = host.fuse(*lead)
        host.vectorize(ob)
        if access.work(stage.op) >= planner.parallel_points:
            host.parallel(task)
        stage.compute_at(host, task if stage.op.attrs["width"] else inside[1])
        return task


def epilogue(planner: Planner, held: Stage) -> Stage:
    """Return the stage that reads the accumulators and stores the output, with all inlined stages."""
    assert planner.plain is not None, "the planner records which stages are inlined"
    readers = planner.plain.consumers(planner.plain.stage_map[held.op])
    uids = {reader.uid for reader in readers}
    (host,) = (stage for stage in planner.s.stages if stage.uid in uids)
    planner.placed.add(host)
    return host


TEMPLATE = Conv2dTiles()
