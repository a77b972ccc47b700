"""Converters of convolutions, in the data format of the layer."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .table import Context, layer, spatial_layout

_CONVS = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
_TRANSPOSED = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}


def spatial_sizes(ctx: Context, x: RelayExpr, first: bool) -> tuple[int, ...]:
    """Return the spatial dimensions of data."""
    rank = ctx.rank(x)
    axes = range(2, rank) if first else range(1, rank - 1)
    return tuple(ctx.known_size(x, i) for i in axes)


def window_padding(padding: str, sizes, window, strides, dilations) -> tuple[int, ...]:
    """Return the padding along all spatial axes: begin of each axis, then end of each axis."""
    if padding == "valid":
        return (0,) * (2 * len(window))
    if padding == "causal" and len(window) == 1:
        return ((window[0] - 1) * dilations[0], 0)
    if padding != "same":
        raise TVMError(f"padding '{padding}' is not supported")
    before, after = [], []
    for size, k, s, d in zip(sizes, window, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


def convolved(
    ctx: Context, x: RelayExpr, kernel: np.ndarray, groups: int, strides, dilations, padding: str
) -> RelayExpr:
    """Convolve data with a kernel whose last two axes are the input channels of a group and the filters."""
    count, first = kernel.ndim - 2, ctx.channels_first()
    if ctx.rank(x) != count + 2:
        raise TVMError(f"the data must have {count + 2} dimensions, got {ctx.rank(x)}")
    window = kernel.shape[:-2]
    channels = ctx.known_size(x, 1 if first else count + 1)
    if groups * kernel.shape[-2] != channels or kernel.shape[-1] % groups:
        raise TVMError(f"a kernel of shape {kernel.shape} does not match {channels} channels in {groups} groups")
    names = "DHW"[3 - count :]
    pads = window_padding(padding, spatial_sizes(ctx, x, first), window, strides, dilations)
    order = (count + 1, count, *range(count))
    weight = np.ascontiguousarray(kernel.transpose(order) if first else kernel)
    return _CONVS[count](
        x, Constant(weight), strides=strides, padding=pads, dilation=dilations, groups=groups,
        channels=kernel.shape[-1], kernel_size=window, data_layout=spatial_layout(count, first),
        kernel_layout=f"OI{names}" if first else f"{names}IO",
    )  # fmt: skip


def _finished(ctx: Context, x: RelayExpr) -> RelayExpr:
    return ctx.activated(ctx.biased(x, 1 if ctx.channels_first() else -1))


def _kernel(ctx: Context, name: str, count: int) -> np.ndarray:
    found = ctx.array(name)
    if found.ndim != count + 2 or 0 in found.shape:
        raise TVMError(
            f"the weight '{name}' has the shape {found.shape}, which must have {count + 2} non-empty dimensions"
        )
    return found


def _convolution(count: int):
    def convert(ctx, x):
        strides, dilations = ctx.numbers_of("strides", count), ctx.numbers_of("dilation_rate", count)
        kernel = _kernel(ctx, "kernel", count)
        out = convolved(ctx, x, kernel, ctx.get("groups", 1), strides, dilations, ctx.get("padding", "valid"))
        return _finished(ctx, out)

    return convert


def depthwise(ctx: Context, x: RelayExpr, kernel: np.ndarray, strides, dilations, padding: str) -> RelayExpr:
    """Convolve each channel with separate filters. Data with one spatial axis is treated as an image with one row."""
    count, first = kernel.ndim - 2, ctx.channels_first()
    pads = window_padding(padding, spatial_sizes(ctx, x, first), kernel.shape[:-2], strides, dilations)
    row_axis = 2 if first else 1
    if count == 1:
        x = relay.expand_dims(x, row_axis)
        kernel, strides, dilations = kernel[None], (1, *strides), (1, *dilations)
        pads = (0, pads[0], 0, pads[1])
    height, width, channels, multiplier = kernel.shape
    if first:
        kernel = kernel.transpose(2, 3, 0, 1).reshape(channels * multiplier, 1, height, width)
    # With one channel this is a plain convolution, where the multiplier axis is the output axis.
    layout = "OIHW" if first else "HWOI" if channels > 1 else "HWIO"
    out = relay.nn.conv2d(
        x, Constant(np.ascontiguousarray(kernel)), strides=strides, padding=pads, dilation=dilations, groups=channels,
        channels=channels * multiplier, kernel_size=(height, width), data_layout=spatial_layout(2, first),
        kernel_layout=layout,
    )  # fmt: skip
    return relay.squeeze(out, [row_axis]) if count == 1 else out


def _depthwise(count: int):
    def convert(ctx, x):
        strides, dilations = ctx.numbers_of("strides", count), ctx.numbers_of("dilation_rate", count)
        kernel = _kernel(ctx, "kernel", count)
        return _finished(ctx, depthwise(ctx, x, kernel, strides, dilations, ctx.get("padding", "valid")))

    return convert


def _separable(count: int):
    def convert(ctx, x):
        strides, dilations = ctx.numbers_of("strides", count), ctx.numbers_of("dilation_rate", count)
        inner = depthwise(
            ctx, x, _kernel(ctx, "depthwise_kernel", count), strides, dilations, ctx.get("padding", "valid")
        )
        ones = (1,) * count
        out = convolved(ctx, ctx.infer(inner), _kernel(ctx, "pointwise_kernel", count), 1, ones, ones, "valid")
        return _finished(ctx, out)

    return convert


# -- transposed -------------------------------------------------------------------------------------------------------


def _dilated(kernel: np.ndarray, dilations) -> np.ndarray:
    """Return a kernel with zeros inserted between its elements."""
    count = len(dilations)
    shape = [(k - 1) * d + 1 for k, d in zip(kernel.shape, dilations)]
    out = np.zeros((*shape, *kernel.shape[count:]), kernel.dtype)
    out[tuple(slice(None, None, d) for d in dilations)] = kernel
    return out


def _result_size(size: int, k: int, s: int, same: bool, extra: int | None) -> int:
    """Return the output size by Keras' rules; ``k`` is the size of the dilated window."""
    if same:
        return size * s if extra is None else (size - 1) * s + k % 2 + extra
    return (size - 1) * s + k + (max(k, s) - k if extra is None else extra)


