"""Convolutions with any number of spatial dimensions, in any layout."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import te
from ...dtype import canonical
from ...error import TVMError
from ..utils import get_const_int, refuse_rewritten, simplify
from .pad import pad
from .utils import pads, spatial

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


class Convolution(NamedTuple):
    """The parameters of a convolution: the layouts; sizes by dimension letter of the data, the weight and the output;
    and the window size, strides, dilations and padding of each spatial dimension."""

    spatial: str
    data_layout: str
    kernel_layout: str
    data: dict[str, Any]
    weight: dict[str, Any]
    out: dict[str, Any]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    groups: int
    dtype: str

    def around(self) -> tuple[list[int], list[int]]:
        """The padding at the start and the end of each dimension of the data."""
        rows = [dict(zip(self.spatial, side)) for side in (self.before, self.after)]
        lows, highs = ([row.get(c, 0) for c in self.data_layout] for row in rows)
        return lows, highs


def convolution_of(
    inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout="", out_dtype=None, name="conv"
) -> Convolution:
    """Return the convolution that the arguments describe. Errors for invalid arguments name the operator."""
    n = len(inp.shape) - 2
    names = SPATIAL.get(n)
    if names is None:
        raise TVMError(f"{name}: data must have 1 to 3 spatial dimensions, got {len(inp.shape)} dimensions")
    kernel_layout = kernel_layout or ("OI" + names if data_layout.startswith("NC") else names + "IO")
    check_layout(data_layout, "NC" + names, name)
    check_layout(kernel_layout, "OI" + names, name)
    strides, dilations = spatial(stride, n, name + ": strides"), spatial(dilation, n, name + ": dilation")
    data = {c: inp.shape[data_layout.index(c)] for c in data_layout}
    weight = {c: filt.shape[kernel_layout.index(c)] for c in kernel_layout}
    groups = get_const_int(groups)
    _check_groups(data["C"], weight["O"], weight["I"], groups, name)
    sizes = [get_const_int((weight[c] - 1) * d + 1) for c, d in zip(names, dilations)]
    before, after = pads(padding, sizes, n, name)
    out = {"N": data["N"], "C": weight["O"]}
    for c, k, s, lo, hi in zip(names, sizes, strides, before, after):
        out[c] = simplify((data[c] + lo + hi - k) // s + 1)
        if isinstance(getattr(out[c], "value", None), int) and out[c].value < 1:
            raise TVMError(f"{name}: the kernel ({k} with dilation) is larger than the padded data along {c}")
    return Convolution(
        names,
        data_layout,
        kernel_layout,
        data,
        weight,
        out,
        strides,
        dilations,
        before,
        after,
        groups,
        out_dtype or inp.dtype,
    )


def padded_data(inp, known: Convolution):
    """Return the data padded with zeros."""
    lows, highs = known.around()
    return pad(inp, lows, highs, name="pad_temp") if any(lows) or any(highs) else inp


def conv(
    inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout="", out_dtype=None, name="conv", attrs=None
):
    """Cross-correlation. ``data_layout`` is a layout such as NCHW or NHWC (the output has the same), ``kernel_layout``
    one such as OIHW or HWIO. With groups, I is the number of input channels of one group."""
    known = convolution_of(inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype, name)
    source, weight, dtype = padded_data(inp, known), known.weight, known.dtype
    rc = te.reduce_axis((0, weight["I"]), name="rc")
    window = [te.reduce_axis((0, weight[c]), name="r" + c.lower()) for c in known.spatial]
    per_group = weight["O"] // known.groups

    def body(*at):
        i = dict(zip(data_layout, at))
        channel = rc if known.groups == 1 else (i["C"] // per_group) * weight["I"] + rc
        where = {"N": i["N"], "C": channel}
        for c, w, s, d in zip(known.spatial, window, known.strides, known.dilations):
            where[c] = i[c] * s + w * d
        kernel = {"O": i["C"], "I": rc, **dict(zip(known.spatial, window))}
        x = source(*[where[c] for c in data_layout]).astype(dtype)
        return te.sum(x * filt(*[kernel[c] for c in known.kernel_layout]).astype(dtype), axis=[rc, *window])

    tag = f"{name}_{data_layout.lower()}"
    return te.compute([known.out[c] for c in data_layout], body, name=name, tag=tag, attrs=attrs)


def check_layout(layout: str, wanted: str, name: str) -> None:
    if sorted(layout) != sorted(wanted):
        raise TVMError(f"{name}: layout '{layout}' must contain each of the dimensions {wanted} once")


def _check_groups(channels, filters, per_group, groups: int, name: str) -> None:
    known = [getattr(x, "value", None) for x in (channels, filters, per_group)]
    if known[0] is not None and known[2] is not None and known[0] != known[2] * groups:
        raise TVMError(
            f"{name}: the data has {known[0]} channels, but the kernel takes {known[2]} for each of {groups} groups"
        )
    if known[1] is not None and known[1] % groups:
        raise TVMError(f"{name}: {known[1]} filters cannot be divided into {groups} groups")


def conv2d(input, filter, strides, padding, dilation, data_layout="NCHW", kernel_layout="", out_dtype=None):
    """Cross-correlation along two dimensions.

    Examples
    --------
    >>> x, w = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3))
    >>> topi.nn.conv2d(x, w, strides=1, padding=1, dilation=1).shape
    (1, 4, 8, 8)
    """
    return conv(input, filter, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype, "conv2d")


def conv2d_nchw(Input, Filter, stride, padding, dilation, out_dtype=None):
    """Cross-correlation along two dimensions, data NCHW and weights OIHW."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype, "conv2d")


