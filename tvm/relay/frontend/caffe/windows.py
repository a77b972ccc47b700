"""Converters of layers with sliding windows: convolution, pooling and local response normalization."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, layer

_POOLS = {"0": "MAX", "1": "AVE", "2": "STOCHASTIC", "MAX_": "MAX", "AVE_": "AVE", "STOCHASTIC_": "STOCHASTIC"}


def _window(ctx: Context, name: str, rank: int, default: int | None) -> tuple[int, ...]:
    """Return a window parameter for each spatial axis.

    The file gives one value for all axes, one for each axis, or ``_h`` and ``_w``.
    """
    stem = "kernel" if name == "kernel_size" else name
    pair = [ctx.p.int(f"{stem}_{axis}", -1) for axis in "hw"] if name != "dilation" else [-1, -1]
    values = ctx.p.ints(name)
    if max(pair) >= 0:
        if rank != 2 or values:
            raise TVMError(f"{stem}_h and {stem}_w need an image with 2 spatial axes and exclude {name}")
        values = [v if v >= 0 else default for v in pair]
    values = values or [default]
    values = values * rank if len(values) == 1 else values
    least = 0 if name == "pad" else 1
    if len(values) != rank or any(v is None or not least <= v < 1 << 24 for v in values):
        raise TVMError(f"{name} {values} is not supported for an image with {rank} spatial axes")
    return tuple(values)


def _image(ctx: Context, x: RelayExpr, ranks: tuple[int, ...] = (2,)) -> tuple[int, ...]:
    shape = ctx.known_shape(x)
    if len(shape) - 2 not in ranks:
        raise TVMError(f"expected an image with batch and channel axes, got an input of shape {shape}")
    return shape


def _check_axis(ctx: Context, rank: int) -> None:
    if ctx.p.int("axis", 1) not in (1, 1 - rank):
        raise TVMError("axis: only the second axis is supported as the channel axis")


def _with_bias(ctx: Context, out: RelayExpr, outputs: int) -> RelayExpr:
    if not ctx.p.bool("bias_term", True):
        return out
    return relay.nn.bias_add(out, ctx.constant(ctx.blob(1, "biases", outputs)))


@layer("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", param="convolution_param")
def convolution(ctx, inputs):
    x = ctx.one(inputs)
    shape = _image(ctx, x, (1, 2, 3))
    rank, channels = len(shape) - 2, shape[1]
    _check_axis(ctx, rank + 2)
    outputs, groups = ctx.p.int("num_output", 0), ctx.p.int("group", 1)
    groups = channels if ctx.layer.type != "Convolution" else groups
    if groups < 1 or outputs < 1 or channels % groups or outputs % groups:
        raise TVMError(f"{channels} channels and {outputs} outputs are not divisible into {groups} groups")
    kernel, stride = _window(ctx, "kernel_size", rank, None), _window(ctx, "stride", rank, 1)
    pad, dilation = _window(ctx, "pad", rank, 0), _window(ctx, "dilation", rank, 1)
    weight = ctx.constant(ctx.blob(0, "weights", outputs, channels // groups, *kernel))
    build = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[rank]
    out = build(
        x,
        weight,
        strides=stride,
        padding=(*pad, *pad),
        dilation=dilation,
        groups=groups,
        channels=outputs,
        kernel_size=kernel,
    )
    return _with_bias(ctx, out, outputs)


@layer("Deconvolution", param="convolution_param")
def deconvolution(ctx, inputs):
    x = ctx.one(inputs)
    channels = _image(ctx, x)[1]
    _check_axis(ctx, 4)
    outputs, groups = ctx.p.int("num_output", 0), ctx.p.int("group", 1)
    if groups < 1 or outputs < 1 or channels % groups or outputs % groups:
        raise TVMError(f"{channels} channels and {outputs} outputs are not divisible into {groups} groups")
    kernel, stride = _window(ctx, "kernel_size", 2, None), _window(ctx, "stride", 2, 1)
    pad, dilation = _window(ctx, "pad", 2, 0), _window(ctx, "dilation", 2, 1)
    values = ctx.blob(0, "weights", channels, outputs // groups, *kernel)
    if dilation != (1, 1):
        # Write a dilated kernel as a larger dense kernel with zeros.
        reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation))
        wide = np.zeros((channels, outputs // groups, *reach), "float32")
        wide[:, :, :: dilation[0], :: dilation[1]] = values
        values, kernel = wide, reach
    # conv2d_transpose accepts padding below the kernel size. The remaining padding crops the output.
    own = tuple(min(p, k - 1) for p, k in zip(pad, kernel))
    out = relay.nn.conv2d_transpose(
        x,
        ctx.constant(values),
        strides=stride,
        padding=(*own, *own),
        groups=groups,
        channels=outputs,
        kernel_size=kernel,
    )
    cut = [p - o for p, o in zip(pad, own)]
    if any(cut):
        sizes = ctx.known_shape(ctx.made(out))[2:]
        ends = [s - c for s, c in zip(sizes, cut)]
        if any(e <= c for e, c in zip(ends, cut)):
            raise TVMError(f"padding {pad} is larger than the output")
        out = relay.strided_slice(out, cut, ends, [1, 1], [2, 3])
    return _with_bias(ctx, out, outputs)


# -- pooling ----------------------------------------------------------------------------------------------------------


def pooled(ctx: Context, x: RelayExpr, method: str, kernel, stride, pad, up: bool = True) -> RelayExpr:
    """Pool with Caffe's output size.

    A window may extend beyond the padding at the end; averages then exclude the elements outside the padding.
    """
    sizes = _image(ctx, x)[2:]
    after, shares = [], []
    for size, k, s, p in zip(sizes, kernel, stride, pad):
        if p >= k or size + 2 * p < k:
            raise TVMError(f"windows of {kernel} with padding {pad} do not fit an image of {sizes}")
        count = (-(-(size + 2 * p - k) // s) if up else (size + 2 * p - k) // s) + 1
        if p and (count - 1) * s >= size + p:
            count -= 1
        starts = np.arange(count) * s
        after.append(max(int(starts[-1]) + k - size - p, 0))
        shares.append(np.minimum(starts + k, size + 2 * p) - starts)
    padding = (*pad, *after)
    if method == "MAX":
        return relay.nn.max_pool2d(x, kernel, stride, padding=padding)
    out = relay.nn.avg_pool2d(x, kernel, stride, padding=padding, count_include_pad=True)
    counts = shares[0][:, None] * shares[1][None, :]
    whole = kernel[0] * kernel[1]
    return out if (counts == whole).all() else relay.multiply(out, ctx.constant(whole / counts))


@layer("Pooling", param="pooling_param")
def pooling(ctx, inputs):
    x = ctx.one(inputs)
    sizes = _image(ctx, x)[2:]
    method = ctx.p.choice("pool", _POOLS, "MAX")
    if method == "STOCHASTIC":
        raise TVMError("pool STOCHASTIC is not supported")
    up = ctx.p.bool("ceil_mode", True) and ctx.p.choice("round_mode", {"0": "CEIL", "1": "FLOOR"}, "CEIL") == "CEIL"
    stride, pad = _window(ctx, "stride", 2, 1), _window(ctx, "pad", 2, 0)
    if ctx.p.bool("global_pooling", False):
        if pad != (0, 0) or ctx.p.has("kernel_size") or ctx.p.has("kernel_h"):
            raise TVMError("global_pooling excludes kernel_size and pad")
        return (relay.nn.global_max_pool2d if method == "MAX" else relay.nn.global_avg_pool2d)(x)
    kernel = _window(ctx, "kernel_size", 2, None)
    if max(kernel) > max(sizes) + 2 * max(pad):
        raise TVMError(f"windows of {kernel} do not fit an image of {sizes}")
    return pooled(ctx, x, method, kernel, stride, pad, up)


@layer("SPP", param="spp_param")
def spp(ctx, inputs):
    """Spatial pyramid pooling: pool the image into 1, 4, 16, ... bins and concatenate the outputs."""
    x = ctx.one(inputs)
    batch, _, height, width = _image(ctx, x)
    method = ctx.p.choice("pool", _POOLS, "MAX")
    levels = ctx.p.int("pyramid_height", 0)
    if not 1 <= levels <= 8 or method == "STOCHASTIC":
        raise TVMError(f"pyramid_height {levels} with pool {method} is not supported")
    parts = []
    for level in range(levels):
        bins = 2**level
        kernel = tuple(-(-size // bins) for size in (height, width))
        pad = tuple((k * bins - size + 1) // 2 for k, size in zip(kernel, (height, width)))
        part = pooled(ctx, x, method, kernel, kernel, pad)
        parts.append(relay.reshape(part, (batch, -1)))
    return relay.concatenate(parts, 1) if len(parts) > 1 else parts[0]


@layer("LRN", param="lrn_param")
def lrn(ctx, inputs):
    x = ctx.one(inputs)
    _image(ctx, x)
    size, k = ctx.p.int("local_size", 5), ctx.p.float("k", 1.0)
    alpha, beta = ctx.p.float("alpha", 1.0), ctx.p.float("beta", 0.75)
    region = ctx.p.choice("norm_region", {"0": "ACROSS_CHANNELS", "1": "WITHIN_CHANNEL"}, "ACROSS_CHANNELS")
    if size < 1 or size % 2 == 0 or size > 1 << 16:
        raise TVMError(f"local_size {size} is not supported; it must be odd and positive")
    if region == "ACROSS_CHANNELS":
        return relay.nn.lrn(x, size, 1, k, alpha, beta)
    pad = ((size - 1) // 2,) * 2
    mean = pooled(ctx, ctx.made(relay.multiply(x, x)), "AVE", (size, size), (1, 1), pad)
    power = relay.add(relay.multiply(mean, ctx.like(alpha, x)), ctx.like(1, x))
    return relay.multiply(x, relay.power(power, ctx.like(-beta, x)))


__all__ = ["pooled"]
