"""Converters of convolutions and pooling. Data keeps the layout of the model."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common import run_time
from .table import Context, op


class Window:
    """A window over the spatial axes: its attributes, and its padding, which is applied at run time for
    dynamic shapes.
    """

    def __init__(self, ctx: Context, attrs, rank: int):
        self.ctx, self.rank = ctx, rank
        plain = "NDHWC" if rank == 3 else "NHWC"
        self.layout = attrs.get("data_format", plain)
        if self.layout not in (plain, "NCDHW" if rank == 3 else "NCHW"):
            raise TVMError(f"data_format {self.layout} is not supported")
        self.last = self.layout == plain
        self.first = 1 if self.last else 2
        self.channel = rank + 1 if self.last else 1
        self.padding = attrs.get("padding", "VALID")
        self.explicit = attrs.get("explicit_paddings") or []
        self.strides = self.of(attrs.get("strides") or [1] * (rank + 2), "strides")
        self.dilations = self.of(attrs.get("dilations") or [1] * (rank + 2), "dilations")

    def of(self, values: list, what: str) -> tuple[int, ...]:
        """Return the values for the spatial axes; the others must be 1."""
        if len(values) == 1:
            values = [1, *[values[0]] * self.rank, 1] if self.last else [1, 1, *[values[0]] * self.rank]
        spatial = tuple(int(v) for v in values[self.first : self.first + self.rank])
        others = [*values[: self.first], *values[self.first + self.rank :]]
        if len(values) != self.rank + 2 or any(v != 1 for v in others) or any(v < 1 for v in spatial):
            raise TVMError(f"{what} {list(values)} are not supported")
        return spatial

    def padded(self, x: RelayExpr, kernel: tuple[int, ...], fill: float | None = 0.0) -> tuple[RelayExpr, tuple]:
        """Return the data and the padding (begins, then ends) of the operator; with ``fill`` None, no run-time padding
        is possible.
        """
        if self.padding == "VALID":
            return x, (0,) * (2 * self.rank)
        if self.padding == "EXPLICIT":
            pairs = self.explicit[2 * self.first : 2 * (self.first + self.rank)]
            if len(pairs) != 2 * self.rank or any(p < 0 for p in pairs):
                raise TVMError(f"explicit_paddings {self.explicit} are not supported")
            return x, (*pairs[0::2], *pairs[1::2])
        if self.padding != "SAME":
            raise TVMError(f"unknown padding '{self.padding}'")
        sizes = self.ctx.shape(x)[self.first : self.first + self.rank]
        if any(not isinstance(d, int) and s > 1 for d, s in zip(sizes, self.strides)):
            return self._dynamic_padding(x, kernel, fill)
        totals = [
            (k - 1) * d if not isinstance(size, int) else max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            for size, k, s, d in zip(sizes, kernel, self.strides, self.dilations)
        ]
        return x, (*(t // 2 for t in totals), *(t - t // 2 for t in totals))

    def _dynamic_padding(self, x: RelayExpr, kernel: tuple[int, ...], fill: float | None) -> tuple[RelayExpr, tuple]:
        """Apply padding that depends on dynamic dimensions at run time."""
        ctx = self.ctx
        if fill is None:
            raise TVMError(
                "average pooling with SAME padding requires static shapes; pass the input shapes to from_tensorflow"
            )
        before, after = [run_time.number(0)] * (self.rank + 2), [run_time.number(0)] * (self.rank + 2)
        for i, (k, s, d) in enumerate(zip(kernel, self.strides, self.dilations)):
            axis, (one, two) = self.first + i, map(run_time.number, (1, 2))
            size = run_time.size_of(ctx, x, axis)
            steps = relay.floor_divide(relay.add(size, run_time.number(s - 1)), run_time.number(s))
            reach = relay.add(
                relay.multiply(relay.subtract(steps, one), run_time.number(s)), run_time.number((k - 1) * d + 1)
            )
            total = ctx.made(relay.maximum(relay.subtract(reach, size), run_time.number(0)))
            before[axis] = ctx.made(relay.floor_divide(total, two))
            after[axis] = ctx.made(relay.subtract(total, before[axis]))
        amounts = run_time.joined(ctx, [*before, *after])
        out = run_time.padded(ctx, x, amounts, None, ctx.like(fill, x), "constant")
        return ctx.made(out), (0,) * (2 * self.rank)


def weight_of(ctx: Context, e: RelayExpr, axes: tuple[int, ...]) -> RelayExpr:
    """Return transposed weights; a constant stays a constant."""
    found = e.data.numpy() if isinstance(e, Constant) else None
    return relay.transpose(e, axes) if found is None else Constant(np.ascontiguousarray(found.transpose(axes)))


def _kernel(ctx: Context, e: RelayExpr, rank: int) -> tuple[int, ...]:
    shape = ctx.known_shape(e)
    if len(shape) != rank + 2:
        raise TVMError(f"weights must have {rank + 2} dimensions, got {len(shape)}")
    return shape


def _conv(rank: int):
    build = relay.nn.conv2d if rank == 2 else relay.nn.conv3d
    letters = "HW" if rank == 2 else "DHW"

    def convert(ctx, inputs, attrs):
        window = Window(ctx, attrs, rank)
        *kernel, depth, outputs = _kernel(ctx, inputs[1], rank)
        channels = ctx.known_size(inputs[0], window.channel)
        if not depth or channels % depth or outputs % max(channels // depth, 1):
            raise TVMError(
                f"the data has {channels} channels, which do not match weights with {depth} input channels per group"
            )
        data, padding = window.padded(inputs[0], tuple(kernel))
        weight, layout = inputs[1], f"{letters}IO"
        if not window.last:
            weight, layout = weight_of(ctx, weight, (rank + 1, rank, *range(rank))), f"OI{letters}"
        return build(
            data,
            weight,
            strides=window.strides,
            padding=padding,
            dilation=window.dilations,
            groups=channels // depth,
            channels=outputs,
            kernel_size=tuple(kernel),
            data_layout=window.layout,
            kernel_layout=layout,
        )

    return convert


op("Conv2D")(_conv(2))
op("Conv3D")(_conv(3))


@op("DepthwiseConv2dNative")
def depthwise(ctx, inputs, attrs):
    window = Window(ctx, attrs, 2)
    height, width, channels, factor = _kernel(ctx, inputs[1], 2)
    if ctx.known_size(inputs[0], window.channel) != channels:
        raise TVMError(f"the number of channels of the data must equal that of the weights, {channels}")
    data, padding = window.padded(inputs[0], (height, width))
    weight, layout = inputs[1], "HWOI" if channels > 1 else "HWIO"
    if not window.last:
        outputs = channels * factor
        weight = relay.reshape(weight_of(ctx, weight, (2, 3, 0, 1)), (outputs, 1, height, width))
        layout = "OIHW"
    return relay.nn.conv2d(
        data,
        weight,
        strides=window.strides,
        padding=padding,
        dilation=window.dilations,
        groups=channels,
        channels=channels * factor,
        kernel_size=(height, width),
        data_layout=window.layout,
        kernel_layout=layout,
    )


def _transposed(rank: int):
    build = relay.nn.conv2d_transpose if rank == 2 else relay.nn.conv3d_transpose

    def convert(ctx, inputs, attrs):
        """Convert a transposed convolution. Its inputs are the output shape, the weights and the data."""
        window = Window(ctx, attrs, rank)
        *kernel, outputs, _ = _kernel(ctx, inputs[1], rank)
        if any(d != 1 for d in window.dilations):
            raise TVMError(f"dilations {window.dilations} are not supported")
        wanted = ctx.numbers(inputs[0])
        wanted = wanted if len(wanted) == rank else wanted[window.first : window.first + rank]
        data = inputs[2]
        if window.last:
            data = relay.transpose(data, (0, rank + 1, *range(1, rank + 1)))
        sizes = ctx.shape(ctx.made(data))[2:]
        if any(not isinstance(v, int) for v in (*sizes, *wanted)):
            raise TVMError("the output shape must be static; pass the input shapes to from_tensorflow")
        befores, afters, extra = _transposed_padding(window, sizes, wanted, kernel)
        fits = all(e < s for e, s in zip(extra, window.strides))
        weight = weight_of(ctx, inputs[1], (rank + 1, rank, *range(rank)))
        out = build(
            data,
            weight,
            strides=window.strides,
            padding=(*befores, *afters),
            channels=outputs,
            kernel_size=tuple(kernel),
            output_padding=tuple(extra) if fits else (0,) * rank,
        )
        if not fits:
            out = relay.nn.pad(out, ((0, 0), (0, 0), *((0, e) for e in extra)))
        return relay.transpose(out, (0, *range(2, rank + 2), 1)) if window.last else out

    return convert


def _transposed_padding(window: Window, sizes, wanted, kernel) -> tuple[list[int], list[int], list[int]]:
    """Return the cropping at both ends, and the number of zeros after the positions that the last window reaches."""
    befores, afters, extra = [], [], []
    first = 2 * window.first
    for i, (size, out, k, s) in enumerate(zip(sizes, wanted, kernel, window.strides)):
        if window.padding == "SAME":
            total = max((size - 1) * s + k - out, 0)
            before = total // 2
        elif window.padding == "EXPLICIT":
            before = window.explicit[first + 2 * i]
            total = before + window.explicit[first + 2 * i + 1]
        else:
            total = before = 0
        befores.append(before)
        afters.append(total - before)
        extra.append(out - ((size - 1) * s + k - total))
    if min(extra) < 0:
        raise TVMError(f"the output size {wanted} is smaller than the transposed convolution of {list(sizes)}")
    return befores, afters, extra


op("Conv2DBackpropInput")(_transposed(2))
op("Conv3DBackpropInputV2", "Conv3DBackpropInput")(_transposed(3))


@op("Dilation2D")
def dilation2d(ctx, inputs, attrs):
    window = Window(ctx, {**attrs, "dilations": attrs.get("rates")}, 2)
    height, width, _ = ctx.known_shape(inputs[1])
    data, padding = window.padded(inputs[0], (height, width), -np.inf)
    return relay.image.dilation2d(
        data,
        inputs[1],
        strides=window.strides,
        padding=padding,
        dilations=window.dilations,
        data_layout="NHWC",
        kernel_layout="HWI",
    )


# -- pooling ----------------------------------------------------------------------------------------------------------


def _pool(ctx: Context, x: RelayExpr, attrs, rank: int, greatest: bool) -> RelayExpr:
    window = Window(ctx, attrs, rank)
    kernel = window.of(attrs.get("ksize") or [1] * (rank + 2), "ksize")
    names = {(2, True): "max_pool2d", (2, False): "avg_pool2d", (3, True): "max_pool3d", (3, False): "avg_pool3d"}
    fill = None
    if greatest:
        fill = float("-inf") if ctx.is_float(x) else float(np.iinfo(ctx.dtype(x)).min)
    data, padding = window.padded(x, kernel, fill)
    build = getattr(relay.nn, names[rank, greatest])
    return build(data, pool_size=kernel, strides=window.strides, padding=padding, layout=window.layout)


for _name, _rank, _greatest in (("MaxPool", 2, True), ("AvgPool", 2, False), ("MaxPool3D", 3, True),
                                ("AvgPool3D", 3, False)):  # fmt: skip
    op(_name)(lambda ctx, inputs, attrs, r=_rank, g=_greatest: _pool(ctx, inputs[0], attrs, r, g))


@op("MaxPoolV2")
def max_pool_v2(ctx, inputs, attrs):
    ksize, strides = (ctx.ints(x, "the window") for x in inputs[1:3])
    return _pool(ctx, inputs[0], {**attrs, "ksize": ksize, "strides": strides}, 2, True)


__all__ = ["Window", "weight_of"]
