"""3x3 convolution with stride 1 by Winograd's minimal filtering as unscheduled stages, for schedule search.

Tiles are one dimension and channels the last one, so that the multiplications form a batch of matmuls. Each transform
is two stages, for columns and for rows, so that common subexpressions are computed once. An attribute names the axes
that select an element of a transform; the search unrolls them.
"""

from __future__ import annotations

from typing import Any

from ... import te, tir
from ...error import TVMError
from ..utils import get_const_int
from .utils import pads
from .winograd import DATA_TRANSFORM, RESULT_TRANSFORM, pick

LAYOUTS = ("NHWC", "NCHW")


def _sums(*names: str) -> dict[str, Any]:
    """Return the attribute of a transform that names the axes to unroll."""
    return {"auto_scheduler_simplify_const_tensor_indices": list(names)}


def conv2d_winograd_tiles(data, kernel, padding, data_layout: str = "NHWC", out_dtype: str | None = None):
    """A convolution of NHWC or NCHW data with a kernel (m + 2, m + 2, channels, filters) made by
    ``transform_filters_in_planes``. The output has the layout of the data.

    Raises
    ------
    TVMError
        Data or kernel do not have 4 dimensions, or the layout is neither NHWC nor NCHW.
    """
    if len(data.shape) != 4 or len(kernel.shape) != 4 or data_layout not in LAYOUTS:
        raise TVMError(
            "conv2d_winograd_tiles: data must be NHWC or NCHW and the kernel must have 4 dimensions, got "
            f"{data_layout} with {len(data.shape)} and {len(kernel.shape)} dimensions"
        )
    dtype, is_last = out_dtype or data.dtype, data_layout == "NHWC"
    batch, *sizes = (get_const_int(d) for d in data.shape)
    height, width, channels = sizes if is_last else (*sizes[1:], sizes[0])
    reach, filters = get_const_int(kernel.shape[0]), get_const_int(kernel.shape[3])
    tile = reach - 2
    before, after = pads(padding, (3, 3), 2, "conv2d_winograd_tiles")
    out_height, out_width = height + before[0] + after[0] - 2, width + before[1] + after[1] - 2
    rows, columns = -(-out_height // tile), -(-out_width // tile)

    def padded_at(n, y, x, c):
        inside = tir.all(y >= before[0], y < height + before[0], x >= before[1], x < width + before[1])
        at = (y - before[0], x - before[1])
        pixel = data(n, *at, c) if is_last else data(n, c, *at)
        return tir.if_then_else(inside, pixel, tir.const(0, data.dtype))

    padded = te.compute((batch, rows * tile + 2, columns * tile + 2, channels), padded_at, "padded")

    def pixel(p, y, x, c):
        n = te.indexdiv(p, rows * columns) if batch > 1 else 0
        row = te.indexmod(te.indexdiv(p, columns), rows) if batch > 1 else te.indexdiv(p, columns)
        return padded(n, row * tile + y, te.indexmod(p, columns) * tile + x, c).astype(dtype)

    sums = _filtered(pixel, kernel, batch * rows * columns, channels, filters, tile, dtype)

    def result(n, y, x, o):
        p = te.indexdiv(y, tile) * columns + te.indexdiv(x, tile)
        return sums(n * (rows * columns) + p, te.indexmod(y, tile), te.indexmod(x, tile), o)

    if is_last:
        return te.compute((batch, out_height, out_width, filters), result, "conv2d_winograd")
    return te.compute((batch, filters, out_height, out_width), lambda n, o, y, x: result(n, y, x, o), "conv2d_winograd")


def _filtered(pixel, kernel, count: int, channels: int, filters: int, tile: int, dtype: str):
    """Return the outputs of all tiles (tile, y, x, filter), from ``pixel(tile, y, x, channel)``."""
    reach, data_at, result_at = tile + 2, DATA_TRANSFORM[tile], RESULT_TRANSFORM[tile]
    down = te.compute(
        (count, reach, reach, channels),
        lambda p, a, x, c: pick(a, data_at([pixel(p, y, x, c) for y in range(reach)])),
        "data_down", attrs=_sums("a", "x"),
    )  # fmt: skip
    transformed = te.compute(
        (reach, reach, count, channels),
        lambda a, b, p, c: pick(b, data_at([down(p, a, x, c) for x in range(reach)])),
        "data_across", attrs=_sums("a", "b"),
    )  # fmt: skip
    k = te.reduce_axis((0, channels), "k")
    products = te.compute(
        (reach, reach, count, filters),
        lambda a, b, p, o: te.sum(transformed(a, b, p, k) * kernel(a, b, k, o).astype(dtype), k),
        "winograd_products", attrs={"auto_scheduler_no_split_at_outer": ["a", "b"]},
    )  # fmt: skip
    back = te.compute(
        (count, tile, reach, filters),
        lambda p, i, b, o: pick(i, result_at([products(a, b, p, o) for a in range(reach)])),
        "result_down", attrs=_sums("i", "b"),
    )  # fmt: skip
    return te.compute(
        (count, tile, tile, filters),
        lambda p, i, j, o: pick(j, result_at([back(p, i, b, o) for b in range(reach)])),
        "result_across", attrs=_sums("i", "j"),
    )  # fmt: skip


__all__ = ["LAYOUTS", "conv2d_winograd_tiles"]
