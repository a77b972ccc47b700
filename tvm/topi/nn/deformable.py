"""Deformable convolution, and correlation of two images."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ..assumptions import agree
from ..utils import get_const_int, simplify
from .pad import pad
from .utils import pads, spatial


def bilinear(read, y, x, height, width):
    """Return the bilinear interpolation between four points; points outside count as zero. ``read(y, x)`` returns a
    point inside."""
    low_y, low_x = te.floor(y), te.floor(x)
    part_y, part_x = y - low_y, x - low_x
    first_y, first_x = low_y.astype("int32"), low_x.astype("int32")

    def point(i, j):
        inside = tir.all(i >= 0, i < height, j >= 0, j < width)
        return tir.if_then_else(inside, read(i, j), tir.const(0, y.dtype))

    one = tir.const(1, y.dtype)
    top = point(first_y, first_x) * (one - part_x) + point(first_y, first_x + 1) * part_x
    bottom = point(first_y + 1, first_x) * (one - part_x) + point(first_y + 1, first_x + 1) * part_x
    return top * (one - part_y) + bottom * part_y


def _deformable(data, offset, kernel, strides, padding, dilation, deformable_groups, groups, channels_last, out_dtype):
    out_dtype = out_dtype or data.dtype
    c, h, w = (3, 1, 2) if channels_last else (1, 2, 3)
    oh, ow = h, w
    kh, kw = (kernel.shape[0], kernel.shape[1]) if channels_last else (kernel.shape[2], kernel.shape[3])
    filters = kernel.shape[3] if channels_last else kernel.shape[0]
    per_group = kernel.shape[2] if channels_last else kernel.shape[1]
    strides = spatial(strides, 2, "deformable_conv2d: strides")
    dilations = spatial(dilation, 2, "deformable_conv2d: dilation")
    sizes = [get_const_int((k - 1) * d + 1) for k, d in zip((kh, kw), dilations)]
    before, _ = pads(padding, sizes, 2, "deformable_conv2d")
    channels, height, width = data.shape[c], data.shape[h], data.shape[w]
    for many in (groups, deformable_groups):
        if many < 1 or get_const_int(channels) % many:
            raise TVMError(f"deformable_conv2d: {channels} channels cannot be divided into {many} groups")
    if not agree(data.shape[0], offset.shape[0], "images against offsets"):
        raise TVMError(
            f"deformable_conv2d: the data has {data.shape[0]} images, but the offsets have {offset.shape[0]}"
        )
    _check_deformable(channels, filters, per_group, groups, offset.shape[c], 2 * kh * kw * deformable_groups)
    each = get_const_int(channels) // deformable_groups

    def read_offset(n, place, y, x):
        return offset(n, y, x, place) if channels_last else offset(n, place, y, x)

    def sampled(n, channel, ky, kx, y, x):
        place = (te.indexdiv(channel, each) * (kh * kw) + ky * kw + kx) * 2
        at_y = (y * strides[0] - before[0] + ky * dilations[0]).astype(data.dtype) + read_offset(n, place, y, x)
        at_x = (x * strides[1] - before[1] + kx * dilations[1]).astype(data.dtype) + read_offset(n, place + 1, y, x)
        return bilinear(
            lambda i, j: data(n, i, j, channel) if channels_last else data(n, channel, i, j), at_y, at_x, height, width
        )

    out_h, out_w = offset.shape[oh], offset.shape[ow]
    points = te.compute((data.shape[0], channels, kh, kw, out_h, out_w), sampled, name="data_deform")
    rc = te.reduce_axis((0, per_group), name="rc")
    ry, rx = te.reduce_axis((0, kh), name="ry"), te.reduce_axis((0, kw), name="rx")
    size = get_const_int(filters) // groups

    def body(n, f, y, x):
        channel = rc if groups == 1 else te.indexdiv(f, size) * per_group + rc
        weight = kernel(ry, rx, rc, f) if channels_last else kernel(f, rc, ry, rx)
        return te.sum(points(n, channel, ry, rx, y, x).astype(out_dtype) * weight.astype(out_dtype), axis=[rc, ry, rx])

    if channels_last:
        return te.compute(
            (data.shape[0], out_h, out_w, filters),
            lambda n, y, x, f: body(n, f, y, x),
            name="deformable_conv2d",
            tag="deformable_conv2d_nhwc",
        )
    return te.compute(
        (data.shape[0], filters, out_h, out_w), body, name="deformable_conv2d", tag="deformable_conv2d_nchw"
    )


def _check_deformable(channels, filters, per_group, groups: int, offsets, wanted) -> None:
    if get_const_int(filters) % groups or get_const_int(channels) != get_const_int(per_group) * groups:
        raise TVMError(
            f"deformable_conv2d: data of {channels} channels and {filters} filters of {per_group} channels each "
            f"cannot be divided into {groups} groups"
        )
    if get_const_int(offsets) != get_const_int(wanted):
        raise TVMError(
            f"deformable_conv2d: the offsets must have {wanted} channels, two for each point of the "
            f"window and deformable group, got {offsets}"
        )


def deformable_conv2d_nchw(data, offset, kernel, strides, padding, dilation, deformable_groups, groups, out_dtype):
    """Deformable convolution: ``offset`` displaces each point of the window (pairs of y and x for each group and kernel
    position)."""
    return _deformable(data, offset, kernel, strides, padding, dilation, deformable_groups, groups, False, out_dtype)


def deformable_conv2d_nhwc(data, offset, kernel, strides, padding, dilation, deformable_groups, groups, out_dtype):
    """deformable_conv2d_nchw with channels last and weights HWIO."""
    return _deformable(data, offset, kernel, strides, padding, dilation, deformable_groups, groups, True, out_dtype)


def correlation_nchw(data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply):
    """The similarity of patches of two images, for every displacement up to a limit.

    Raises
    ------
    TVMError
        The images differ in shape, or ``kernel_size`` is even.
    """
    if not all(agree(a, b, "equal shapes of the images") for a, b in zip(data1.shape, data2.shape)):
        raise TVMError(
            f"correlation: both images must have the same shape, got {list(data1.shape)} and {list(data2.shape)}"
        )
    for what, value in (("kernel_size", kernel_size), ("stride1", stride1), ("stride2", stride2)):
        spatial(value, 1, "correlation: " + what)
    spatial(max_displacement, 1, "correlation: max_displacement", 0)
    if kernel_size % 2 == 0:
        raise TVMError(f"correlation: kernel_size must be odd, so that the window has a center, got {kernel_size}")
    before, after = pads(padding, (kernel_size, kernel_size), 2, "correlation")
    if any(before) or any(after):
        data1 = pad(data1, (0, 0, *before), (0, 0, *after))
        data2 = pad(data2, (0, 0, *before), (0, 0, *after))
    batch, channels, height, width = data1.shape
    radius = (kernel_size - 1) // 2
    border = max_displacement + radius
    steps = max_displacement // stride2
    side = 2 * steps + 1
    out_h = simplify((height - 2 * border + stride1 - 1) // stride1)
    out_w = simplify((width - 2 * border + stride1 - 1) // stride1)
    rc = te.reduce_axis((0, channels), name="rc")
    ry, rx = te.reduce_axis((0, kernel_size), name="ry"), te.reduce_axis((0, kernel_size), name="rx")
    share = 1.0 / (kernel_size * kernel_size * get_const_int(channels))

    def body(n, q, y, x):
        y1, x1 = y * stride1 + max_displacement, x * stride1 + max_displacement
        y2 = y1 + (te.indexdiv(q, side) - steps) * stride2
        x2 = x1 + (te.indexmod(q, side) - steps) * stride2
        a, b = data1(n, rc, y1 + ry, x1 + rx), data2(n, rc, y2 + ry, x2 + rx)
        return te.sum(a * b if is_multiply else te.abs(a - b), axis=[rc, ry, rx])

    total = te.compute((batch, side * side, out_h, out_w), body, name="correlation", tag="correlation_nchw")
    return te.compute(total.shape, lambda *at: total(*at) * tir.const(share, total.dtype), tag="elemwise")
