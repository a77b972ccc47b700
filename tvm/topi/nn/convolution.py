"""Convolutions over any number of spatial dimensions, in any layout of named dimensions."""

from __future__ import annotations

from ... import te
from ...dtype import info
from ...error import TVMError
from ..gpu import depthwise, gemm
from ..gpu.tuned import conv_workload, depthwise_workload
from ..utils import get_const_int, simplify
from .pad import pad
from .utils import pads, spatial

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def conv(inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout="", out_dtype=None, name="conv"):
    """Cross-correlation. ``data_layout`` such as NCHW or NHWC (the output has the same), ``kernel_layout`` such as OIHW
    or HWIO; with groups, I is the number of input channels of one group."""
    n = len(inp.shape) - 2
    names = SPATIAL.get(n)
    if names is None:
        raise TVMError(f"{name}: 1 to 3 spatial dimensions are wanted, the data has {len(inp.shape)} dimensions")
    kernel_layout = kernel_layout or ("OI" + names if data_layout.startswith("NC") else names + "IO")
    _check_layout(data_layout, "NC" + names, name)
    _check_layout(kernel_layout, "OI" + names, name)
    out_dtype = out_dtype or inp.dtype
    strides, dilations = spatial(stride, n, name + ": strides"), spatial(dilation, n, name + ": dilation")
    data = {c: inp.shape[data_layout.index(c)] for c in data_layout}
    weight = {c: filt.shape[kernel_layout.index(c)] for c in kernel_layout}
    groups = get_const_int(groups)
    channels, filters = data["C"], weight["O"]
    _check_groups(channels, filters, weight["I"], groups, name)
    sizes = [get_const_int((weight[c] - 1) * d + 1) for c, d in zip(names, dilations)]
    before, after = pads(padding, sizes, n, name)
    source = inp
    if any(before) or any(after):
        b = [before[names.index(c)] if c in names else 0 for c in data_layout]
        a = [after[names.index(c)] if c in names else 0 for c in data_layout]
        source = pad(inp, b, a, name="pad_temp")
    out = {"N": data["N"], "C": filters}
    for c, k, s, lo, hi in zip(names, sizes, strides, before, after):
        out[c] = simplify((data[c] + lo + hi - k) // s + 1)
        if isinstance(getattr(out[c], "value", None), int) and out[c].value < 1:
            raise TVMError(f"{name}: the kernel ({k} with dilation) is larger than the padded data along {c}")
    several = groups == 1 or getattr(weight["I"], "value", 0) > 1
    if several and gemm.wanted((source, filt), None, te.const(groups, "int32")):
        window_sizes = [get_const_int(weight[c]) for c in names]
        known = {c: get_const_int(v) for c, v in out.items()}
        task = f"group_{name}" if groups > 1 and name in ("conv1d", "conv2d") else name
        workload = conv_workload(task, inp, filt, (data_layout, kernel_layout), strides, (*before, *after), dilations,
                                 groups, out_dtype)
        return gemm.conv(source, filt, get_const_int(weight["I"]), window_sizes, strides, dilations, data_layout,
                         kernel_layout, known, out_dtype, name, workload, groups)
    if groups > 1 and data_layout in ("NCHW", "NHWC") and getattr(weight["I"], "value", 0) == 1:

        def one_filter(c, y, x):
            at = {"O": c, "I": 0, "H": y, "W": x}
            return filt(*[at[letter] for letter in kernel_layout])

        if gemm.wanted((inp, filt)):
            return _depthwise_on_gpu(inp, one_filter, [weight[c] for c in names], out, (before, after), strides,
                                     dilations, data_layout, out_dtype, name)
    rc = te.reduce_axis((0, weight["I"]), name="rc")
    window = [te.reduce_axis((0, weight[c]), name="r" + c.lower()) for c in names]
    per_group = filters // groups

    def body(*at):
        i = dict(zip(data_layout, at))
        channel = rc if groups == 1 else (i["C"] // per_group) * weight["I"] + rc
        where = {"N": i["N"], "C": channel}
        for c, w, s, d in zip(names, window, strides, dilations):
            where[c] = i[c] * s + w * d
        kernel = {"O": i["C"], "I": rc, **dict(zip(names, window))}
        x = source(*[where[c] for c in data_layout]).astype(out_dtype)
        return te.sum(x * filt(*[kernel[c] for c in kernel_layout]).astype(out_dtype), axis=[rc, *window])

    return te.compute([out[c] for c in data_layout], body, name=name, tag=f"{name}_{data_layout.lower()}")


def _depthwise_on_gpu(data, weight, window, out: dict, around, strides, dilations, layout: str, dtype: str, name: str):
    """The template of GPUs; ``weight(channel, y, x)`` reads the filter of a channel of the result, ``around`` is the
    padding before and after."""
    images, channels, rows, columns = (get_const_int(out[c]) for c in "NCHW")
    multiplier = channels // get_const_int(data.shape[layout.index("C")])
    sizes = depthwise.Sizes(images, channels, rows, columns, tuple(map(get_const_int, window)), tuple(strides),
                            multiplier, layout == "NHWC", info(data.dtype).bytes, tuple(dilations))
    workload = depthwise_workload(data, layout, sizes.window, multiplier, strides, (*around[0], *around[1]), dilations,
                                  dtype)
    return depthwise.conv(data, weight, sizes, around[0], dilations, layout, dtype, name, workload)


def _check_layout(layout: str, wanted: str, name: str) -> None:
    if sorted(layout) != sorted(wanted):
        raise TVMError(f"{name}: layout '{layout}' should hold the dimensions {wanted}, each once")


def _check_groups(channels, filters, per_group, groups: int, name: str) -> None:
    known = [getattr(x, "value", None) for x in (channels, filters, per_group)]
    if known[0] is not None and known[2] is not None and known[0] != known[2] * groups:
        raise TVMError(
            f"{name}: the data has {known[0]} channels, but the kernel takes {known[2]} for each of {groups} groups"
        )
    if known[1] is not None and known[1] % groups:
        raise TVMError(f"{name}: {known[1]} filters cannot be divided into {groups} groups")


def conv2d(input, filter, strides, padding, dilation, data_layout="NCHW", kernel_layout="", out_dtype=None):
    return conv(input, filter, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype, "conv2d")


def conv2d_nchw(Input, Filter, stride, padding, dilation, out_dtype=None):
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype, "conv2d")


def conv2d_nhwc(Input, Filter, stride, padding, dilation, out_dtype="float32", auto_scheduler_rewritten_layout="",
                meta_schedule_original_shape=None, auto_scheduler_should_rewrite_layout=False):
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype, "conv2d")