def _transposed(count: int):
    def convert(ctx, x):
        first, same = ctx.channels_first(), ctx.get("padding", "valid") == "same"
        window_padding(ctx.get("padding", "valid"), (1,) * count, (1,) * count, (1,) * count, (1,) * count)
        strides = ctx.numbers_of("strides", count)
        kernel = _dilated(_kernel(ctx, "kernel", count), ctx.numbers_of("dilation_rate", count))
        extra = ctx.get("output_padding")
        extra = (extra,) * count if extra is None or isinstance(extra, int) else tuple(extra)
        befores, afters, missing = [], [], []
        for size, k, s, e in zip(spatial_sizes(ctx, x, first), kernel.shape, strides, extra):
            out = _result_size(size, k, s, same, e)
            # The padding of the convolution whose gradient the transposed convolution is.
            total = max((-(-out // s) - 1) * s + k - out, 0) if same else 0
            befores.append(total // 2)
            end = (size - 1) * s + k - total // 2 - out
            afters.append(max(end, 0))
            missing.append(max(-end, 0))
        data = x if first else relay.transpose(x, (0, count + 1, *range(1, count + 1)))
        weight = Constant(np.ascontiguousarray(kernel.transpose(count + 1, count, *range(count))))
        made = _TRANSPOSED[count](
            data, weight, strides=strides, padding=(*befores, *afters), channels=kernel.shape[count],
            kernel_size=kernel.shape[:count],
        )  # fmt: skip
        if any(missing):
            made = relay.nn.pad(made, ((0, 0), (0, 0), *((0, m) for m in missing)))
        made = made if first else relay.transpose(made, (0, *range(2, count + 2), 1))
        return _finished(ctx, made)

    return convert


for _count in (1, 2, 3):
    layer(f"Conv{_count}D")(_convolution(_count))
    layer(f"Conv{_count}DTranspose")(_transposed(_count))
for _count in (1, 2):
    layer(f"DepthwiseConv{_count}D")(_depthwise(_count))
    layer(f"SeparableConv{_count}D")(_separable(_count))


__all__ = ["convolved", "spatial_sizes", "window_padding"]
