"""3x3 convolution with stride 1 by Winograd's minimal filtering, with channels in blocks (CPUs) or planes (GPUs).

The output is divided into tiles of m x m pixels (m is 2 or 4). The m + 2 by m + 2 input pixels of a tile are
transformed, multiplied with transformed filters, reduced over the channels, and transformed back. This needs (m + 2)^2
multiplications per channel instead of 9 m^2. Filters are transformed at compile time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import te, tir
from ...error import TVMError
from ...ir.prim import IntImm
from ..utils import equal_const_int, get_const_int, get_const_tuple, simplify
from .utils import pads

# Tags of the steps over planes: steps that are computed at their use, the data of all tiles, and the output pixels.
STEP, DATA, RESULT = "winograd_planes,step", "winograd_planes_data,step", "winograd_planes_result,step"

# The transform of filters (rows of G), by tile size. Its interpolation points are 0, 1, -1, (2, -2,) infinity.
FILTER_TRANSFORM: dict[int, tuple[tuple[float, ...], ...]] = {
    2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}


def _times(x, factor: int):
    return x * tir.const(factor, x.dtype)


def _data_2(x: list) -> list:
    return [x[0] - x[2], x[2] + x[1], x[2] - x[1], x[3] - x[1]]


def _data_4(x: list) -> list:
    even, odd = x[4] - _times(x[2], 4), x[3] - _times(x[1], 4)
    near, far = x[4] - x[2], _times(x[3] - x[1], 2)
    first = _times(x[0], 4) - _times(x[2], 5) + x[4]
    last = _times(x[1], 4) - _times(x[3], 5) + x[5]
    return [first, even + odd, even - odd, near + far, near - far, last]


def _result_2(x: list) -> list:
    return [x[0] + x[1] + x[2], x[1] - x[2] + x[3]]


def _result_4(x: list) -> list:
    sum_1, difference_1, sum_2, difference_2 = x[1] + x[2], x[1] - x[2], x[3] + x[4], x[3] - x[4]
    return [
        x[0] + sum_1 + sum_2,
        difference_1 + _times(difference_2, 2),
        sum_1 + _times(sum_2, 4),
        difference_1 + _times(difference_2, 8) + x[5],
    ]


# One dimension of the transforms of data and of outputs, written so that common subexpressions are shared.
DATA_TRANSFORM = {2: _data_2, 4: _data_4}
RESULT_TRANSFORM = {2: _result_2, 4: _result_4}


def transform_filters(weight: Any, tile: int, in_block: int, out_block: int, vectors: int) -> Any:
    """Convert a NumPy kernel OIHW to the layout of the matmuls: (O / (vectors * o), m + 2, m + 2, I / i, i, vectors,
    o)."""
    import numpy as np

    filters, channels = weight.shape[:2]
    if filters % (vectors * out_block) or channels % in_block:
        raise TVMError(
            f"transform_filters: {filters} filters of {channels} channels do not fit blocks of {vectors} x "
            f"{out_block} and {in_block}"
        )
    groups = weight.reshape(-1, vectors, out_block, channels // in_block, in_block, 9).transpose(0, 5, 3, 4, 1, 2)
    out = np.empty((len(groups), tile + 2, tile + 2, *groups.shape[2:]), weight.dtype)
    # This number of groups stays in the caches.
    step = max(2**14 // (channels * vectors * out_block), 1)
    for at in range(0, len(out), step):
        taps = np.moveaxis(groups[at : at + step], 0, 1)
        _transform(taps.reshape(3, 3, *taps.shape[1:]), tile, np.moveaxis(out[at : at + step], 0, 2))
    return out


def _transform(taps: Any, tile: int, out: Any) -> None:
    """Transform both dimensions of NumPy filters (h, w, ...) into ``out`` (a, b, ...), in double precision. It adds a
    few arrays instead of calling a matmul, whose threads would keep cores busy while waiting for the next call."""
    rows = _combined(taps.astype("float64", order="C"), tile)
    for a, row in enumerate(rows):
        for b, value in enumerate(_combined(row, tile)):
            out[a, b] = value


def _combined(values: Any, tile: int) -> list:
    """Return the transform of the first dimension of ``values``."""
    return [sum(v * f for v, f in zip(values, factors) if f) for factors in FILTER_TRANSFORM[tile]]


def transform_filters_in_planes(weight: Any, tile: int) -> Any:
    """Convert a NumPy kernel OIHW to the layout of ``conv2d_winograd_nchw``: (m + 2, m + 2, I, O)."""
    import numpy as np

    filters, channels = weight.shape[:2]
    out = np.empty((tile + 2, tile + 2, channels, filters), weight.dtype)
    _transform(weight.transpose(2, 3, 1, 0), tile, out)
    return out


def pick(place, values: list):
    """Return the value at an index that becomes constant by unrolling."""
    out = values[-1]
    for number in reversed(range(len(values) - 1)):
        out = tir.Select(place.equal(number), values[number], out)
    return out


def conv2d_winograd_NCHWc(data, kernel, padding, out_dtype=None, run=4):
    """A convolution of data (n, C/c, h, w, c) with a kernel made by ``transform_filters``; the output is (n, O/o, h',
    w', o).

    Raises
    ------
    TVMError
        The data does not have 5 dimensions, or the kernel does not have 7.
    """
    if len(data.shape) != 5 or len(kernel.shape) != 7:
        raise TVMError(
            f"conv2d_winograd_NCHWc: data must have 5 and the kernel 7 dimensions, got {len(data.shape)} and "
            f"{len(kernel.shape)}"
        )
    dtype = out_dtype or data.dtype
    if any(not isinstance(size, IntImm) for size in data.shape[2:4]):
        return _of_dynamic_image(data, kernel, padding, dtype, run)
    batch, blocks, height, width, block = get_const_tuple(data.shape)
    groups, reach, _, _, _, vectors, wide = (get_const_int(d) for d in kernel.shape)
    tile = reach - 2
    before, after = pads(padding, (3, 3), 2, "conv2d_winograd_NCHWc")
    out_height, out_width = height + before[0] + after[0] - 2, width + before[1] + after[1] - 2
    rows, columns = -(-out_height // tile), -(-out_width // tile)
    data_at, result_at = DATA_TRANSFORM[tile], RESULT_TRANSFORM[tile]
    # A block of tiles may extend past the last one. The additional results are never stored, and with twice the tiles
    # in the domains no loop needs a guard.
    many_rows, many_columns = 2 * rows, 2 * columns

    def padded_at(n, c, y, x, k):
        inside = tir.all(y >= before[0], y < height + before[0], x >= before[1], x < width + before[1])
        return tir.if_then_else(inside, data(n, c, y - before[0], x - before[1], k), tir.const(0, data.dtype))

    padded = te.compute(
        (batch, blocks, many_rows * tile + 2, many_columns * tile + 2, block),
        padded_at,
        "padded",
        "winograd_padded,step",
    )
    down = te.compute(
        (blocks, batch, many_rows, many_columns, reach, reach, block),
        lambda c, n, r, q, a, x, k: pick(
            a, data_at([padded(n, c, r * tile + y, q * tile + x, k).astype(dtype) for y in range(reach)])
        ),
        "data_down",
        "winograd_data_down,step",
    )
    across = te.compute(
        (reach, reach, blocks, batch, many_rows, many_columns, block),
        lambda a, b, c, n, r, q, k: pick(b, data_at([down(c, n, r, q, a, x, k) for x in range(reach)])),
        "data_across",
        "winograd_data_across,step",
    )
    outer, inner = te.reduce_axis((0, blocks), "ic_outer"), te.reduce_axis((0, block), "ic_inner")
    products = te.compute(
        (groups, reach, reach, batch, many_rows, many_columns, vectors, wide),
        lambda o, a, b, n, r, q, v, k: te.sum(
            across(a, b, outer, n, r, q, inner) * kernel(o, a, b, outer, inner, v, k).astype(dtype), [outer, inner]
        ),
        "products",
        "winograd_products",
        {"rows": rows, "columns": columns},
    )
    back_down = te.compute(
        (groups, batch, many_rows, many_columns, vectors, tile, reach, wide),
        lambda o, n, r, q, v, i, b, k: pick(i, result_at([products(o, a, b, n, r, q, v, k) for a in range(reach)])),
        "result_down",
        "winograd_result_down,step",
    )

    def result(n, o, y, x, k):
        at = (te.indexdiv(o, vectors), n, te.indexdiv(y, tile), te.indexdiv(x, tile), te.indexmod(o, vectors))
        line = [back_down(*at, te.indexmod(y, tile), b, k) for b in range(reach)]
        return pick(te.indexmod(x, tile), result_at(line))

    pixels = te.compute(
        (batch, groups * vectors, many_rows * tile, many_columns * tile, wide),
        result,
        "result_across",
        "winograd_result_across,step",
    )
    return te.compute(
        (batch, groups * vectors, out_height, out_width, wide),
        lambda *at: pixels(*at),
        "conv2d_winograd_NCHWc",
        "winograd_result,step",
    )


def _of_dynamic_image(data, kernel, padding, dtype: str, length: int):
    """Return the convolution for a dynamic height or width. The tiles of all images are numbered row by row, and
    ``length`` consecutive tiles are multiplied together, so that only the loops over these runs have dynamic extents.
    Tiles past the last one read padding, and their results are not stored."""
    batch, blocks, height, width, block = get_const_tuple(data.shape)
    groups, reach, _, _, _, vectors, wide = (get_const_int(d) for d in kernel.shape)
    tile = reach - 2
    before, after = pads(padding, (3, 3), 2, "conv2d_winograd_NCHWc")
    out = [simplify(d + lo + hi - 2) for d, lo, hi in zip((height, width), before, after)]
    rows, columns = (simplify(te.indexdiv(size + (tile - 1), tile)) for size in out)
    is_one = equal_const_int(batch, 1)
    runs = simplify(te.indexdiv(batch * rows * columns + (length - 1), length))
    data_at = DATA_TRANSFORM[tile]

    def padded_at(n, c, y, x, k):
        there = () if is_one else (n < batch,)
        inside = tir.all(*there, y >= before[0], y < height + before[0], x >= before[1], x < width + before[1])
        return tir.if_then_else(inside, data(n, c, y - before[0], x - before[1], k), tir.const(0, data.dtype))

    padded = te.compute(
        (batch + (0 if is_one else 1), blocks, simplify(rows * tile + reach), simplify(columns * tile + 2), block),
        padded_at, "padded", "winograd_padded,step",
    )  # fmt: skip

    def pixel(c, run, t, y, x, k):
        line, column = te.indexdiv(run * length + t, columns), te.indexmod(run * length + t, columns)
        n, row = te.min(te.indexdiv(line, rows), batch), te.indexmod(line, rows)
        if is_one:
            n, row = 0, te.min(line, rows)
        return padded(n, c, row * tile + y, column * tile + x, k).astype(dtype)

    down = te.compute(
        (blocks, runs, length, reach, reach, block),
        lambda c, run, t, a, x, k: pick(a, data_at([pixel(c, run, t, y, x, k) for y in range(reach)])),
        "data_down", "winograd_data_down,step",
    )  # fmt: skip
    across = te.compute(
        (reach, reach, blocks, runs, length, block),
        lambda a, b, c, run, t, k: pick(b, data_at([down(c, run, t, a, x, k) for x in range(reach)])),
        "data_across", "winograd_data_across,step",
    )  # fmt: skip
    outer, inner = te.reduce_axis((0, blocks), "ic_outer"), te.reduce_axis((0, block), "ic_inner")
    products = te.compute(
        (groups, reach, reach, runs, length, vectors, wide),
        lambda o, a, b, run, t, v, k: te.sum(
            across(a, b, outer, run, t, inner) * kernel(o, a, b, outer, inner, v, k).astype(dtype), [outer, inner]
        ),
        "products", "winograd_runs",
    )  # fmt: skip
    return _pixels_of_runs(products, batch, out, tile)


def _pixels_of_runs(products, batch, out: list, tile: int):
    """Return an image of size ``out`` from matmul results (groups, m + 2, m + 2, runs, tiles of a run, vectors,
    lanes)."""
    groups, reach, _, runs, length, vectors, wide = get_const_tuple(products.shape)
    rows, columns = (simplify(te.indexdiv(size + (tile - 1), tile)) for size in out)
    result_at, is_one = RESULT_TRANSFORM[tile], equal_const_int(batch, 1)
    back_down = te.compute(
        (groups, runs, length, vectors, tile, reach, wide),
        lambda o, run, t, v, i, b, k: pick(i, result_at([products(o, a, b, run, t, v, k) for a in range(reach)])),
        "result_down", "winograd_result_down,step",
    )  # fmt: skip

    def result(n, o, y, x, k):
        line = te.indexdiv(y, tile) if is_one else n * rows + te.indexdiv(y, tile)
        number = line * columns + te.indexdiv(x, tile)
        run, of_run = te.indexdiv(number, length), te.indexmod(number, length)
        at = (te.indexdiv(o, vectors), run, of_run, te.indexmod(o, vectors))
        values = [back_down(*at, te.indexmod(y, tile), b, k) for b in range(reach)]
        return pick(te.indexmod(x, tile), result_at(values))

    pixels = te.compute(
        (batch, groups * vectors, simplify(rows * tile), simplify(columns * tile), wide), result, "result_across",
        "winograd_result_across,step",
    )  # fmt: skip
    return te.compute(
        (batch, groups * vectors, *out, wide), lambda *at: pixels(*at), "conv2d_winograd_NCHWc", "winograd_result,step"
    )


def plane_products(kernel, transformed, dtype: str):
    """Return the batch of matmuls of transformed filters and tiles: (m + 2, m + 2, filters, tiles)."""
    reach, _, channels, filters = kernel.shape
    k = te.reduce_axis((0, channels), "k")
    return te.compute(
        (reach, reach, filters, transformed.shape[-1]),
        lambda a, b, o, p: te.sum(kernel(a, b, k, o).astype(dtype) * transformed(a, b, k, p), k),
        "winograd_products", "winograd_planes_products",
    )  # fmt: skip


def conv2d_winograd_nchw(data, kernel, padding, out_dtype=None, products_of: Callable[..., Any] = plane_products):
    """A convolution of NCHW data with a kernel (m + 2, m + 2, channels, filters) made by
    ``transform_filters_in_planes``. The data of all tiles is transformed, ``products_of(kernel, transformed, dtype)``
    computes a batch of matmuls, and the results are transformed back.

    Raises
    ------
    TVMError
        Data or kernel do not have 4 dimensions.
    """
    if len(data.shape) != 4 or len(kernel.shape) != 4:
        raise TVMError(
            f"conv2d_winograd_nchw: data and kernel must have 4 dimensions, got {len(data.shape)} and "
            f"{len(kernel.shape)}"
        )
    dtype = out_dtype or data.dtype
    batch, channels, height, width = (get_const_int(d) for d in data.shape)
    reach, _, _, filters = (get_const_int(d) for d in kernel.shape)
    tile = reach - 2
    before, after = pads(padding, (3, 3), 2, "conv2d_winograd_nchw")
    out_height, out_width = height + before[0] + after[0] - 2, width + before[1] + after[1] - 2
    rows, columns = -(-out_height // tile), -(-out_width // tile)
    count = batch * rows * columns
    data_at, result_at = DATA_TRANSFORM[tile], RESULT_TRANSFORM[tile]

    def pixel(c, p, y, x):
        n = te.indexdiv(p, rows * columns) if batch > 1 else 0
        row = te.indexmod(te.indexdiv(p, columns), rows) if batch > 1 else te.indexdiv(p, columns)
        y, x = row * tile + y - before[0], te.indexmod(p, columns) * tile + x - before[1]
        inside = tir.all(y >= 0, y < height, x >= 0, x < width)
        return tir.if_then_else(inside, data(n, c, y, x), tir.const(0, data.dtype))

    image = te.compute((channels, count, reach, reach), pixel, "image", STEP)
    down = te.compute(
        (channels, count, reach, reach),
        lambda c, p, a, x: pick(a, data_at([image(c, p, y, x).astype(dtype) for y in range(reach)])),
        "data_down",
        STEP,
    )
    transformed = te.compute(
        (reach, reach, channels, count),
        lambda a, b, c, p: pick(b, data_at([down(c, p, a, x) for x in range(reach)])),
        "data_across",
        DATA,
    )
    products = products_of(kernel, transformed, dtype)
    sums = te.compute(
        (filters, count, reach, reach),
        lambda o, p, a, b: products(a, b, o, p).astype(dtype),
        "sums",
        STEP,
    )
    back = te.compute(
        (filters, count, tile, reach),
        lambda o, p, i, b: pick(i, result_at([sums(o, p, a, b) for a in range(reach)])),
        "result_down",
        STEP,
    )

    def result(n, o, y, x):
        p = te.indexdiv(y, tile) * columns + te.indexdiv(x, tile)
        p = n * (rows * columns) + p if batch > 1 else p
        line = [back(o, p, te.indexmod(y, tile), b) for b in range(reach)]
        return pick(te.indexmod(x, tile), result_at(line))

    # Whole tiles, so that no loop inside a tile needs a bounds check.
    pixels = te.compute((batch, filters, rows * tile, columns * tile), result, "result_across", RESULT, {"tile": tile})
    return te.compute((batch, filters, out_height, out_width), lambda *at: pixels(*at), "conv2d_winograd", "winograd")
