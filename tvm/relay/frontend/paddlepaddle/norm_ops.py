"""Converters of normalization operators."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .shape_ops import channels_last, first_of, last_of, merged
from .table import Context, check_steps, op

_FLOAT16_TYPES = ("float16", "bfloat16")


def _as_float32(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Cast float16 and bfloat16 to float32, in which sums are accumulated."""
    return ctx.made(relay.cast(x, "float32")) if ctx.dtype(x) in _FLOAT16_TYPES else x


def _normal(ctx: Context, x: RelayExpr, axes: list[int], eps: float) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """Normalize to mean 0 and variance 1 along axes. Return the output, the mean and the variance."""
    mean = relay.mean(x, axis=axes, keepdims=True)
    apart = relay.subtract(x, mean)
    spread = relay.mean(relay.multiply(apart, apart), axis=axes, keepdims=True)
    return relay.multiply(apart, relay.rsqrt(relay.add(spread, ctx.like(eps, x)))), mean, spread


def _scaled(ctx: Context, out: RelayExpr, shape: tuple) -> RelayExpr:
    """Multiply by Scale and add Bias if they are given."""
    for name, function in (("Scale", relay.multiply), ("Bias", relay.add)):
        given = ctx.maybe(name)
        if given is not None:
            out = function(out, relay.reshape(_as_float32(ctx, given), shape))
    return out


@op("batch_norm", "sync_batch_norm")
def batch_norm(ctx):
    x, layout = ctx.get("X"), ctx.attr("data_layout", "NCHW")
    ctx.refuse(fuse_with_relu=False, use_mkldnn=False)
    if not ctx.attr("is_test", True) and not ctx.attr("use_global_stats", False):
        raise TVMError("the program is in training mode; clone it with for_test=True or save it for inference")
    axis = ctx.rank(x) - 1 if channels_last(ctx, "data_layout") else 1
    if ctx.rank(x) < 2:
        raise TVMError(f"data of {ctx.rank(x)} dimensions has no channel axis ({layout})")
    rows = [ctx.get(n) for n in ("Scale", "Bias", "Mean", "Variance")]
    wide = _as_float32(ctx, x)
    out = relay.nn.batch_norm(wide, *rows, axis=axis, epsilon=float(ctx.attr("epsilon", 1e-5)))[0]
    return {"Y": out if wide is x else relay.cast(out, ctx.dtype(x))}


@op("layer_norm")
def layer_norm(ctx):
    x, begin = ctx.get("X"), ctx.attr("begin_norm_axis", 1)
    rank = ctx.rank(x)
    if not 0 < begin < max(rank, 2):
        raise TVMError(f"the attribute 'begin_norm_axis' {begin} is out of range for {rank} dimensions")
    wide = _as_float32(ctx, x)
    out, mean, spread = _normal(ctx, wide, list(range(begin, rank)), ctx.attr("epsilon", 1e-5))
    scales = any(ctx.has(n) for n in ("Scale", "Bias"))
    out = _scaled(ctx, out, tuple(ctx.known_size(x, a) for a in range(begin, rank))) if scales else out
    out = out if wide is x else relay.cast(out, ctx.dtype(x))
    rows = [relay.squeeze(v, list(range(begin, rank))) for v in (mean, spread)]
    return {"Y": out, "Mean": rows[0], "Variance": rows[1]}


