"""Converters of activation functions."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .elementwise import unary
from .table import Context, axis_of, op


def _below(ctx: Context, x: RelayExpr, edge: float, below: RelayExpr) -> RelayExpr:
    """Return ``below`` where x is less than ``edge``, else x. NaN stays NaN."""
    return relay.where(relay.less(x, ctx.like(edge, x)), below, x)


def _times(ctx: Context, x: RelayExpr, factor: float) -> RelayExpr:
    return relay.multiply(x, ctx.like(factor, x))


def _negative_exponential(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return exp(x) - 1 for negative x, else 0."""
    return relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x))


@unary("relu")
def relu(ctx, x):
    return relay.nn.relu(x) if ctx.is_float(x) else relay.maximum(x, ctx.like(0, x))


@unary("relu6")
def relu6(ctx, x):
    return relay.clip(x, 0.0, float(ctx.attr("threshold", 6.0)))


@unary("brelu", "hard_tanh")
def brelu(ctx, x):
    return relay.clip(x, float(ctx.attr("t_min", 0.0)), float(ctx.attr("t_max", 24.0)))


@unary("leaky_relu")
def leaky_relu(ctx, x):
    return _below(ctx, x, 0, _times(ctx, x, ctx.attr("alpha", 0.02)))


@unary("elu")
def elu(ctx, x):
    return _below(ctx, x, 0, _times(ctx, _negative_exponential(ctx, x), ctx.attr("alpha", 1.0)))


@unary("celu")
def celu(ctx, x):
    alpha = ctx.attr("alpha", 1.0)
    return _below(ctx, x, 0, _times(ctx, _negative_exponential(ctx, _times(ctx, x, 1.0 / alpha)), alpha))


@unary("selu")
def selu(ctx, x):
    scale, alpha = ctx.attr("scale", 1.0507009873554805), ctx.attr("alpha", 1.6732632423543772)
    return _times(ctx, _below(ctx, x, 0, _times(ctx, _negative_exponential(ctx, x), alpha)), scale)


@unary("gelu")
def gelu(ctx, x):
    half, one = _times(ctx, x, 0.5), ctx.like(1, x)
    if not ctx.attr("approximate", False):
        return relay.multiply(half, relay.add(relay.erf(_times(ctx, x, 0.5**0.5)), one))
    cube = _times(ctx, relay.multiply(x, relay.multiply(x, x)), 0.044715)
    return relay.multiply(half, relay.add(relay.tanh(_times(ctx, relay.add(x, cube), (2 / np.pi) ** 0.5)), one))


@unary("hard_sigmoid")
def hard_sigmoid(ctx, x):
    out = relay.add(_times(ctx, x, ctx.attr("slope", 0.2)), ctx.like(ctx.attr("offset", 0.5), x))
    return relay.clip(out, 0.0, 1.0)


@unary("hard_swish")
def hard_swish(ctx, x):
    limit, scale, offset = ctx.attr("threshold", 6.0), ctx.attr("scale", 6.0), ctx.attr("offset", 3.0)
    if not scale:
        raise TVMError("the attribute 'scale' must not be 0")
    gate = relay.clip(relay.add(x, ctx.like(offset, x)), 0.0, float(limit))
    return _times(ctx, relay.multiply(x, gate), 1.0 / scale)


@unary("swish")
def swish(ctx, x):
    return relay.multiply(x, relay.sigmoid(_times(ctx, x, ctx.attr("beta", 1.0))))


@unary("silu")
def silu(ctx, x):
    return relay.multiply(x, relay.sigmoid(x))


