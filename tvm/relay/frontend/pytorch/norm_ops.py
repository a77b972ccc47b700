"""Converters of normalization operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .nn_ops import _FLOAT16_TYPES
from .reduce_ops import variance
from .table import op


def _along(ctx, vector, rank: int):
    """Reshape a vector of channels so that it broadcasts over the following dimensions."""
    return relay.expand_dims(vector, 1, rank - 2) if rank > 2 else vector


def _ones(ctx, x, value: float):
    return const(np.full(ctx.known_size(x, 1), value, ctx.dtype(x)))


@op("batch_norm", "cudnn_batch_norm")
def batch_norm(
    ctx, input, weight, bias, running_mean, running_var, training=False, momentum=0.1, eps=1e-5, cudnn_enabled=None
):
    if training and running_mean is not None:
        raise TVMError("the model is in training mode; call eval() before it is traced or exported")
    if ctx.dtype(input) in _FLOAT16_TYPES:
        wide = [
            None if v is None else ctx.infer(relay.cast(v, "float32"))
            for v in (input, weight, bias, running_mean, running_var)
        ]
        return relay.cast(batch_norm(ctx, *wide, training, momentum, eps), ctx.dtype(input))
    weight = _ones(ctx, input, 1.0) if weight is None else weight
    bias = _ones(ctx, input, 0.0) if bias is None else bias
    if running_mean is None:
        return _own_statistics(ctx, input, weight, bias, eps)
    return relay.nn.batch_norm(input, weight, bias, running_mean, running_var, epsilon=float(eps))[0]


def _own_statistics(ctx, x, weight, bias, eps):
    rank = ctx.rank(x)
    axes = [0, *range(2, rank)]
    apart = relay.subtract(x, relay.mean(x, axis=axes, keepdims=True))
    spread = relay.mean(relay.multiply(apart, apart), axis=axes, keepdims=True)
    out = relay.multiply(apart, relay.rsqrt(relay.add(spread, ctx.like(eps, x))))
    return relay.add(relay.multiply(out, _along(ctx, weight, rank)), _along(ctx, bias, rank))


@op("_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit",
    "_batch_norm_no_update")  # fmt: skip
def native_batch_norm(
    ctx, input, weight=None, bias=None, running_mean=None, running_var=None, training=False, momentum=0.1, eps=1e-5
):
    out = batch_norm(ctx, input, weight, bias, running_mean, running_var, training, momentum, eps)
    none = const(np.zeros(0, "float32"))
    if ctx.wants(1) or ctx.wants(2):
        axes = [0, *range(2, ctx.rank(input))]
        spread = variance(ctx, input, axes, False, 0.0)
        return out, relay.mean(input, axis=axes), relay.rsqrt(relay.add(spread, ctx.like(eps, input)))
    return out, none, none


@op("layer_norm")
def layer_norm(ctx, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=None):
    return _layer_norm(ctx, input, normalized_shape, weight, bias, eps)[0]


@op("native_layer_norm")
def native_layer_norm(ctx, input, normalized_shape, weight, bias, eps):
    return _layer_norm(ctx, input, normalized_shape, weight, bias, eps, True)


def _layer_norm(ctx, x, normalized_shape, weight, bias, eps, statistics: bool = False):
    n = len(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else 1
    kind, rank = ctx.dtype(x), ctx.rank(x)
    wants = statistics and (ctx.wants(1) or ctx.wants(2))
    plain = n == 1 and kind == "float32" and not wants
    if plain and weight is not None:
        out = relay.nn.layer_norm(x, weight, weight if bias is None else bias, -1, float(eps), center=bias is not None)
        return out, const(0.0), const(0.0)
    wide = ctx.infer(relay.cast(x, "float32")) if kind in _FLOAT16_TYPES else x
    axes = list(range(rank - n, rank))
    mean = relay.mean(wide, axis=axes, keepdims=True)
    apart = relay.subtract(wide, mean)
    spread = relay.mean(relay.multiply(apart, apart), axis=axes, keepdims=True)
    inverse = relay.rsqrt(relay.add(spread, ctx.like(eps, wide)))
    out = relay.multiply(apart, inverse)
    for v, function in ((weight, relay.multiply), (bias, relay.add)):
        out = out if v is None else function(out, ctx.tensor(v, ctx.dtype(wide)))
    return relay.cast(out, kind) if kind in _FLOAT16_TYPES else out, mean, inverse


@op("rms_norm", "_fused_rms_norm")
def rms_norm(ctx, input, normalized_shape, weight=None, eps=None):
    kind, rank, n = ctx.dtype(input), ctx.rank(input), len(normalized_shape)
    wide = ctx.infer(relay.cast(input, "float32")) if kind in _FLOAT16_TYPES else input
    eps = eps if eps is not None else float(np.finfo(ctx.dtype(wide)).eps)
    square = relay.mean(relay.multiply(wide, wide), axis=list(range(rank - n, rank)), keepdims=True)
    inverse = relay.rsqrt(relay.add(square, ctx.like(eps, wide)))
    out = relay.multiply(wide, inverse)
    out = relay.cast(out, kind) if kind in _FLOAT16_TYPES else out
    out = out if weight is None else relay.multiply(out, ctx.tensor(weight, kind))
    return (out, inverse) if ctx.outputs > 1 else out


@op("group_norm")
def group_norm(ctx, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=None):
    return _group_norm(ctx, input, num_groups, weight, bias, eps)[0]


@op("native_group_norm")
def native_group_norm(ctx, input, weight, bias, N, C, HxW, group, eps):
    return _group_norm(ctx, input, group, weight, bias, eps)


def _group_norm(ctx, x, groups, weight, bias, eps):
    shape = ctx.known_shape(x)
    kind = ctx.dtype(x)
    wide = ctx.infer(relay.cast(x, "float32")) if kind in _FLOAT16_TYPES else x
    size = math.prod(shape[1:]) // groups
    flat = ctx.infer(relay.reshape(wide, (shape[0], groups, size)))
    mean = relay.mean(flat, axis=2, keepdims=True)
    apart = relay.subtract(flat, mean)
    spread = relay.mean(relay.multiply(apart, apart), axis=2, keepdims=True)
    inverse = relay.rsqrt(relay.add(spread, ctx.like(eps, wide)))
    out = relay.reshape(relay.multiply(apart, inverse), shape)
    for v, function in ((weight, relay.multiply), (bias, relay.add)):
        out = out if v is None else function(out, _along(ctx, ctx.tensor(v, ctx.dtype(wide)), len(shape)))
    out = relay.cast(out, kind) if kind in _FLOAT16_TYPES else out
    return out, relay.squeeze(mean, [2]), relay.squeeze(inverse, [2])


@op("instance_norm")
def instance_norm(
    ctx,
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
    cudnn_enabled=None,
):
    if not use_input_stats:
        return batch_norm(ctx, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return _group_norm(ctx, input, ctx.known_size(input, 1), weight, bias, eps)[0]


@op("local_response_norm")
def local_response_norm(ctx, input, size, alpha=1e-4, beta=0.75, k=1.0):
    square = relay.multiply(input, input)
    rank, channels = ctx.rank(input), ctx.known_size(input, 1)
    wide = relay.nn.pad(square, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (rank - 2), ctx.like(0, input))
    total = None
    for i in range(size):
        part = relay.strided_slice(wide, [i], [i + channels], [1], [1])
        total = part if total is None else relay.add(total, part)
    base = relay.add(relay.multiply(total, ctx.like(alpha / size, input)), ctx.like(k, input))
    return relay.divide(input, relay.power(base, ctx.like(beta, input)))


@op("_weight_norm", "_weight_norm_interface")
def weight_norm(ctx, v, g, dim=0):
    axes = [i for i in range(ctx.rank(v)) if i != ctx.axis(v, dim)]
    size = relay.sqrt(relay.sum(relay.multiply(v, v), axis=axes, keepdims=True))
    return relay.multiply(v, relay.divide(g, size))
