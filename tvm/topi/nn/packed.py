"""Convolutions and matmuls in blocked layouts: NCHW16c data, OIHW16i16o kernels, NC16n weights."""

from __future__ import annotations

from math import prod
from typing import Any

from ... import te, tir
from ...error import TVMError
from ..utils import get_const_int, get_const_tuple, same_dim, simplify
from .dense import with_bias
from .pad import pad
from .utils import pads, spatial

# The number of int8 products that an instruction adds to an accumulator at once.
BYTES = 4
# The number of products per pixel for which dividing the pixel index by the image width costs little.
LONG_SUM = 256


def _geometry(data, kernel, stride, padding, dilation, what: str):
    """Return strides, dilations, the padding at the start and the end, the window size with dilation, and the output
    size. Height and width are dimensions 2 and 3."""
    strides, dilations = spatial(stride, 2, what + ": strides"), spatial(dilation, 2, what + ": dilation")
    sizes = [get_const_int((k - 1) * d + 1) for k, d in zip(kernel.shape[2:4], dilations)]
    before, after = pads(padding, sizes, 2, what)
    out = [
        simplify((d + lo + hi - k) // s + 1) for d, lo, hi, k, s in zip(data.shape[2:4], before, after, sizes, strides)
    ]
    return strides, dilations, before, after, sizes, out


def _window(data, kernel, stride, padding, dilation, what: str, pad_value=0.0, columns: int | None = None):
    """Return the padded data, strides, dilations and the output size. The data is padded for whole tiles of ``columns``
    output pixels."""
    strides, dilations, before, after, sizes, out = _geometry(data, kernel, stride, padding, dilation, what)
    source = data
    if any(before) or any(after):
        right = after[1]
        if columns is not None:
            right = simplify((_whole(out[1], columns) - 1) * strides[1] + sizes[1] - data.shape[3] - before[1])
        source = pad(data, (0, 0, *before, 0), (0, 0, after[0], right, 0), pad_value, name="data_pad")
    return source, strides, dilations, out


def _whole(pixels, columns: int):
    """Return the number of pixels rounded up to whole tiles."""
    return simplify(te.indexdiv(pixels + (columns - 1), columns) * columns)


def is_pointwise(kernel, stride, padding, dilation) -> bool:
    """Return whether each output pixel of a convolution depends only on the input pixel at the same position."""
    window, strides = tuple(get_const_tuple(kernel.shape[2:4])), spatial(stride, 2, "conv2d_NCHWc: strides")
    before, after = pads(padding, window, 2, "conv2d_NCHWc")
    return window == strides == (1, 1) and not any((*before, *after))


def is_one_row(kernel, stride, padding, dilation) -> bool:
    """Return whether the pixels of an image of dynamic width are computed as one row: either each output pixel depends
    only on the input pixel at the same position, or the reduction is so long that computing the position of each pixel
    costs little."""
    is_long = prod(get_const_tuple(kernel.shape[1:5])) >= LONG_SUM
    return is_long or is_pointwise(kernel, stride, padding, dilation)


def _in_tiles(
    shape, body, name: str, attrs: dict[str, Any], columns: int | None, step: int, is_padded: bool,
    one_row: bool = False, overlaps: bool = False,
):  # fmt: skip
    """Return a convolution (n, O/o, h, w, o). If the width is dynamic, ``columns`` pixels of a row are computed
    together and the row is padded to whole tiles. If the data is not padded (see ``is_padded``), the last pixel is
    repeated in place of missing ones. All pixels may form one row (``one_row``), whose last tile ``overlaps`` the one
    before."""
    if columns is None:
        return te.compute(shape, body, name=name, tag=name, attrs=attrs)
    attrs = {**attrs, "columns": columns, "step": step}
    if one_row:
        return _in_one_row(shape, body, name, {**attrs, "is_one_row": True, "overlaps": overlaps})
    width = shape[3]

    def tiled(n, oc, y, x, ob):
        return body(n, oc, y, x if is_padded else row_or_last(x, width, columns), ob)

    whole = te.compute((*shape[:3], _whole(width, columns), shape[4]), tiled, name=name, tag=name, attrs=attrs)
    return te.compute(shape, lambda *at: whole(*at), name=name + "_part", tag="injective")


def _in_one_row(shape, body, name: str, attrs: dict[str, Any]):
    """Return the pixels of an image as one row of whole tiles. If the last tile does not overlap another one, the last
    pixel is repeated in place of missing ones. All tiles contain this bounds check, which costs nothing compared to a
    long reduction."""
    n, oc, height, width, ob = shape
    pixels, overlaps = simplify(height * width), attrs["overlaps"]

    def tiled(n, oc, _, p, ob):
        pixel = p if overlaps else te.min(p, te.max(pixels - 1, 0))
        return body(n, oc, te.indexdiv(pixel, width), te.indexmod(pixel, width), ob)

    row = pixels if overlaps else _whole(pixels, attrs["columns"])
    return _image_of(te.compute((n, oc, 1, row, ob), tiled, name=name, tag=name, attrs=attrs), shape)


def _image_of(row, shape):
    """Return the pixels of a row of whole tiles as an image."""
    return te.compute(shape, lambda n, oc, y, x, ob: row(n, oc, 0, y * shape[3] + x, ob), name=row.op.name + "_part",
                      tag="injective")  # fmt: skip


def conv2d_NCHWc_gathered(data, kernel, stride, padding, out_dtype, columns: int):
    """``conv2d_NCHWc`` with a window of one tap and one group of channels, for images of dynamic size. The elements for
    each output pixel are gathered first, (n, I/i, 1, pixels, i), for whole tiles of ``columns`` pixels. The last pixel
    is repeated in place of missing ones."""
    strides, _, before, after, _, (height, width) = _geometry(data, kernel, stride, padding, 1, "conv2d_NCHWc")
    batch, blocks, *image, block = data.shape
    pixels = simplify(height * width)

    def element(n, k, _, p, c):
        pixel = te.min(p, te.max(pixels - 1, 0))
        places = zip((te.indexdiv(pixel, width), te.indexmod(pixel, width)), strides, before)
        at = [place * step - lo for place, step, lo in places]
        inside = [c for x, size, lo, hi in zip(at, image, before, after) for c in (x >= 0, x < size) if lo or hi]
        value = data(n, k, *at, c)
        return te.if_then_else(te.all(*inside), value, tir.const(0, data.dtype)) if inside else value

    gathered = te.compute((batch, blocks, 1, _whole(pixels, columns), block), element, "data_gathered", "pad,step",
                          {"is_gathered": True})  # fmt: skip
    names = ("ic_outer", "kh", "kw", "ic_inner")
    outer, kh, kw, inner = axes = [te.reduce_axis((0, size), name=name) for name, size in zip(names, kernel.shape[1:5])]

    def body(n, oc, y, p, ob):
        value = gathered(n, outer, y, p, inner).astype(out_dtype)
        return te.sum(value * kernel(oc, outer, kh, kw, inner, ob).astype(out_dtype), axis=axes)

    attrs = {"groups": 1, "columns": columns, "step": 1, "is_one_row": True, "overlaps": False, "is_gathered": True}
    filters, wide = kernel.shape[0], kernel.shape[5]
    row = te.compute((batch, filters, 1, gathered.shape[3], wide), body, "conv2d_NCHWc", "conv2d_NCHWc", attrs)
    return _image_of(row, (batch, filters, height, width, wide))


def _unsplit_channels(kernel):
    """Return a kernel with split input channels in the form without the split."""
    *lead, groups, wide, depth = kernel.shape

    def body(*at):
        *first, i, o = at
        return kernel(*first, te.indexdiv(i, depth), o, te.indexmod(i, depth))

    return te.compute((*lead, simplify(groups * depth), wide), body, name="kernel_plain", tag="injective")


def conv2d_NCHWc(
    data, kernel, stride, padding, dilation, layout="NCHW8c", out_layout="NCHW8c", out_dtype="float32", columns=None,
    overlaps=False,
):  # fmt: skip
    """A convolution of data (n, C/c, h, w, c) and a kernel (O/o, I/i, kh, kw, i, o); if I * i is smaller than the
    number of channels, there are several groups. In a kernel (O/o, I/i, kh, kw, i/d, o, d) the d channels that an
    instruction reduces at once are contiguous. If the width is dynamic, ``columns`` pixels are computed together.

    Raises
    ------
    TVMError
        Data or kernel are not blocked, or their channels do not match.
    """
    out_dtype = out_dtype or data.dtype
    if len(kernel.shape) == 7:
        kernel = _unsplit_channels(kernel)
    if len(data.shape) != 5 or len(kernel.shape) != 6:
        raise TVMError(
            f"conv2d_NCHWc: data must have 5 and the kernel 6 dimensions, got {len(data.shape)} and {len(kernel.shape)}"
        )
    one_row = is_one_row(kernel, stride, padding, dilation)
    source, strides, dilations, (height, width) = _window(
        data, kernel, stride, padding, dilation, "conv2d_NCHWc", columns=None if one_row else columns
    )
    block = get_const_int(data.shape[4])
    channels = get_const_int(data.shape[1]) * block
    filters = get_const_int(kernel.shape[0]) * get_const_int(kernel.shape[5])
    inside = get_const_int(kernel.shape[1]) * get_const_int(kernel.shape[4])
    if channels % inside:
        raise TVMError(f"conv2d_NCHWc: data has {channels} channels, but the kernel takes {inside}")
    groups, wide = channels // inside, get_const_int(kernel.shape[5])
    outer = te.reduce_axis((0, kernel.shape[1]), name="ic_outer")
    inner = te.reduce_axis((0, kernel.shape[4]), name="ic_inner")
    kh, kw = te.reduce_axis((0, kernel.shape[2]), name="kh"), te.reduce_axis((0, kernel.shape[3]), name="kw")
    same_block = block == get_const_int(kernel.shape[4])

    def body(n, oc, y, x, ob):
        at = (y * strides[0] + kh * dilations[0], x * strides[1] + kw * dilations[1])
        if groups == 1 and same_block:
            value = source(n, outer, *at, inner)
        elif same_block and filters // groups % wide == 0:
            value = source(n, te.indexdiv(oc, filters // groups // wide) * kernel.shape[1] + outer, *at, inner)
        else:
            channel = outer * kernel.shape[4] + inner + te.indexdiv(oc * wide + ob, filters // groups) * inside
            value = source(n, te.indexdiv(channel, block), *at, te.indexmod(channel, block))
        return te.sum(
            value.astype(out_dtype) * kernel(oc, outer, kh, kw, inner, ob).astype(out_dtype),
            axis=[outer, kh, kw, inner],
        )

    shape = (data.shape[0], kernel.shape[0], height, width, kernel.shape[5])
    is_padded = source is not data
    return _in_tiles(
        shape, body, "conv2d_NCHWc", {"groups": groups}, columns, strides[1], is_padded, one_row, overlaps
    )  # fmt: skip


def conv2d_NCHWc_int8(
    data, kernel, stride, padding, dilation, layout="NCHW16c", out_layout="NCHW16c", out_dtype="int32", n_elems=BYTES,
    pad_value=0,
):  # fmt: skip
    """A convolution of data (n, C/c, h, w, c) and a kernel (O/o, I/i, kh, kw, i/d, o, d) of 8-bit integers. The d =
    ``n_elems`` channels that are reduced at once are contiguous. If I is smaller than the number of channel blocks,
    there are several groups. The data is padded with ``pad_value``, the zero point of quantized data.

    Raises
    ------
    TVMError
        Data or kernel do not have this blocked layout, or their channels do not match.
    """
    shape, of_kernel = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    if len(shape) != 5 or len(of_kernel) != 7 or of_kernel[6] != n_elems:
        raise TVMError(
            f"conv2d_NCHWc_int8: data must have 5 dimensions and the kernel 7, the last of size {n_elems}; got "
            f"{shape} and {of_kernel}"
        )
    return conv2d_NCHWc_words(data, kernel, stride, padding, dilation, out_dtype, pad_value, "conv2d_NCHWc_int8")


def conv2d_NCHWc_words(
    data, kernel, stride, padding, dilation, out_dtype="float32", pad_value=0, name="conv2d_NCHWc_words"
):  # fmt: skip
    """A convolution of data (n, C/c, h, w, c) with static dimensions and a kernel (O/o, I/i, kh, kw, i/d, o, d). The d
    channels of a machine word, which are reduced at once, are contiguous. If I is smaller than the number of channel
    blocks, there are several groups.

    Raises
    ------
    TVMError
        The channels of data and kernel do not match.
    """
    shape, of_kernel = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    groups, rest = divmod(shape[1], of_kernel[1])
    depth = of_kernel[6]
    if rest or shape[4] != of_kernel[4] * depth or of_kernel[0] % groups:
        raise TVMError(f"{name}: data {shape} and kernel {of_kernel} have different channel blocks")
    source, strides, dilations, out = _window(data, kernel, stride, padding, dilation, name, pad_value)
    names = ("ic_outer", "kh", "kw", "ic_group", "ic_inner")
    sizes = (*of_kernel[1:5], of_kernel[6])
    axes = [te.reduce_axis((0, size), name=name) for name, size in zip(names, sizes)]
    outer, kh, kw, group, inner = axes

    def body(n, oc, y, x, ob):
        at = (y * strides[0] + kh * dilations[0], x * strides[1] + kw * dilations[1])
        block = outer if groups == 1 else te.indexdiv(oc, of_kernel[0] // groups) * of_kernel[1] + outer
        value = source(n, block, *at, group * depth + inner).astype(out_dtype)
        return te.sum(value * kernel(oc, outer, kh, kw, group, ob, inner).astype(out_dtype), axis=axes)

    result = (data.shape[0], kernel.shape[0], *out, kernel.shape[5])
    return te.compute(result, body, name=name, tag=name, attrs={"groups": groups})


def depthwise_conv2d_NCHWc_int8(
    data, kernel, kernel_size, stride, padding, dilation, out_dtype="int32", pad_value=0
):  # fmt: skip
    """A depthwise convolution of data (n, C/c, h, w, c) and a kernel (C/c, kh, kw/4, c, 4) of 8-bit integers. Four taps
    of a window row are contiguous, with zeros after the last tap. The data is padded with ``pad_value``.

    The data of four taps is interleaved first, once for all rows of the window.

    Raises
    ------
    TVMError
        Data or kernel do not have this blocked layout, or their channels or taps do not match.
    """
    what = "depthwise_conv2d_NCHWc_int8"
    shape, of_kernel = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    window, strides, dilations = (
        spatial(value, 2, f"{what}: {name}")
        for value, name in ((kernel_size, "kernel_size"), (stride, "strides"), (dilation, "dilation"))
    )
    wanted = (shape[1], window[0], -(-window[1] // BYTES), shape[-1], BYTES)
    if len(shape) != 5 or of_kernel != wanted:
        raise TVMError(f"{what}: data {shape} with a window {window} needs a kernel {wanted}, got {of_kernel}")
    sizes = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
    before, after = pads(padding, sizes, 2, what)
    height, width = ((d + lo + hi - k) // s + 1 for d, lo, hi, k, s in zip(shape[2:4], before, after, sizes, strides))
    # The data for taps with zero weights may be further to the right.
    fours, reach = of_kernel[2], BYTES * dilations[1]
    last = (width - 1) * strides[1] + (fours - 1) * reach + (BYTES - 1) * dilations[1]
    after = [after[0], max(after[1], last + 1 - shape[3] - before[1])]
    within = lambda y, x: te.all(y >= before[0], y < shape[2] + before[0], x >= before[1], x < shape[3] + before[1])

    def padded(n, c, y, x, cb):
        value = data(n, c, y - before[0], x - before[1], cb)
        if not any((*before, *after)):
            return value
        return tir.if_then_else(within(y, x), value, tir.const(pad_value, data.dtype))

    rows, columns = shape[2] + before[0] + after[0], shape[3] + before[1] + after[1]
    source = te.compute((*shape[:2], rows, columns, shape[4]), padded, name="data_pad", tag="pad,step")
    step = strides[1] if fours == 1 or reach % strides[1] == 0 else 1
    starts = ((width - 1) * strides[1] + (fours - 1) * reach) // step + 1
    together = te.compute(
        (*shape[:2], rows, starts, shape[4], BYTES),
        lambda n, c, y, x, cb, tap: source(n, c, y, x * step + tap * dilations[1], cb),
        name="data_fours", tag="fours,step",
    )  # fmt: skip
    axes = [te.reduce_axis((0, d), name=n) for d, n in ((window[0], "kh"), (fours, "kw_four"), (BYTES, "kw_inner"))]
    kh, four, inner = axes

    def body(n, c, y, x, cb):
        at = y * strides[0] + kh * dilations[0], x * (strides[1] // step) + four * (reach // step)
        value = together(n, c, *at, cb, inner).astype(out_dtype)
        return te.sum(value * kernel(c, kh, four, cb, inner).astype(out_dtype), axis=axes)

    return te.compute((*shape[:2], height, width, shape[4]), body, name=what, tag=what)


def depthwise_conv2d_NCHWc(Input, Filter, stride, padding, dilation, layout, out_layout, out_dtype=None):
    """A depthwise convolution of data (n, C/c, h, w, c) and a kernel (O/o, 1, kh, kw, 1, o), where O is a multiple of
    C.

    Raises
    ------
    TVMError
        Data or kernel are not blocked, or the number of filters is not a multiple of the number of channels.
    """
    out_dtype = out_dtype or Input.dtype
    if len(Input.shape) != 5 or len(Filter.shape) != 6:
        raise TVMError(
            f"depthwise_conv2d_NCHWc: data must have 5 and the kernel 6 dimensions, got {len(Input.shape)} and "
            f"{len(Filter.shape)}"
        )
    source, strides, dilations, (height, width) = _window(
        Input, Filter, stride, padding, dilation, "depthwise_conv2d_NCHWc"
    )
    block, wide = get_const_int(Input.shape[4]), get_const_int(Filter.shape[5])
    multiplier = 1
    # The number of blocks may be dynamic; there must be as many blocks of filters as of channels.
    if block != wide or not same_dim(Input.shape[1], Filter.shape[0]):
        channels, filters = get_const_int(Input.shape[1]) * block, get_const_int(Filter.shape[0]) * wide
        if filters % channels:
            raise TVMError(f"depthwise_conv2d_NCHWc: {filters} filters are not a multiple of {channels} channels")
        multiplier = filters // channels
    kh, kw = te.reduce_axis((0, Filter.shape[2]), name="kh"), te.reduce_axis((0, Filter.shape[3]), name="kw")

    def body(n, oc, y, x, ob):
        at = (y * strides[0] + kh * dilations[0], x * strides[1] + kw * dilations[1])
        if multiplier == 1 and block == wide:
            value = source(n, oc, *at, ob)
        else:
            channel = te.indexdiv(oc * wide + ob, multiplier)
            value = source(n, te.indexdiv(channel, block), *at, te.indexmod(channel, block))
        return te.sum(value.astype(out_dtype) * Filter(oc, 0, kh, kw, 0, ob).astype(out_dtype), axis=[kh, kw])

    shape = (Input.shape[0], Filter.shape[0], height, width, Filter.shape[5])
    return te.compute(shape, body, name="depthwise_conv2d_NCHWc", tag="depthwise_conv2d_NCHWc")


def dense_pack(data, weight, bias=None, out_dtype=None, units=None):
    """The matmul of ``data`` and the transposed ``weight``, which is stored as (units / block, features, block). Pass
    ``units`` if the last block is not full."""
    out_dtype = out_dtype or data.dtype
    return with_bias(crop_units(packed_matmul(data, weight, out_dtype), data, units), bias, out_dtype)


def row_or_last(row, rows, tile: int | None):
    """Return the data row for a row of padded tiles. Full tiles use their own rows, as far as this is provable."""
    last = te.min(row, rows - 1)
    if tile is None:
        return last
    return tir.Select(te.indexdiv(row, tile) < te.indexdiv(rows, tile), row, last)


def packed_matmul(
    data, weight, out_dtype: str, rows: Any = None, tile: int | None = None, facts: dict[str, Any] | None = None
):
    """Return the matmul with all units of the blocks. With ``rows`` it has that many rows, and the last data row is
    repeated in place of missing ones. ``tile`` is the number of rows that the schedule computes together if their
    number is dynamic; ``facts`` are additional attributes for the schedule."""
    if len(weight.shape) != 3:
        raise TVMError(f"dense_pack: the weight must have 3 dimensions, got {len(weight.shape)}")
    block = weight.shape[2]
    k = te.reduce_axis((0, data.shape[-1]), name="k")

    def body(*at):
        *lead, j = at
        if rows is not None:
            lead[-1] = row_or_last(lead[-1], data.shape[-2], tile)
        value = data(*lead, k).astype(out_dtype)
        return te.sum(value * weight(te.indexdiv(j, block), k, te.indexmod(j, block)).astype(out_dtype), axis=k)

    lead = (*data.shape[:-2], rows) if rows is not None else data.shape[:-1]
    shape = (*lead, simplify(weight.shape[0] * block))
    attrs = {"panel": getattr(block, "value", 0), **({} if tile is None else {"rows": tile}), **(facts or {})}
    return te.compute(shape, body, name="T_dense_pack", tag="dense_pack", attrs=attrs)


def crop_units(whole, data, units):
    """Return a matmul without its additional rows and units."""
    rows, columns = data.shape[:-1], whole.shape[-1]
    all_units = units is None or int(units) == getattr(columns, "value", None)
    if all_units and all(same_dim(a, b) for a, b in zip(rows, whole.shape)):
        return whole
    shape = (*rows, columns if units is None else int(units))
    return te.compute(shape, lambda *at: whole(*at), name="T_dense_pack_part", tag="injective")