def _soft(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return log(1 + exp(x)) without overflow."""
    return relay.add(relay.maximum(x, ctx.like(0, x)), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


@unary("softplus")
def softplus(ctx, x):
    beta, limit = ctx.attr("beta", 1.0), ctx.attr("threshold", 20.0)
    wide = _times(ctx, x, beta)
    return relay.where(relay.greater(wide, ctx.like(limit, x)), x, _times(ctx, _soft(ctx, wide), 1.0 / beta))


@unary("mish")
def mish(ctx, x):
    soft = relay.where(relay.greater(x, ctx.like(ctx.attr("threshold", 20.0), x)), x, _soft(ctx, x))
    return relay.multiply(x, relay.tanh(soft))


@unary("logsigmoid")
def logsigmoid(ctx, x):
    return relay.negative(_soft(ctx, relay.negative(x)))


@unary("softsign")
def softsign(ctx, x):
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


@unary("softshrink")
def softshrink(ctx, x):
    edge, none = ctx.attr("lambda", 0.5), relay.zeros_like(x)
    high = relay.where(relay.greater(x, ctx.like(edge, x)), relay.subtract(x, ctx.like(edge, x)), none)
    return relay.where(relay.less(x, ctx.like(-edge, x)), relay.add(x, ctx.like(edge, x)), high)


@unary("hard_shrink")
def hard_shrink(ctx, x):
    return relay.where(relay.greater(relay.abs(x), ctx.like(ctx.attr("threshold", 0.5), x)), x, relay.zeros_like(x))


@unary("tanh_shrink")
def tanh_shrink(ctx, x):
    return relay.subtract(x, relay.tanh(x))


@unary("thresholded_relu")
def thresholded_relu(ctx, x):
    edge, value = ctx.attr("threshold", 1.0), ctx.attr("value", 0.0)
    return relay.where(relay.greater(x, ctx.like(edge, x)), x, relay.full_like(x, ctx.like(value, x)))


@unary("stanh")
def stanh(ctx, x):
    return _times(ctx, relay.tanh(_times(ctx, x, ctx.attr("scale_a", 0.67))), ctx.attr("scale_b", 1.7159))


@unary("rrelu")
def rrelu(ctx, x):
    """Apply the randomized leaky ReLU. At inference the slope is the middle of its range."""
    slope = (ctx.attr("lower", 1 / 8) + ctx.attr("upper", 1 / 3)) / 2
    return _below(ctx, x, 0, _times(ctx, x, slope))


@op("prelu")
def prelu(ctx):
    x, alpha = ctx.get("X"), ctx.get("Alpha")
    mode, rank = ctx.attr("mode", "all"), ctx.rank(x)
    if mode == "channel" and ctx.attr("data_format", "NCHW").startswith("NC"):
        alpha = relay.reshape(alpha, (-1, *[1] * max(rank - 2, 0)))
    elif mode == "channel":
        alpha = relay.reshape(alpha, (-1,))
    elif mode == "element":
        alpha = relay.reshape(alpha, (1, *ctx.known_shape(x)[1:]))
    elif mode == "all":
        alpha = relay.reshape(alpha, ())
    else:
        raise TVMError(f"the attribute 'mode' must be all, channel or element, got {mode!r}")
    return _below(ctx, x, 0, relay.multiply(x, alpha))


@unary("maxout")
def maxout(ctx, x):
    axis, groups = ctx.axis("axis", x, 1), ctx.attr("groups", 1)
    size = ctx.known_size(x, axis)
    if groups < 1 or size % groups:
        raise TVMError(f"{size} channels are not divisible into groups of {groups}")
    shape = [0] * axis + [-4, size // groups, groups] + [0] * (ctx.rank(x) - axis - 1)
    return relay.max(relay.reshape(x, shape), axis=axis + 1)


@unary("softmax")
def softmax(ctx, x):
    if not ctx.rank(x):
        return relay.ones_like(x)
    return relay.nn.softmax(x, axis_of(ctx.attr("axis", -1), ctx.rank(x)))


@unary("log_softmax")
def log_softmax(ctx, x):
    if not ctx.rank(x):
        return relay.zeros_like(x)
    axis = axis_of(ctx.attr("axis", -1), ctx.rank(x))
    apart = relay.subtract(x, relay.max(x, axis=axis, keepdims=True))
    return relay.subtract(apart, relay.log(relay.sum(relay.exp(apart), axis=axis, keepdims=True)))


# Activation functions by the names that operators use.
BY_NAME = {
    "": lambda ctx, x: x, "identity": lambda ctx, x: x, "relu": relu, "sigmoid": lambda ctx, x: relay.sigmoid(x),
    "tanh": lambda ctx, x: relay.tanh(x), "gelu": gelu, "swish": silu,
}  # fmt: skip


def named(name: str):
    """Return the activation function with the given name."""
    if name not in BY_NAME:
        raise TVMError(f"the activation {name!r} is not supported; supported are {', '.join(sorted(BY_NAME))[2:]}")
    return BY_NAME[name]


__all__ = ["named"]
