"""Converters of normalization operators."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from .table import axis_of, op


@op("SpatialBN")
def spatial_bn(ctx, inputs, args):
    """Batch normalization with the stored mean and variance of each channel."""
    if len(inputs) < 5 or not args.get("is_test", 0):
        raise TVMError("batch statistics are not supported; use the inference net, which has is_test=1")
    x, scale, bias, mean, variance = inputs[:5]
    axis = ctx.channel(x, args)
    return relay.nn.batch_norm(x, scale, bias, mean, variance, axis=axis, epsilon=float(args.get("epsilon", 1e-5)))[0]


@op("AffineChannel")
def affine_channel(ctx, inputs, args):
    x, scale, bias = inputs
    axis = ctx.channel(x, args)
    return relay.add(relay.multiply(x, ctx.along(scale, axis, x)), ctx.along(bias, axis, x))


@op("InstanceNorm")
def instance_norm(ctx, inputs, args):
    x, scale, bias = inputs
    axis = ctx.channel(x, args)
    return relay.nn.instance_norm(x, scale, bias, axis, float(args.get("epsilon", 1e-5)))


@op("GroupNorm")
def group_norm(ctx, inputs, args):
    x, scale, bias = inputs
    axis = ctx.channel(x, args)
    return relay.nn.group_norm(x, scale, bias, args.get("group", 32), axis, float(args.get("epsilon", 1e-5)))


@op("LayerNorm")
def layer_norm(ctx, inputs, args):
    """Layer normalization over all axes from ``axis`` on. Also returns the mean and the standard deviation."""
    x = inputs[0]
    axis = axis_of(args.get("axis", 1), ctx.rank(x))
    axes, epsilon = list(range(axis, ctx.rank(x))), float(args.get("epsilon", 1e-5))
    mean = relay.mean(x, axes, keepdims=True)
    spread = relay.sqrt(relay.add(relay.variance(x, axes, keepdims=True), ctx.like(epsilon, x)))
    out = relay.divide(relay.subtract(x, mean), spread)
    if args.get("elementwise_affine", 0):
        out = relay.add(relay.multiply(out, inputs[1]), inputs[2])
    # The statistics keep one trailing dimension of 1.
    return [out, *(_last_one(ctx, s, axis) for s in (mean, spread))]


def _last_one(ctx, statistic, axis: int):
    sizes = ctx.shape(ctx.made(statistic))
    if any(not isinstance(d, int) for d in sizes[:axis]):
        raise TVMError("the dimensions before the axis must be static; pass static input shapes for the model")
    return relay.reshape(statistic, (*sizes[:axis], 1))


@op("Normalize")
def normalize(ctx, inputs, args):
    """Divide by the L2 norm along an axis, which is at least 1e-12."""
    x = inputs[0]
    axis = axis_of(args.get("axis", -1), ctx.rank(x))
    length = relay.sqrt(relay.sum(relay.multiply(x, x), [axis], keepdims=True))
    return relay.divide(x, relay.maximum(length, ctx.like(1e-12, x)))


@op("NormalizeL1")
def normalize_l1(ctx, inputs, args):
    """Divide by the L1 norm along an axis; rows of zeros are unchanged."""
    x = inputs[0]
    total = relay.sum(relay.abs(x), [axis_of(args.get("axis", -1), ctx.rank(x))], keepdims=True)
    zero = relay.equal(total, ctx.like(0, x))
    return relay.divide(x, relay.where(zero, ctx.like(1, x), total))


@op("NormalizePlanarYUV")
def normalize_planar(ctx, inputs, args):
    """Subtract the mean and divide by the standard deviation of each channel; both are matrices of one row."""
    x, mean, deviation = inputs
    return relay.divide(relay.subtract(x, ctx.along(mean, 1, x)), ctx.along(deviation, 1, x))


@op("LpNorm")
def lp_norm(ctx, inputs, args):
    x, p = inputs[0], args.get("p", 2)
    if p not in (1, 2):
        raise TVMError(f"LpNorm: p must be 1 or 2, got {p}")
    total = relay.sum(relay.abs(x) if p == 1 else relay.multiply(x, x))
    if args.get("average", 0):
        total = relay.divide(total, ctx.like(float(math.prod(ctx.known_shape(x))), x))
    return relay.reshape(total, (1,))