@op("group_norm")
def group_norm(ctx):
    last, groups = channels_last(ctx, "data_layout"), ctx.attr("groups", 1)
    x = first_of(ctx, ctx.get("X"), last)
    size, rank = ctx.known_size(x, 1), ctx.rank(x)
    if groups < 1 or size % groups:
        raise TVMError(f"{size} channels are not divisible into {groups} groups")
    wide = _as_float32(ctx, x)
    apart = ctx.made(relay.reshape(wide, [0, -4, groups, size // groups, *([-2] if rank > 2 else [])]))
    out, mean, spread = _normal(ctx, apart, list(range(2, rank + 1)), ctx.attr("epsilon", 1e-5))
    out = merged(ctx, ctx.made(out), 1, 2)
    out = _scaled(ctx, out, (size, *[1] * (rank - 2)))
    out = out if wide is x else relay.cast(out, ctx.dtype(x))
    rows = [relay.reshape(v, (0, 0)) for v in (mean, spread)]
    return {"Y": last_of(ctx, out, last), "Mean": rows[0], "Variance": rows[1]}


@op("instance_norm")
def instance_norm(ctx):
    x = ctx.get("X")
    rank, wide = ctx.rank(x), _as_float32(ctx, x)
    if rank < 3:
        raise TVMError(f"data of {rank} dimensions has no spatial axes")
    out, _, _ = _normal(ctx, wide, list(range(2, rank)), ctx.attr("epsilon", 1e-5))
    out = _scaled(ctx, out, (ctx.known_size(x, 1), *[1] * (rank - 2)))
    return {"Y": out if wide is x else relay.cast(out, ctx.dtype(x))}


@op("lrn")
def lrn(ctx):
    """Local response normalization. The sum of squares over neighbouring channels is a sum of shifted copies."""
    last, size = channels_last(ctx), ctx.attr("n", 5)
    x = first_of(ctx, ctx.get("X"), last)
    check_steps("a window of channels", size)
    if size < 1:
        raise TVMError(f"the attribute 'n' must be positive, got {size}")
    low, channels = (size - 1) // 2, ctx.known_size(x, 1)
    pads = [(0, 0), (low, size - 1 - low)] + [(0, 0)] * (ctx.rank(x) - 2)
    wide, total = relay.nn.pad(relay.multiply(x, x), pads, ctx.like(0, x)), None
    for i in range(size):
        part = relay.strided_slice(wide, [i], [i + channels], [1], [1])
        total = part if total is None else relay.add(total, part)
    base = relay.add(relay.multiply(total, ctx.like(ctx.attr("alpha", 1e-4), x)), ctx.like(ctx.attr("k", 2.0), x))
    out = relay.multiply(x, relay.power(base, ctx.like(-ctx.attr("beta", 0.75), x)))
    return {"Out": last_of(ctx, out, last), "MidOut": last_of(ctx, base, last)}


@op("affine_channel")
def affine_channel(ctx):
    x = ctx.get("X")
    last = channels_last(ctx, "data_layout")
    shape = (-1,) if last else (-1, *[1] * (ctx.rank(x) - 2))
    return _scaled(ctx, x, shape)


@op("skip_layernorm")
def skip_layernorm(ctx):
    x = ctx.made(relay.add(ctx.get("X"), ctx.get("Y")))
    rank, begin = ctx.rank(x), ctx.attr("begin_norm_axis", 2)
    out, _, _ = _normal(ctx, x, list(range(begin, rank)), ctx.attr("epsilon", 1e-5))
    return _scaled(ctx, out, tuple(ctx.known_size(x, a) for a in range(begin, rank)))


@op("spectral_norm")
def spectral_norm(ctx):
    """Divide the weight by its largest singular value, approximated by power iteration."""
    weight, u, v = ctx.get("Weight"), ctx.get("U"), ctx.get("V")
    dim, eps, times = ctx.axis("dim", weight, 0), ctx.attr("eps", 1e-12), ctx.attr("power_iters", 1)
    shape = ctx.known_shape(weight)
    order = [dim, *(i for i in range(len(shape)) if i != dim)]
    matrix = relay.reshape(relay.transpose(weight, order), (shape[dim], math.prod(shape) // max(shape[dim], 1)))
    matrix, turned = ctx.made(matrix), ctx.made(relay.transpose(matrix, (1, 0)))

    def times_vector(m, vector):
        return ctx.made(relay.sum(relay.multiply(m, relay.reshape(vector, (1, -1))), axis=1))

    def unit(vector):
        length = relay.sqrt(relay.sum(relay.multiply(vector, vector), axis=0))
        return ctx.made(relay.divide(vector, relay.add(length, ctx.like(eps, weight))))

    check_steps("a sequence of power iterations", times)
    for _ in range(times):
        v = unit(times_vector(turned, u))
        u = unit(times_vector(matrix, v))
    sigma = relay.sum(relay.multiply(relay.reshape(u, (-1,)), times_vector(matrix, v)), axis=0)
    return relay.divide(weight, sigma)
