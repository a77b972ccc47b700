"""Converters of convolution, pooling and normalization. Samples have their channels first."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import Context, Tensor, op

_LETTERS = {1: "W", 2: "HW", 3: "DHW"}
_MAX, _AVERAGE = range(2)


def _per_axis(values, count: int, default, what: str) -> list:
    """Return a value for each axis: a single value is repeated, and missing values are ``default``."""
    values = list(values or [])
    if len(values) == 1:
        values = values * count
    values += [default] * (count - len(values))
    if len(values) > count and any(v not in (default, 0, 1, False, True) for v in values[count:]):
        raise TVMError(f"{what} {values} does not match {count} axes")
    return values[:count]


class Window:
    """A sliding window over spatial axes, in the axis order of expressions: kernel, strides, dilations and padding."""

    def __init__(self, kernel: list[int], attrs, inputs: tuple[int, ...], outputs: tuple[int, ...] | None = None):
        """Compute the padding and the output sizes.

        ``inputs`` are the sizes of the data, ``outputs`` the sizes of the output if they are known. The attributes are
        in the axis order of CNTK, which is the reverse of that of expressions.
        """
        count = len(kernel)
        self.kernel = kernel
        self.strides = self._of(attrs.get("strides") or (1,), 1, "strides")
        self.dilations = self._of(attrs.get("dilation") or (1,), 1, "dilations")
        auto = self._of(attrs.get("autoPadding") or [False], False, "autoPadding")
        low = self._of(attrs.get("lowerPad") or (0,), 0, "lowerPad")
        high = self._of(attrs.get("upperPad") or (0,), 0, "upperPad")
        if any(v < 1 for v in (*kernel, *self.strides, *self.dilations)):
            raise TVMError(f"kernel {kernel} with strides {self.strides} is not supported; all values must be positive")
        ceil = attrs.get("ceilOutDim", False)
        self.before, self.after, self.counts = [], [], []
        for i in range(count):
            reach, size = (kernel[i] - 1) * self.dilations[i] + 1, inputs[i]
            total = reach - 1 if auto[i] else low[i] + high[i]
            steps = (size + total - reach) / self.strides[i]
            steps = (math.ceil(steps) if ceil else math.floor(steps)) + 1
            steps = outputs[i] if outputs is not None else steps
            if steps < 1:
                raise TVMError(f"a window of {reach} does not fit {size} elements")
            before = (reach - 1) // 2 - (size - (steps - 1) * self.strides[i] - 1) // 2 if auto[i] else low[i]
            self.before.append(before)
            self.after.append((steps - 1) * self.strides[i] + reach - size - before)
            self.counts.append(steps)

    def _of(self, values, default, what: str) -> list:
        return (
            _per_axis(values, len(self.kernel), default, what)[::-1]
            if len(values) <= len(self.kernel)
            else list(values)[: len(self.kernel)][::-1]
        )

    def cut(self, ctx: Context, x, first: int):
        """Crop the data outside all windows (negative padding). Return the data and the remaining padding."""
        for i in range(len(self.kernel)):
            if self.before[i] < 0 or self.after[i] < 0:
                begin, size = max(-self.before[i], 0), ctx.known_size(x, first + i)
                x = ctx.made(relay.strided_slice(x, [begin], [size + min(self.after[i], 0)], [1], [first + i]))
        return x, (*(max(p, 0) for p in self.before), *(max(p, 0) for p in self.after))


def _samples(ctx: Context, t: Tensor) -> tuple[Tensor, tuple]:
    """Reshape to one batch axis. Return the tensor and its original dynamic axes."""
    lead = ctx.leading(t)
    if t.lead == 1:
        return t, lead
    return ctx.tensor(relay.reshape(t.expr, (-1 if -1 in lead else math.prod(lead), *ctx.sizes(t))), 1), lead


def _back(ctx: Context, out, lead: tuple) -> Tensor:
    made = ctx.made(out)
    if len(lead) == 1:
        return Tensor(made, 1)
    return ctx.tensor(relay.reshape(made, (*lead, *ctx.shape(made)[1:])), len(lead))


@op("Convolution")
def convolution(ctx, inputs, attrs):
    weight = inputs[0].expr
    if inputs[0].lead:
        raise TVMError("convolution weights that differ between samples are not supported")
    if not all(attrs.get("sharing") or [True]):
        raise TVMError("a convolution with separate weights for each position (sharing=false) is not supported")
    if attrs.get("sequential"):
        raise TVMError("a convolution over the sequence axis is not supported")
    x, lead = _samples(ctx, inputs[1])
    sizes = ctx.sizes(x)
    spatial = len(sizes) - 1
    if spatial not in _LETTERS:
        raise TVMError(f"a convolution over samples of {len(sizes)} dimensions is not supported")
    shape = ctx.known_shape(weight)
    if len(shape) == 2 and "kernelShape" in attrs:
        # Early files store the weights as a matrix.
        outputs = math.prod(attrs["mapCount"])
        kernel = [int(k) for k in attrs["kernelShape"][:spatial]][::-1]
        shape = (outputs, math.prod(shape) // max(outputs * math.prod(kernel), 1), *kernel)
        weight = ctx.made(relay.reshape(weight, shape))
    if len(shape) == spatial + 1:
        # The file omits the axis of a single output channel.
        shape = (1, *shape)
        weight = ctx.made(relay.reshape(weight, shape))
    if len(shape) != spatial + 2:
        raise TVMError(f"weights of shape {shape[::-1]} do not match samples of {len(sizes)} dimensions")
    if attrs.get("transpose"):
        return _transposed(ctx, x, weight, shape, attrs, lead)
    # The binary format does not store the number of groups: compute it from the channels.
    groups = int(attrs.get("groups") or max(sizes[0] // max(shape[1], 1), 1))
    if shape[1] * groups != sizes[0] or shape[0] % groups:
        raise TVMError(f"weights of shape {shape[::-1]} in {groups} groups do not match {sizes[0]} input channels")
    window = Window(list(shape[2:]), _spatial_attrs(attrs, spatial), sizes[1:])
    data, padding = window.cut(ctx, x.expr, 2)
    build = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[spatial]
    letters = _LETTERS[spatial]
    out = build(
        data,
        weight,
        strides=tuple(window.strides),
        padding=padding,
        dilation=tuple(window.dilations),
        groups=groups,
        channels=shape[0],
        kernel_size=shape[2:],
        data_layout=f"NC{letters}",
        kernel_layout=f"OI{letters}",
    )
    return _back(ctx, out, lead)


def _spatial_attrs(attrs, count: int):
    """Return the attributes of the spatial axes, without the values of the channel axis, which come last."""
    out = dict(attrs)
    for name in ("strides", "dilation", "autoPadding", "lowerPad", "upperPad"):
        values = list(attrs.get(name) or [])
        out[name] = values[:count] if len(values) > count else values
    return out


def _transposed(ctx: Context, x: Tensor, weight, shape, attrs, lead) -> Tensor:
    spatial, sizes = len(shape) - 2, ctx.sizes(x)
    if shape[0] != sizes[0]:
        raise TVMError(f"weights of shape {shape[::-1]} do not match {sizes[0]} input channels")
    own = _spatial_attrs({k: v for k, v in attrs.items() if k != "dilation"}, spatial)
    wanted = [int(d) for d in attrs.get("outputShape") or []]
    if any(wanted) and len(wanted) >= spatial:
        outputs = tuple(wanted[:spatial][::-1])
    else:
        strides, auto, low, high = (
            _per_axis(own.get(n), spatial, d, n)[::-1]
            for n, d in (("strides", 1), ("autoPadding", False), ("lowerPad", 0), ("upperPad", 0))
        )
        outputs = tuple(
            (n - 1) * s + (1 if a else k - lo - hi)
            for n, s, a, k, lo, hi in zip(sizes[1:], strides, auto, shape[2:], low, high)
        )
    window = Window(list(shape[2:]), own, outputs, sizes[1:])
    if any(p < 0 for p in window.before):
        raise TVMError("a transposed convolution with a kernel smaller than its strides is not supported")
    extra = tuple(max(-p, 0) for p in window.after)
    padding = (*window.before, *(max(p, 0) for p in window.after))
    build = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}[spatial]
    out = build(
        x.expr,
        weight,
        strides=tuple(window.strides),
        padding=padding,
        channels=shape[1],
        kernel_size=shape[2:],
        output_padding=extra,
    )
    return _back(ctx, out, lead)


@op("Pooling")
def pooling(ctx, inputs, attrs):
    kind = attrs.get("poolingType")
    if kind not in (_MAX, _AVERAGE):
        raise TVMError(f"poolingType {kind} is not supported")
    x, lead = _samples(ctx, inputs[0])
    sizes = ctx.sizes(x)
    count = len(sizes)
    given = [int(k) for k in attrs.get("poolingWindowShape") or ()]
    if not given or len(given) > count:
        raise TVMError(f"pooling window {given} does not match samples of {count} dimensions")
    # Axes after those of the window are not pooled. An unspecified window size covers the whole axis.
    kernel = [k if k < 1 << 31 else sizes[count - 1 - i] for i, k in enumerate(given)]
    strides = _per_axis(attrs.get("strides"), len(given), 1, "strides") if attrs.get("strides") else [1] * len(given)
    kernel += [1] * (count - len(kernel))
    strides = [int(s) if s < 1 << 31 else 1 for s in strides] + [1] * (count - len(strides))
    own = dict(attrs, strides=strides)
    for name in ("autoPadding", "lowerPad", "upperPad"):
        values = list(attrs.get(name) or [0])
        values = values * len(given) if len(values) == 1 else values
        own[name] = (values + [0] * count)[:count]
    window = Window(kernel[::-1], own, sizes)
    plain = kernel[-1] == 1 and strides[-1] == 1 and count > 1
    used = slice(1, None) if plain else slice(None)
    spatial = count - 1 if plain else count
    if spatial not in _LETTERS:
        raise TVMError(f"pooling over {spatial} axes is not supported")
    data, padding = window.cut(ctx, x.expr, 1)
    half = len(padding) // 2
    padding = (*padding[:half][used], *padding[half:][used])
    data = data if plain else relay.expand_dims(data, 1)
    options = {} if kind == _MAX else {"count_include_pad": bool(attrs.get("includePad", False))}
    build = getattr(relay.nn, f"{'max' if kind == _MAX else 'avg'}_pool{spatial}d")
    out = build(
        data, pool_size=tuple(window.kernel[used]), strides=tuple(window.strides[used]), padding=padding, **options
    )
    return _back(ctx, out if plain else relay.squeeze(out, [1]), lead)


@op("Unpooling")
def unpooling(ctx, inputs, attrs):
    """Scatter each value to the first maximum of its pooling window. Windows must not overlap."""
    x, source = inputs
    sizes = ctx.sizes(source)
    kernel = [int(k) for k in attrs.get("unpoolingWindowShape") or ()]
    kernel = [*kernel, *[1] * (len(sizes) - len(kernel))][::-1]
    strides = _per_axis(attrs.get("strides"), len(sizes), 1, "strides")[::-1]
    strides[0] = kernel[0] if len(attrs.get("strides") or ()) < len(sizes) else strides[0]
    if kernel != strides or any(s % k for s, k in zip(sizes, kernel)) or len(sizes) != 3 or kernel[0] != 1:
        raise TVMError(f"unpooling windows {kernel} with strides {strides} over shape {sizes} are not supported")
    (c, h, w), (_, p, q) = sizes, kernel
    tiles = ctx.reshaped(source, (c, h // p, p, w // q, q))
    lead = tiles.lead
    order = [*range(lead), lead, lead + 1, lead + 3, lead + 2, lead + 4]
    rows = ctx.reshaped(ctx.tensor(relay.transpose(tiles.expr, order), lead), (c, h // p, w // q, p * q))
    hot = relay.one_hot(
        relay.argmax(rows.expr, lead + 3), ctx.like(1, x.expr), ctx.like(0, x.expr), p * q, -1, ctx.dtype(x.expr)
    )
    out = ctx.tensor(relay.multiply(hot, relay.expand_dims(x.expr, lead + 3)), lead)
    out = ctx.reshaped(out, (c, h // p, w // q, p, q))
    back = [*range(lead), lead, lead + 1, lead + 3, lead + 2, lead + 4]
    return ctx.reshaped(ctx.tensor(relay.transpose(out.expr, back), lead), sizes)


@op("BatchNormalization")
def batch_normalization(ctx, inputs, attrs):
    """Normalize with the stored scale, bias, mean and variance, each per channel or per element."""
    if len(inputs) < 5:
        raise TVMError(f"expected 5 inputs, got {len(inputs)}")
    x = inputs[0]
    sizes = ctx.sizes(x)
    shape = (sizes[0], *[1] * (len(sizes) - 1)) if attrs.get("spatial") else sizes
    scale, bias, mean, variance = (relay.reshape(t.expr, shape) for t in inputs[1:5])
    epsilon = ctx.like(float(attrs.get("epsilon", 1e-5)), x.expr)
    if attrs.get("inverse"):
        inverse = variance
    else:
        inverse = relay.rsqrt(relay.add(variance, epsilon))
    return Tensor(relay.add(relay.multiply(relay.subtract(x.expr, mean), relay.multiply(scale, inverse)), bias), x.lead)


@op("ROIPooling")
def roi_pooling(ctx, inputs, attrs):
    """Max pooling over regions of interest, given by corners. Each sample has the same number of regions."""
    x, rois = inputs
    if x.lead != 1 or attrs.get("poolingType", _MAX) != _MAX:
        raise TVMError("ROI pooling needs max pooling and a batch of images")
    batch = ctx.known_size(x.expr, 0)
    count = ctx.sizes(rois)[0]
    corners = rois.expr if rois.lead else relay.broadcast_to(rois.expr, (batch, count, 4))
    places = const(np.repeat(np.arange(batch), count).astype(ctx.dtype(x.expr)).reshape(batch * count, 1))
    rows = relay.concatenate([places, relay.reshape(corners, (batch * count, 4))], 1)
    width, height = (int(d) for d in attrs.get("roiOutputShape") or (0, 0))
    out = relay.vision.roi_pool(x.expr, rows, (height, width), float(attrs.get("spatialScale", 0.0625)))
    return ctx.tensor(relay.reshape(out, (batch, count, *ctx.shape(ctx.made(out))[1:])), 1)


__all__ = ["Window"]
