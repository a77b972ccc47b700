"""Reference convolutions with any number of axes: one product for each kernel element."""

from __future__ import annotations

import numpy as np


def _each(value, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(int(v) for v in value)


def pads(padding, sizes, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the zeros before and after each axis; ``sizes`` are those of the dilated kernel."""
    if isinstance(padding, str):
        total = [size - 1 if padding.upper() == "SAME" else 0 for size in sizes]
        before = tuple((t + 1) // 2 for t in total)
        return before, tuple(t - b for t, b in zip(total, before))
    values = _each(padding, n)
    return (values, values) if len(values) == n else (values[:n], values[n:])


def _places(start: int, stride: int, count: int) -> slice:
    return slice(start, start + stride * (count - 1) + 1, stride)


def conv_python(a_np, w_np, stride, padding, dilation=1, groups=1, out_dtype=None):
    """Return the convolution of ``a_np`` (N, C, ...) and ``w_np`` (O, C / groups, ...)."""
    n = a_np.ndim - 2
    stride, dilation = _each(stride, n), _each(dilation, n)
    kernel = w_np.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    before, after = pads(padding, reach, n)
    out_dtype = out_dtype or a_np.dtype
    wide = "int64" if np.issubdtype(a_np.dtype, np.integer) else "float64"
    data = np.pad(a_np.astype(wide), ((0, 0), (0, 0), *zip(before, after)))
    out = [(size - r) // s + 1 for size, r, s in zip(data.shape[2:], reach, stride)]
    batch, channels, filters = a_np.shape[0], a_np.shape[1] // groups, w_np.shape[0] // groups
    result = np.zeros((batch, w_np.shape[0], *out), wide)
    for place in np.ndindex(*kernel):
        part = data[
            (slice(None), slice(None), *(_places(k * d, s, o) for k, d, s, o in zip(place, dilation, stride, out)))
        ]
        for g in range(groups):
            weights = w_np[(slice(g * filters, (g + 1) * filters), slice(None), *place)].astype(wide)
            product = np.tensordot(weights, part[:, g * channels : (g + 1) * channels], (1, 1))
            result[:, g * filters : (g + 1) * filters] += np.moveaxis(product, 0, 1)
    return result.astype(out_dtype)


def conv_transpose_python(a_np, w_np, stride, padding, output_padding=0, groups=1):
    """Return the transposed convolution of ``a_np`` (N, C, ...) and ``w_np`` (C, O / groups, ...): every element is
    multiplied with the kernel and added to the output."""
    n = a_np.ndim - 2
    stride, extra = _each(stride, n), _each(output_padding, n)
    kernel = w_np.shape[2:]
    before, after = pads(padding, kernel, n)
    batch, channels, filters = a_np.shape[0], a_np.shape[1] // groups, w_np.shape[1]
    size = [(i - 1) * s + k + e for i, s, k, e in zip(a_np.shape[2:], stride, kernel, extra)]
    full = np.zeros((batch, filters * groups, *size), "float64")
    for place in np.ndindex(*kernel):
        where = (slice(None), *(_places(k, s, i) for k, s, i in zip(place, stride, a_np.shape[2:])))
        for g in range(groups):
            own = slice(g * channels, (g + 1) * channels)
            product = np.tensordot(w_np[(own, slice(None), *place)].astype("float64"), a_np[:, own], (0, 1))
            full[:, g * filters : (g + 1) * filters][(slice(None), *where)] += np.moveaxis(product, 0, 1)
    inner = tuple(slice(b, s - a) for b, a, s in zip(before, after, size))
    return full[(slice(None), slice(None), *inner)].astype(a_np.dtype)


def _channels_first(function, a_np, w_np, *args, **kwargs):
    """Apply ``function`` to data (N, ..., C) and weights (..., I, O)."""
    a = np.moveaxis(a_np, -1, 1)
    w = np.moveaxis(w_np, (-1, -2), (0, 1))
    return np.moveaxis(function(a, w, *args, **kwargs), 1, -1)


def conv1d_ncw_python(a_np, w_np, stride, padding, dilation):
    return conv_python(a_np, w_np, stride, padding, dilation)


def conv2d_nchw_python(a_np, w_np, stride, padding, groups=1):
    return conv_python(a_np, w_np, stride, padding, 1, groups)


def conv2d_nhwc_python(a_np, w_np, stride, padding, groups=1):
    return _channels_first(conv_python, a_np, w_np, stride, padding, 1, groups)


def conv2d_hwcn_python(a_np, w_np, stride, padding):
    out = conv_python(np.transpose(a_np, (3, 2, 0, 1)), np.transpose(w_np, (3, 2, 0, 1)), stride, padding, 1, 1)
    return np.transpose(out, (2, 3, 1, 0))


def conv3d_ncdhw_python(a_np, w_np, stride, padding, groups=1):
    return conv_python(a_np, w_np, stride, padding, 1, groups)


def conv3d_ndhwc_python(a_np, w_np, stride, padding, groups=1):
    return _channels_first(conv_python, a_np, w_np, stride, padding, 1, groups)


def conv1d_transpose_ncw_python(a_np, w_np, stride, padding, output_padding):
    return conv_transpose_python(a_np, w_np, stride, padding, output_padding)


def conv2d_transpose_nchw_python(a_np, w_np, stride, padding, output_padding, groups=1):
    return conv_transpose_python(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(a_nhwc, weight, weight_format, stride, padding, output_padding=(0, 0)):
    order = [weight_format.index(letter) for letter in "IOHW"]
    moved = np.moveaxis(a_nhwc, -1, 1)
    return np.moveaxis(conv_transpose_python(moved, weight.transpose(order), stride, padding, output_padding), 1, -1)


def conv3d_transpose_ncdhw_python(a_np, w_np, stride, padding, output_padding):
    return conv_transpose_python(a_np, w_np, stride, padding, output_padding)


def depthwise_conv2d_python_nchw(input_np, filter_np, stride, padding, dilation=1):
    """The depthwise convolution with a kernel (C, multiplier, height, width)."""
    channels, multiplier = filter_np.shape[:2]
    weights = filter_np.reshape(channels * multiplier, 1, *filter_np.shape[2:])
    return conv_python(input_np, weights, stride, padding, dilation, channels)


def depthwise_conv2d_python_nhwc(input_np, filter_np, stride, padding, dilation=1):
    """The depthwise convolution with a kernel (height, width, C, multiplier)."""
    moved = depthwise_conv2d_python_nchw(
        np.moveaxis(input_np, -1, 1), filter_np.transpose(2, 3, 0, 1), stride, padding, dilation
    )
    return np.moveaxis(moved, 1, -1)


def depthwise_conv2d_python_nchwc(input_np, filter_np, stride, padding):
    """The depthwise convolution of an image (N, C / c, height, width, c) with a kernel (O / c, 1, height, width, 1,
    c)."""
    n, blocks, height, width, block = input_np.shape
    data = input_np.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, height, width)
    out_blocks, _, kernel_height, kernel_width, _, out_block = filter_np.shape
    weights = filter_np[:, 0, :, :, 0].transpose(0, 3, 1, 2).reshape(-1, 1, kernel_height, kernel_width)
    result = conv_python(data, weights, stride, padding, 1, blocks * block)
    return result.reshape(n, out_blocks, out_block, *result.shape[2:]).transpose(0, 1, 3, 4, 2)


def _bilinear(image, y: float, x: float):
    """Return the bilinear interpolation of (C, height, width); elements outside count as zero."""
    height, width = image.shape[1:]
    top, left = int(np.floor(y)), int(np.floor(x))
    value = np.zeros(image.shape[0])
    for row, row_weight in ((top, top + 1 - y), (top + 1, y - top)):
        for column, column_weight in ((left, left + 1 - x), (left + 1, x - left)):
            if 0 <= row < height and 0 <= column < width:
                value += image[:, row, column] * row_weight * column_weight
    return value


def deformable_conv2d_nchw_python(a_np, offset_np, w_np, stride, padding, dilation, deformable_groups, groups):
    """The deformable convolution: each kernel element reads at its position plus a separate offset (y, x)."""
    stride, dilation = _each(stride, 2), _each(dilation, 2)
    kernel = w_np.shape[2:]
    before, _ = pads(padding, [(k - 1) * d + 1 for k, d in zip(kernel, dilation)], 2)
    batch, channels = a_np.shape[:2]
    out = offset_np.shape[2:]
    share, filters = channels // deformable_groups, w_np.shape[0] // groups
    result = np.zeros((batch, w_np.shape[0], *out), "float64")
    for n, y, x in np.ndindex(batch, *out):
        for i, j in np.ndindex(*kernel):
            read = np.zeros(channels)
            for g in range(deformable_groups):
                place = ((g * kernel[0] + i) * kernel[1] + j) * 2
                shift = offset_np[n, place : place + 2, y, x].astype("float64")
                at = (
                    y * stride[0] + i * dilation[0] - before[0] + shift[0],
                    x * stride[1] + j * dilation[1] - before[1] + shift[1],
                )
                own = slice(g * share, (g + 1) * share)
                read[own] = _bilinear(a_np[n, own], *at)
            for g in range(groups):
                own, mine = (
                    slice(g * filters, (g + 1) * filters),
                    slice(g * channels // groups, (g + 1) * channels // groups),
                )
                result[n, own, y, x] += w_np[own, :, i, j].astype("float64") @ read[mine]
    return result.astype(a_np.dtype)


def deformable_conv2d_nhwc_python(a_np, offset_np, w_np, stride, padding, dilation, deformable_groups, groups):
    """The deformable convolution with channels last; the kernel is (height, width, I, O)."""
    result = deformable_conv2d_nchw_python(
        np.moveaxis(a_np, -1, 1), np.moveaxis(offset_np, -1, 1), w_np.transpose(3, 2, 0, 1), stride, padding, dilation,
        deformable_groups, groups,
    )  # fmt: skip
    return np.moveaxis(result, 1, -1)


def correlation_nchw_python(data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply):
    """The mean product (or difference) of a patch of one image and the surrounding patches of the other image."""
    pad = padding if isinstance(padding, int) else padding[0]
    first, second = (np.pad(d.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad))) for d in (data1, data2))
    radius = (kernel_size - 1) // 2
    border = max_displacement + radius
    out = [-(-(size - 2 * border) // stride1) for size in first.shape[2:]]
    steps = max_displacement // stride2
    moves = [(y * stride2, x * stride2) for y in range(-steps, steps + 1) for x in range(-steps, steps + 1)]
    result = np.zeros((data1.shape[0], len(moves), *out), "float64")
    for (y, x), (q, (dy, dx)) in ((p, m) for p in np.ndindex(*out) for m in enumerate(moves)):
        top, left = y * stride1 + max_displacement, x * stride1 + max_displacement
        patch = first[:, :, top : top + kernel_size, left : left + kernel_size]
        other = second[:, :, top + dy : top + dy + kernel_size, left + dx : left + dx + kernel_size]
        value = patch * other if is_multiply else np.abs(patch - other)
        result[:, q, y, x] = value.sum((1, 2, 3)) / (kernel_size * kernel_size * data1.shape[1])
    return result.astype(data1.dtype)