def conv2d_nhwc(
    Input,
    Filter,
    stride,
    padding,
    dilation,
    out_dtype="float32",
    auto_scheduler_rewritten_layout="",
    meta_schedule_original_shape=None,
    auto_scheduler_should_rewrite_layout=False,
):
    """Cross-correlation along two dimensions, data NHWC and weights HWIO."""
    refuse_rewritten("conv2d_nhwc", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    attrs = {"layout_free_placeholders": [Filter]} if auto_scheduler_should_rewrite_layout else None
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype, "conv2d", attrs)


def conv2d_hwcn(Input, Filter, stride, padding, dilation, out_dtype=None):
    """Cross-correlation along two dimensions, data HWCN and weights HWIO."""
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype, "conv2d")


def group_conv2d_nchw(Input, Filter, stride, padding, dilation, groups, out_dtype=None):
    """Grouped cross-correlation, data NCHW and weights OIHW."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype, "group_conv2d")


def group_conv2d_nhwc(Input, Filter, stride, padding, dilation, groups, out_dtype=None):
    """Grouped cross-correlation, data NHWC and weights HWIO."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype, "group_conv2d")


def conv1d(
    data, kernel, strides=1, padding="VALID", dilation=1, groups=1, data_layout="NCW", kernel_layout="", out_dtype=None
):
    """Cross-correlation along one dimension."""
    return conv(data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype, "conv1d")


def conv1d_ncw(data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None):
    """Cross-correlation along one dimension, data NCW and weights OIW."""
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype, "conv1d")


def conv1d_nwc(data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None):
    """Cross-correlation along one dimension, data NWC and weights WIO."""
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype, "conv1d")


def group_conv1d_ncw(data, kernel, strides=1, padding="VALID", dilation=1, groups=1, out_dtype=None):
    """Grouped cross-correlation along one dimension, data NCW and weights OIW."""
    return conv(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype, "conv1d")


def group_conv1d_nwc(data, kernel, strides=1, padding="VALID", dilation=1, groups=1, out_dtype=None):
    """Grouped cross-correlation along one dimension, data NWC and weights WIO."""
    return conv(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype, "conv1d")


