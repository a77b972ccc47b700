"""Converters of normalization operators."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import onnx_dtype
from .table import argument, axis_of, check_steps, op


def _across(ctx, vector, rank: int, axis: int = 1):
    """Reshape a vector so that it broadcasts along an axis."""
    rest = rank - axis - 1
    return relay.expand_dims(vector, 1, rest) if rest > 0 else vector


@op("BatchNormalization")
def batch_normalization(ctx, inputs, attrs):
    if ctx.version < 7 and not attrs.get("is_test", 1):
        raise TVMError("training mode is not supported in operator sets before 14")
    if attrs.get("training_mode", 0):
        return _batch_normalization_in_training(ctx, inputs, attrs)
    x, vectors = inputs[0], inputs[1:5]
    epsilon = attrs.get("epsilon", 1e-5)
    if all(ctx.dtype(v) == ctx.dtype(x) for v in vectors):
        return relay.nn.batch_norm(x, *vectors, epsilon=epsilon)[0]
    kept = ctx.dtype(x)
    wide = [relay.cast(v, "float32") for v in (x, *vectors)]
    return relay.cast(relay.nn.batch_norm(*wide, epsilon=epsilon)[0], kept)


def _batch_normalization_in_training(ctx, inputs, attrs) -> list:
    """Normalize each channel by the mean and variance of the batch, and update the running mean and variance."""
    x, scale, bias, means, variances = inputs
    rank, kept = ctx.rank(x), ctx.dtype(x)
    axes = [a for a in range(rank) if a != 1]
    wide = x if kept in ("float32", "float64") else relay.cast(x, "float32")
    mean = mean_of(ctx, wide, axes)
    apart = ctx.importer.typer.infer(relay.subtract(wide, mean))
    variance = mean_of(ctx, relay.multiply(apart, apart), axes)
    deviation = relay.sqrt(relay.add(variance, ctx.like(attrs.get("epsilon", 1e-5), apart)))
    scale, bias = (_across(ctx, relay.cast_like(v, apart), rank) for v in (scale, bias))
    out = relay.add(relay.multiply(relay.divide(apart, deviation), scale), bias)
    momentum = attrs.get("momentum", 0.9)
    running = []
    for past, new in ((means, mean), (variances, variance)):
        new = relay.cast_like(relay.reshape(new, (-1,)), past)
        old = relay.multiply(past, ctx.like(momentum, past))
        running.append(relay.add(old, relay.multiply(new, ctx.like(1 - momentum, past))))
    return [relay.cast(out, kept), *running]


def mean_of(ctx, x, axes):
    """Return the mean over axes, with ``keepdims``.

    Large reductions are computed axis by axis: one long float32 accumulation loses more precision than nested short
    ones.
    """
    sizes = [ctx.shape(x)[a] for a in axes]
    if len(axes) > 1 and all(isinstance(s, int) for s in sizes) and int(np.prod(sizes)) > 4096:
        for axis in reversed(axes):
            x = relay.mean(x, axis=(axis,), keepdims=True)
        return x
    return relay.mean(x, axis=axes, keepdims=True)


def centered(ctx, x, axes, epsilon: float, outputs: bool = False):
    """Return (x - mean) / sqrt(variance + epsilon) over axes; with ``outputs`` also the mean and the inverse
    deviation.
    """
    mean = mean_of(ctx, x, axes)
    apart = relay.subtract(x, mean)
    variance = mean_of(ctx, relay.multiply(apart, apart), axes)
    inverse = relay.divide(ctx.like(1, x), relay.sqrt(relay.add(variance, ctx.like(epsilon, x))))
    out = relay.multiply(apart, inverse)
    return (out, mean, inverse) if outputs else out


# onnxruntime accumulates a channel in this number of interleaved partial sums. For planes of about 100,000 elements the
# order changes the sixth digit of a float32 sum, which a chain of normalizations amplifies: the orders must agree.
_PARTS = 8


def _plane_mean(ctx, x):
    """Return the mean of the last of three axes, with ``keepdims``, accumulated in interleaved partial sums."""
    size = ctx.known_size(x, 2)
    parts = relay.sum(relay.reshape(x, (0, 0, size // _PARTS, _PARTS)), axis=(2,))
    return relay.divide(relay.sum(parts, axis=(-1,), keepdims=True), ctx.like(size, x))


@op("InstanceNormalization")
def instance_normalization(ctx, inputs, attrs):
    x, scale, bias = inputs
    rank = ctx.rank(x)
    epsilon = attrs.get("epsilon", 1e-5)
    sizes = ctx.shape(x)[2:]
    count = int(np.prod(sizes)) if all(isinstance(s, int) for s in sizes) else 0
    if count < 4096 or count % _PARTS:
        out = centered(ctx, x, tuple(range(2, rank)), epsilon)
        return relay.add(relay.multiply(out, _across(ctx, scale, rank)), _across(ctx, bias, rank))
    plane = relay.reshape(x, (0, 0, count))
    mean = _plane_mean(ctx, plane)
    apart = relay.subtract(plane, mean)
    variance = _plane_mean(ctx, relay.multiply(apart, apart))
    factor = relay.divide(relay.expand_dims(scale, 1), relay.sqrt(relay.add(variance, ctx.like(epsilon, x))))
    shift = relay.subtract(relay.expand_dims(bias, 1), relay.multiply(mean, factor))
    return relay.reshape(relay.add(relay.multiply(plane, factor), shift), (0, 0, *sizes))


def _in_precision(ctx, x, attrs):
    """Return the element type in which a normalization is computed."""
    kind = onnx_dtype(attrs.get("stash_type", 1))
    return relay.cast(x, kind) if kind != ctx.dtype(x) and ctx.dtype(x) != "float64" else x


@op("LayerNormalization")
def layer_normalization(ctx, inputs, attrs):
    x, scale, bias = inputs[0], inputs[1], argument(inputs, 2)
    rank = ctx.rank(x)
    axes = tuple(range(axis_of(attrs.get("axis", -1), rank), rank))
    plain = all(v is None or ctx.shape(v) == ctx.shape(x)[-1:] and ctx.dtype(v) == "float32" for v in (scale, bias))
    if axes == (rank - 1,) and plain and ctx.dtype(x) == "float32" and not ctx.wants(1) and not ctx.wants(2):
        shift = scale if bias is None else bias
        return relay.nn.layer_norm(x, scale, shift, -1, attrs.get("epsilon", 1e-5), center=bias is not None)
    out, mean, inverse = centered(ctx, _in_precision(ctx, x, attrs), axes, attrs.get("epsilon", 1e-5), True)
    out = relay.multiply(relay.cast(out, ctx.dtype(x)) if ctx.dtype(out) != ctx.dtype(x) else out, scale)
    # float64 is computed in float64, as onnxruntime does; the additional outputs have the type stash_type.
    stash = onnx_dtype(attrs.get("stash_type", 1))
    expanded_scale = [v if ctx.dtype(v) == stash else relay.cast(v, stash) for v in (mean, inverse)]
    return [out if bias is None else relay.add(out, bias), *expanded_scale]


@op("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(ctx, inputs, attrs):
    x, scale = inputs[:2]
    rank = ctx.rank(x)
    axes = tuple(range(axis_of(attrs.get("axis", -1), rank), rank))
    wide = _in_precision(ctx, x, attrs)
    square = relay.mean(relay.multiply(wide, wide), axis=axes, keepdims=True)
    out = relay.divide(wide, relay.sqrt(relay.add(square, ctx.like(attrs.get("epsilon", 1e-5), wide))))
    out = relay.cast(out, ctx.dtype(x)) if ctx.dtype(out) != ctx.dtype(x) else out
    return relay.multiply(out, scale)


@op("GroupNormalization")
def group_normalization(ctx, inputs, attrs):
    x, scale, bias = inputs
    shape = ctx.shape(x)
    groups = attrs["num_groups"]
    wide = relay.reshape(_in_precision(ctx, x, attrs), (0, groups, -1))
    out = relay.cast(centered(ctx, wide, (2,), attrs.get("epsilon", 1e-5)), ctx.dtype(x))
    if ctx.version < 21 and ctx.shape(scale)[0] == groups and groups != shape[1]:
        scale, bias = (relay.repeat(v, ctx.known_size(x, 1) // groups, 0) for v in (scale, bias))
    known = all(isinstance(d, int) for d in shape)
    out = relay.reshape(out, shape) if known else relay.reshape_like(out, x)
    return relay.add(relay.multiply(out, _across(ctx, scale, len(shape))), _across(ctx, bias, len(shape)))


@op("MeanVarianceNormalization")
def mean_variance_normalization(ctx, inputs, attrs):
    x = inputs[0]
    axes = tuple(axis_of(a, ctx.rank(x)) for a in attrs.get("axes", [0, 2, 3]))
    mean = relay.mean(x, axis=axes, keepdims=True)
    apart = relay.subtract(x, mean)
    deviation = relay.sqrt(relay.mean(relay.multiply(apart, apart), axis=axes, keepdims=True))
    return relay.divide(apart, relay.add(deviation, ctx.like(1e-9, x)))


@op("LpNormalization")
def lp_normalization(ctx, inputs, attrs):
    x, p = inputs[0], attrs.get("p", 2)
    axis = axis_of(attrs.get("axis", -1), ctx.rank(x))
    if p == 1:
        size = relay.sum(relay.abs(x), axis=axis, keepdims=True)
    else:
        size = relay.sqrt(relay.sum(relay.multiply(x, x), axis=axis, keepdims=True))
    zero = relay.equal(size, ctx.like(0, x))
    return relay.where(zero, ctx.like(0, x), relay.divide(x, relay.where(zero, ctx.like(1, x), size)))


@op("LRN")
def lrn(ctx, inputs, attrs):
    """Sum the squares over neighboring channels by adding shifted copies."""
    x, size = inputs[0], attrs["size"]
    rank = ctx.rank(x)
    check_steps("a channel window", size)
    if size < 1:
        raise TVMError(f"size must be positive, got {size}")
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    square = relay.multiply(x, x)
    wide = relay.nn.pad(square, [(0, 0), (low, high)] + [(0, 0)] * (rank - 2), ctx.like(0, x))
    channels = ctx.shape(x)[1]
    if not isinstance(channels, int):
        rest = {name: attrs.get(name, value) for name, value in (("bias", 1.0), ("alpha", 0.0001), ("beta", 0.75))}
        return relay.nn.lrn(x, size, 1, **rest)
    total = None
    for i in range(size):
        part = relay.strided_slice(wide, [i], [i + channels], [1], [1])
        total = part if total is None else relay.add(total, part)
    base = relay.add(
        ctx.like(attrs.get("bias", 1.0), x), relay.multiply(total, ctx.like(attrs.get("alpha", 0.0001) / size, x))
    )
    return relay.divide(x, relay.power(base, ctx.like(attrs.get("beta", 0.75), x)))


@op("ImageScaler")
def image_scaler(ctx, inputs, attrs):
    x = inputs[0]
    bias = np.array(attrs.get("bias", [0.0]), ctx.dtype(x)).reshape(-1, 1, 1)
    return relay.add(relay.multiply(x, ctx.like(attrs.get("scale", 1.0), x)), const(bias))


@op("Affine")
def affine(ctx, inputs, attrs):
    x = inputs[0]
    return relay.add(relay.multiply(x, ctx.like(attrs.get("alpha", 1.0), x)), ctx.like(attrs.get("beta", 0.0), x))


@op("ParametricSoftplus")
def parametric_softplus(ctx, inputs, attrs):
    x = inputs[0]
    inner = relay.exp(relay.multiply(x, ctx.like(attrs.get("beta", 1.0), x)))
    return relay.multiply(ctx.like(attrs.get("alpha", 1.0), x), relay.log1p(inner))


@op("ScaledTanh")
def scaled_tanh(ctx, inputs, attrs):
    x = inputs[0]
    return relay.multiply(
        ctx.like(attrs.get("alpha", 1.0), x), relay.tanh(relay.multiply(x, ctx.like(attrs.get("beta", 1.0), x)))
    )


@op("Crop")
def crop(ctx, inputs, attrs):
    left, top, right, bottom = attrs["border"]
    height, width = ctx.spatial(inputs[0])
    scale = attrs.get("scale")
    end = [top + scale[0], left + scale[1]] if scale else [height - bottom, width - right]
    return relay.strided_slice(inputs[0], [top, left], end, [1, 1], [2, 3])