def conv2d_hwcn(Input, Filter, stride, padding, dilation, out_dtype=None):
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype, "conv2d")


def group_conv2d_nchw(Input, Filter, stride, padding, dilation, groups, out_dtype=None):
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype, "group_conv2d")


def group_conv2d_nhwc(Input, Filter, stride, padding, dilation, groups, out_dtype=None):
    return conv(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype, "group_conv2d")


def conv1d(data, kernel, strides=1, padding="VALID", dilation=1, groups=1, data_layout="NCW", kernel_layout="",
           out_dtype=None):
    return conv(data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype, "conv1d")


def conv1d_ncw(data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None):
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype, "conv1d")


def conv1d_nwc(data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None):
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype, "conv1d")


def conv3d_ncdhw(Input, Filter, stride, padding, dilation, groups=1, out_dtype=None):
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype, "conv3d")


def conv3d_ndhwc(Input, Filter, stride, padding, dilation, groups=1, out_dtype="float32",
                 auto_scheduler_rewritten_layout="", meta_schedule_origin_shape=None):
    return conv(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype, "conv3d")


def depthwise_conv2d_nchw(Input, Filter, stride, padding, dilation, out_dtype=None):
    """One set of filters for each channel; the kernel is (channels, multiplier, height, width)."""
    out_dtype = out_dtype or Input.dtype
    channels, multiplier = Filter.shape[0], Filter.shape[1]
    strides, dilations = (
        spatial(stride, 2, "depthwise_conv2d: strides"),
        spatial(dilation, 2, "depthwise_conv2d: dilation"),
    )
    height, width = Filter.shape[2], Filter.shape[3]
    sizes = [get_const_int((k - 1) * d + 1) for k, d in zip((height, width), dilations)]
    before, after = pads(padding, sizes, 2, "depthwise_conv2d")
    source = pad(Input, (0, 0, *before), (0, 0, *after), name="PaddedInput") if any(before + after) else Input
    oh, ow = [simplify((d + lo + hi - k) // s + 1)
              for d, lo, hi, k, s in zip(Input.shape[2:], before, after, sizes, strides)]
    one = getattr(multiplier, "value", 0) == 1
    if gemm.wanted((Input, Filter)):
        out = {"N": Input.shape[0], "C": channels * multiplier, "H": oh, "W": ow}
        return _depthwise_on_gpu(
            Input, lambda c, y, x: Filter(c, 0, y, x) if one else Filter(c // multiplier, c % multiplier, y, x),
            (height, width), out, (before, after), strides, dilations, "NCHW", out_dtype, "DepthwiseConv2d",
        )  # fmt: skip
    di, dj = te.reduce_axis((0, height), name="di"), te.reduce_axis((0, width), name="dj")

    def body(b, c, i, j):
        channel = c if one else c // multiplier
        x = source[b, channel, i * strides[0] + di * dilations[0], j * strides[1] + dj * dilations[1]].astype(out_dtype)
        return te.sum(x * Filter[channel, 0 if one else c % multiplier, di, dj].astype(out_dtype), axis=[di, dj])

    return te.compute((Input.shape[0], channels * multiplier, oh, ow), body, name="DepthwiseConv2d",
                      tag="depthwise_conv2d_nchw")


def depthwise_conv2d_nhwc(Input, Filter, stride, padding, dilation, kernel_layout="HWOI", out_dtype=None):
    """The same with channels last; the kernel is HWOI (O input channels, I multiplier)."""
    if kernel_layout not in ("HWOI", "HWIO"):
        raise TVMError(f"depthwise_conv2d_nhwc: the kernel layout is HWOI or HWIO, got '{kernel_layout}'")
    out_dtype = out_dtype or Input.dtype
    swap = kernel_layout == "HWIO"
    height, width = Filter.shape[0], Filter.shape[1]
    channels, multiplier = (Filter.shape[3], Filter.shape[2]) if swap else (Filter.shape[2], Filter.shape[3])
    strides, dilations = (
        spatial(stride, 2, "depthwise_conv2d: strides"),
        spatial(dilation, 2, "depthwise_conv2d: dilation"),
    )
    sizes = [get_const_int((k - 1) * d + 1) for k, d in zip((height, width), dilations)]
    before, after = pads(padding, sizes, 2, "depthwise_conv2d")
    source = pad(Input, (0, *before, 0), (0, *after, 0), name="PaddedInput") if any(before + after) else Input
    oh, ow = [simplify((d + lo + hi - k) // s + 1)
              for d, lo, hi, k, s in zip(Input.shape[1:3], before, after, sizes, strides)]
    one = getattr(multiplier, "value", 0) == 1

    def filter_at(c, y, x):
        channel, which = (c, 0) if one else (c // multiplier, c % multiplier)
        return Filter[y, x, which, channel] if swap else Filter[y, x, channel, which]

    if gemm.wanted((Input, Filter)):
        out = {"N": Input.shape[0], "C": channels * multiplier, "H": oh, "W": ow}
        return _depthwise_on_gpu(Input, filter_at, (height, width), out, (before, after), strides, dilations, "NHWC",
                                 out_dtype, "DepthwiseConv2d")
    di, dj = te.reduce_axis((0, height), name="di"), te.reduce_axis((0, width), name="dj")

    def body(b, i, j, c):
        channel = c if one else c // multiplier
        x = source[b, i * strides[0] + di * dilations[0], j * strides[1] + dj * dilations[1], channel].astype(out_dtype)
        return te.sum(x * filter_at(c, di, dj).astype(out_dtype), axis=[di, dj])

    return te.compute((Input.shape[0], oh, ow, channels * multiplier), body, name="DepthwiseConv2d",
                      tag="depthwise_conv2d_nhwc")