def conv3d_ncdhw(Input, Filter, stride, padding, dilation, groups=1, out_dtype=None):
    """Cross-correlation along three dimensions, data NCDHW and weights OIDHW."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype, "conv3d")


def conv3d_ndhwc(
    Input,
    Filter,
    stride,
    padding,
    dilation,
    groups=1,
    out_dtype="float32",
    auto_scheduler_rewritten_layout="",
    meta_schedule_origin_shape=None,
):
    """Cross-correlation along three dimensions, data NDHWC and weights DHWIO."""
    refuse_rewritten("conv3d_ndhwc", auto_scheduler_rewritten_layout, meta_schedule_origin_shape)
    return conv(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype, "conv3d")


class Depthwise(NamedTuple):
    """A depthwise convolution: the window, strides, dilations and padding; the channels of the data and the number of
    filters of each (``one``: a single filter); and the size of the output."""

    window: tuple[Any, Any]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    channels: Any
    multiplier: Any
    one: bool
    size: tuple[Any, Any]
    dtype: str


def depthwise_of(inp, filt, stride, padding, dilation, data_layout: str, kernel_layout: str, out_dtype) -> Depthwise:
    """Return the depthwise convolution that the arguments describe. O of the kernel is the channel, I the filter of the
    channel."""
    weight = {c: filt.shape[kernel_layout.index(c)] for c in kernel_layout}
    data = {c: inp.shape[data_layout.index(c)] for c in data_layout}
    strides, dilations = (
        spatial(stride, 2, "depthwise_conv2d: strides"),
        spatial(dilation, 2, "depthwise_conv2d: dilation"),
    )
    sizes = [get_const_int((weight[c] - 1) * d + 1) for c, d in zip("HW", dilations)]
    before, after = pads(padding, sizes, 2, "depthwise_conv2d")
    height, width = [
        simplify((data[c] + lo + hi - k) // s + 1) for c, lo, hi, k, s in zip("HW", before, after, sizes, strides)
    ]
    return Depthwise(
        (weight["H"], weight["W"]),
        strides,
        dilations,
        before,
        after,
        weight["O"],
        weight["I"],
        getattr(weight["I"], "value", 0) == 1,
        (height, width),
        out_dtype or inp.dtype,
    )


def depthwise_conv2d_nchw(Input, Filter, stride, padding, dilation, out_dtype=None):
    """Depthwise convolution with a kernel (channels, multiplier, height, width)."""
    known = depthwise_of(Input, Filter, stride, padding, dilation, "NCHW", "OIHW", out_dtype)
    (sy, sx), (dy, dx), multiplier = known.strides, known.dilations, known.multiplier
    padded = any(known.before + known.after)
    source = pad(Input, (0, 0, *known.before), (0, 0, *known.after), name="PaddedInput") if padded else Input
    di, dj = (te.reduce_axis((0, k), name=name) for k, name in zip(known.window, ("di", "dj")))

    def body(b, c, i, j):
        channel = c if known.one else c // multiplier
        x = source[b, channel, i * sy + di * dy, j * sx + dj * dx].astype(known.dtype)
        return te.sum(x * Filter[channel, 0 if known.one else c % multiplier, di, dj].astype(known.dtype), [di, dj])

    return te.compute(
        (Input.shape[0], known.channels * multiplier, *known.size),
        body,
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_nchw",
    )


def depthwise_conv2d_nhwc(Input, Filter, stride, padding, dilation, kernel_layout="HWOI", out_dtype=None):
    """Depthwise convolution with channels last; the kernel is HWOI (O input channels, I multiplier).

    The device-specific operators have no ``kernel_layout`` parameter, so scripts pass the output dtype in its position;
    such a kernel is HWOI.

    Raises
    ------
    TVMError
        The kernel layout is neither HWOI nor HWIO.
    """
    kernel_layout, out_dtype = nhwc_filter(kernel_layout, out_dtype)
    known = depthwise_of(Input, Filter, stride, padding, dilation, "NHWC", kernel_layout, out_dtype)
    (sy, sx), (dy, dx), multiplier = known.strides, known.dilations, known.multiplier
    padded = any(known.before + known.after)
    source = pad(Input, (0, *known.before, 0), (0, *known.after, 0), name="PaddedInput") if padded else Input
    di, dj = (te.reduce_axis((0, k), name=name) for k, name in zip(known.window, ("di", "dj")))

    def body(b, i, j, c):
        channel = c if known.one else c // multiplier
        x = source[b, i * sy + di * dy, j * sx + dj * dx, channel].astype(known.dtype)
        return te.sum(x * filter_at(Filter, known, kernel_layout, c, di, dj).astype(known.dtype), axis=[di, dj])

    return te.compute(
        (Input.shape[0], *known.size, known.channels * multiplier),
        body,
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_nhwc",
    )


def nhwc_filter(kernel_layout: str, out_dtype: str | None) -> tuple[str, str | None]:
    """Return the kernel layout and the output dtype that the arguments of ``depthwise_conv2d_nhwc`` mean."""
    if out_dtype is None and kernel_layout.islower():
        return "HWOI", canonical(kernel_layout)
    if kernel_layout not in ("HWOI", "HWIO"):
        raise TVMError(f"depthwise_conv2d_nhwc: the kernel layout must be HWOI or HWIO, got '{kernel_layout}'")
    return kernel_layout, out_dtype


def filter_at(filt, known: Depthwise, kernel_layout: str, c, y, x):
    """Return the weight for output channel ``c`` of a depthwise convolution."""
    channel, which = (c, 0) if known.one else (c // known.multiplier, c % known.multiplier)
    at = {"O": channel, "I": which, "H": y, "W": x}
    return filt(*[at[letter] for letter in kernel_layout])
