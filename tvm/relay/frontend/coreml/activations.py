"""Converters of activation functions."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from .table import Context, axis_of, half, op


@op("relu")
def relu(ctx, x):
    return relay.nn.relu(x)


@op("relu6")
def relu6(ctx, x):
    return relay.clip(x, 0.0, 6.0)


@op("leaky_relu")
def leaky_relu(ctx, x, alpha: float):
    return relay.where(relay.less(x, ctx.like(0, x)), relay.multiply(x, ctx.like(alpha, x)), x)


@op("clamped_relu")
def clamped_relu(ctx, x, alpha: float, beta: float):
    return relay.minimum(leaky_relu(ctx, x, alpha), ctx.like(beta, x))


@op("thresholded_relu")
def thresholded_relu(ctx, x, alpha: float):
    return relay.where(relay.greater_equal(x, ctx.like(alpha, x)), x, ctx.like(0, x))


@op("elu")
@half
def elu(ctx, x, alpha: float):
    # Clamp the argument of exp: elements that `where` discards must not overflow.
    below = relay.minimum(x, ctx.like(0, x))
    grown = relay.multiply(relay.subtract(relay.exp(below), ctx.like(1, x)), ctx.like(alpha, x))
    return relay.where(relay.less(x, ctx.like(0, x)), grown, x)


def along_channels(ctx: Context, vector, x, axis: int):
    """Reshape a vector with one element for each channel, or one for all channels, to broadcast with ``x``."""
    size = ctx.known_shape(vector)
    if len(size) > 1:
        raise TVMError(f"expected a vector with one element for each channel, got shape {size}")
    if size in ((), (1,)):
        return relay.reshape(vector, ())
    rank = ctx.rank(x)
    axis = axis_of(axis, rank)
    if ctx.shape(x)[axis] != size[0]:
        raise TVMError(f"{size[0]} values do not match {ctx.shape(x)[axis]} channels")
    return relay.reshape(vector, [-1 if i == axis else 1 for i in range(rank)])


def sloped(ctx: Context, x, alpha, axis: int):
    slope = along_channels(ctx, alpha, x, axis)
    return relay.where(relay.less(x, ctx.like(0, x)), relay.multiply(x, slope), x)


@op("prelu")
def prelu(ctx, x, alpha):
    return sloped(ctx, x, alpha, 1)


@op("sigmoid")
@half
def sigmoid(ctx, x):
    return relay.sigmoid(x)


@op("tanh")
@half
def tanh(ctx, x):
    return relay.tanh(x)


@op("silu")
@half
def silu(ctx, x):
    return relay.multiply(x, relay.sigmoid(x))


@op("scaled_tanh")
@half
def scaled_tanh(ctx, x, alpha: float = 1.0, beta: float = 1.0):
    return relay.multiply(relay.tanh(relay.multiply(x, ctx.like(beta, x))), ctx.like(alpha, x))


@op("sigmoid_hard")
def sigmoid_hard(ctx, x, alpha: float = 0.2, beta: float = 0.5):
    return relay.clip(linear_activation(ctx, x, alpha, beta), 0.0, 1.0)


@op("linear_activation")
def linear_activation(ctx, x, alpha: float = 1.0, beta: float = 0.0):
    return relay.add(relay.multiply(x, ctx.like(alpha, x)), ctx.like(beta, x))


@op("softplus")
@half
def softplus(ctx, x):
    """Return ``log(1 + exp(x))`` without overflow for large ``x``."""
    rest = relay.log(relay.add(relay.exp(relay.negative(relay.abs(x))), ctx.like(1, x)))
    return relay.add(relay.nn.relu(x), rest)


def grown(ctx: Context, x, alpha, beta, axis: int):
    inner = ctx.made(relay.multiply(x, along_channels(ctx, beta, x, axis)))
    return relay.multiply(softplus(ctx, inner), along_channels(ctx, alpha, x, axis))


@op("softplus_parametric")
@half
def softplus_parametric(ctx, x, alpha, beta):
    return grown(ctx, x, alpha, beta, 1)


@op("softsign")
def softsign(ctx, x):
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


@op("gelu")
@half
def gelu(ctx, x, mode: str = "EXACT"):
    if mode == "EXACT":
        factor = relay.erf(relay.multiply(x, ctx.like(math.sqrt(0.5), x)))
    elif mode == "TANH_APPROXIMATION":
        cube = relay.multiply(relay.multiply(relay.multiply(x, x), x), ctx.like(0.044715, x))
        factor = relay.tanh(relay.multiply(relay.add(x, cube), ctx.like(math.sqrt(2 / math.pi), x)))
    elif mode == "SIGMOID_APPROXIMATION":
        return relay.multiply(x, relay.sigmoid(relay.multiply(x, ctx.like(1.702, x))))
    else:
        raise TVMError(f"the mode '{mode}' is not supported")
    return relay.multiply(relay.multiply(x, ctx.like(0.5, x)), relay.add(factor, ctx.like(1, x)))


@op("softmax")
@half
def softmax(ctx, x, axis: int = -1):
    return relay.nn.softmax(x, axis_of(axis, ctx.rank(x)))


# The activation functions of recurrent layers by name.
NAMED = {"linear": lambda ctx, x: x, "sigmoid": sigmoid, "tanh": tanh, "relu": relu, "scaled_tanh": lambda ctx, x:
         scaled_tanh(ctx, x, 1.7159, 2 / 3), "sigmoid_hard": sigmoid_hard, "hard_sigmoid": sigmoid_hard,
         "softsign": softsign, "softplus": softplus}  # fmt: skip


def named(name: str):
    found = NAMED.get(name.lower())
    if found is None:
        raise TVMError(f"the activation '{name}' is not supported; the supported ones are {', '.join(sorted(NAMED))}")
    return found


__all__ = ["along_channels", "elu", "gelu", "grown", "leaky_relu", "linear_activation", "named", "relu", "scaled_tanh",
           "sigmoid", "sigmoid_hard", "sloped", "softmax", "softplus", "softsign", "tanh",
           "thresholded_relu"]  # fmt: skip
