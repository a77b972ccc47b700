"""Converters of element-wise layers and normalizations."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import axis_of
from .table import Context, layer


@layer("Dropout", param="dropout_param")
def dropout(ctx, inputs):
    return ctx.one(inputs)


@layer("ReLU", param="relu_param")
def relu(ctx, inputs):
    slope = ctx.p.float("negative_slope", 0.0)
    return relay.nn.leaky_relu(ctx.one(inputs), slope) if slope else relay.nn.relu(ctx.one(inputs))


@layer("ReLU6", param="relu6_param")
def relu6(ctx, inputs):
    return relay.clip(ctx.one(inputs), 0.0, 6.0)


@layer("PReLU", param="prelu_param")
def prelu(ctx, inputs):
    x = ctx.one(inputs)
    channels = ctx.known_shape(x)[1]
    if ctx.p.bool("channel_shared", False):
        slopes = np.broadcast_to(ctx.blob(0, "slopes", 1), (channels,))
    else:
        slopes = ctx.blob(0, "slopes", channels)
    return relay.nn.prelu(x, ctx.constant(slopes), 1)


@layer("ELU", param="elu_param")
def elu(ctx, inputs):
    x = ctx.one(inputs)
    below = relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x))
    return relay.add(relay.nn.relu(x), relay.multiply(ctx.like(ctx.p.float("alpha", 1.0), x), below))


@layer("Sigmoid", param="sigmoid_param")
def sigmoid(ctx, inputs):
    return relay.sigmoid(ctx.one(inputs))


@layer("TanH", param="tanh_param")
def tanh(ctx, inputs):
    return relay.tanh(ctx.one(inputs))


@layer("Swish", param="swish_param")
def swish(ctx, inputs):
    x = ctx.one(inputs)
    return relay.multiply(x, relay.sigmoid(relay.multiply(x, ctx.like(ctx.p.float("beta", 1.0), x))))


@layer("AbsVal")
def absval(ctx, inputs):
    return relay.abs(ctx.one(inputs))


@layer("BNLL")
def bnll(ctx, inputs):
    x = ctx.one(inputs)
    return relay.add(relay.nn.relu(x), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


@layer("Threshold", param="threshold_param")
def threshold(ctx, inputs):
    x = ctx.one(inputs)
    return relay.cast(relay.greater(x, ctx.like(ctx.p.float("threshold", 0.0), x)), ctx.dtype(x))


@layer("Clip", param="clip_param")
def clip(ctx, inputs):
    if not ctx.p.has("min") or not ctx.p.has("max"):
        raise TVMError("Clip: the parameters min and max are required")
    return relay.clip(ctx.one(inputs), ctx.p.float("min", 0.0), ctx.p.float("max", 0.0))


def _scale_and_shift(ctx: Context, x: RelayExpr, factor: float = 1.0) -> RelayExpr:
    """Return ``(shift + scale * x) * factor`` with the layer's ``shift`` and ``scale``."""
    scale, shift = ctx.p.float("scale", 1.0) * factor, ctx.p.float("shift", 0.0) * factor
    out = x if scale == 1 else relay.multiply(x, ctx.like(scale, x))
    return out if shift == 0 else relay.add(out, ctx.like(shift, x))


@layer("Power", param="power_param")
def power(ctx, inputs):
    x = ctx.one(inputs)
    exponent = ctx.p.float("power", 1.0)
    out = _scale_and_shift(ctx, x)
    if exponent == 1:
        return out
    if exponent == 2:
        return relay.multiply(out, out)
    return relay.power(out, ctx.like(exponent, x))


def _log_of_base(ctx: Context) -> float:
    """Return the natural logarithm of the parameter ``base``; -1, the default, stands for e."""
    base = ctx.p.float("base", -1.0)
    if base != -1 and base <= 0:
        raise TVMError(f"base {base} is not supported; it must be positive, or -1 for e")
    return 1.0 if base == -1 else math.log(base)


@layer("Exp", param="exp_param")
def exp(ctx, inputs):
    return relay.exp(_scale_and_shift(ctx, ctx.one(inputs), _log_of_base(ctx)))


@layer("Log", param="log_param")
def log(ctx, inputs):
    x, base = ctx.one(inputs), _log_of_base(ctx)
    if base == 0:
        raise TVMError("Log: base 1 is not supported, because its logarithm is 0")
    out = relay.log(_scale_and_shift(ctx, x))
    return out if base == 1 else relay.multiply(out, ctx.like(1 / base, x))


# -- several inputs ---------------------------------------------------------------------------------------------------


@layer("Eltwise", param="eltwise_param")
def eltwise(ctx, inputs):
    operation = ctx.p.choice("operation", {"0": "PROD", "1": "SUM", "2": "MAX"}, "SUM")
    factors = ctx.p.floats("coeff")
    if len(inputs) < 2 or len({ctx.known_shape(x) for x in inputs}) > 1:
        raise TVMError(f"expected at least 2 inputs of equal shape, got shapes {[ctx.known_shape(x) for x in inputs]}")
    if factors and (operation != "SUM" or len(factors) != len(inputs)):
        raise TVMError(
            f"{len(factors)} coefficients (coeff) for {operation} with {len(inputs)} inputs are not supported"
        )
    if factors:
        inputs = [x if f == 1 else relay.multiply(x, ctx.like(f, x)) for x, f in zip(inputs, factors)]
    build = {"PROD": relay.multiply, "SUM": relay.add, "MAX": relay.maximum}[operation]
    out = inputs[0]
    for x in inputs[1:]:
        out = build(out, x)
    return out


def _operand(ctx: Context, inputs: list[RelayExpr], number: int, what: str) -> RelayExpr:
    """Return the layer's second input or its weights, reshaped to broadcast with the first input from ``axis`` on."""
    if len(inputs) > 2 or not inputs:
        raise TVMError(f"expected 1 or 2 inputs, got {len(inputs)}")
    shape = ctx.known_shape(inputs[0])
    axis = axis_of(ctx.p.int("axis", 1), len(shape))
    axes = ctx.p.int("num_axes", 1)
    if len(inputs) == 2:
        own = ctx.known_shape(inputs[1])
        return fitted(ctx, inputs[1], shape, axis if own else 0)
    if axes < -1 or axis + axes > len(shape):
        raise TVMError(f"num_axes {axes} from axis {axis} is out of range for an input of shape {shape}")
    sizes = shape[axis:] if axes == -1 else shape[axis : axis + axes]
    return fitted(ctx, ctx.constant(ctx.blob(number, what, *sizes)), shape, axis)


def fitted(ctx: Context, e: RelayExpr, shape: tuple[int, ...], axis: int) -> RelayExpr:
    """Reshape ``e``, which matches ``shape`` from ``axis`` on, with trailing dimensions of 1 so that it broadcasts."""
    own = ctx.known_shape(e)
    if own != shape[axis : axis + len(own)]:
        raise TVMError(f"an operand of shape {own} does not match shape {shape} from axis {axis} on")
    return relay.reshape(e, (*own, *(1,) * (len(shape) - axis - len(own)))) if own else e


@layer("Scale", param="scale_param")
def scale(ctx, inputs):
    out = relay.multiply(inputs[0], _operand(ctx, inputs, 0, "factors"))
    if not ctx.p.bool("bias_term", False):
        return out
    return relay.add(out, _operand(ctx, inputs[:1], 1, "biases") if len(inputs) == 1 else _learned_bias(ctx, inputs))


def _learned_bias(ctx: Context, inputs: list[RelayExpr]) -> RelayExpr:
    """Return the learned bias of a ``Scale`` layer whose scale is an input. The bias has the shape of that input."""
    shape, own = (ctx.known_shape(x) for x in inputs)
    bias = ctx.constant(ctx.blob(0, "biases", *own))
    return fitted(ctx, bias, shape, axis_of(ctx.p.int("axis", 1), len(shape)))


@layer("Bias", param="bias_param")
def bias(ctx, inputs):
    return relay.add(inputs[0], _operand(ctx, inputs, 0, "biases"))


@layer("Axpy")
def axpy(ctx, inputs):
    """Return ``a * x + y`` with one factor ``a`` for each channel."""
    if len(inputs) != 3:
        raise TVMError(f"expected 3 inputs (a, x, y), got {len(inputs)}")
    factor, x, y = inputs
    shape = ctx.known_shape(x)
    return relay.add(relay.multiply(relay.reshape(factor, (*shape[:2], *(1,) * (len(shape) - 2))), x), y)


# -- normalization ----------------------------------------------------------------------------------------------------


@layer("BatchNorm", param="batch_norm_param")
def batch_norm(ctx, inputs):
    x = ctx.one(inputs)
    shape = ctx.known_shape(x)
    channels, eps = (shape[1] if len(shape) > 1 else 1), ctx.p.float("eps", 1e-5)
    ones = (channels, *(1,) * (len(shape) - 2))
    if ctx.p.bool("use_global_stats", True):
        count = float(ctx.blob(2, "number of batches", 1)[0])
        mean, variance = (
            ctx.blob(i, what, channels).astype("float64") * (1 / count if count else 0)
            for i, what in ((0, "means"), (1, "variances"))
        )
        if (variance + eps < 0).any():
            raise TVMError("a variance is negative: the weights file is corrupt")
        factor = 1 / np.sqrt(variance + eps)
        out = relay.add(
            relay.multiply(x, ctx.constant(factor.reshape(ones))), ctx.constant((-mean * factor).reshape(ones))
        )
    else:
        axes = [0, *range(2, len(shape))]
        centred = relay.subtract(x, relay.mean(x, axes, keepdims=True))
        spread = relay.mean(relay.multiply(centred, centred), axes, keepdims=True)
        out = relay.divide(centred, relay.sqrt(relay.add(spread, ctx.like(eps, x))))
    if ctx.p.bool("scale_bias", False):
        out = relay.add(
            relay.multiply(out, ctx.constant(ctx.blob(3, "factors", *ones))), ctx.constant(ctx.blob(4, "biases", *ones))
        )
    return out


@layer("Normalize", param="norm_param")
def normalize(ctx, inputs):
    """Divide by the L2 norm over the channels of each position, or over the whole image with ``across_spatial``."""
    x = ctx.one(inputs)
    shape = ctx.known_shape(x)
    axes = list(range(1, len(shape))) if ctx.p.bool("across_spatial", True) else [1]
    total = relay.sum(relay.multiply(x, x), axes, keepdims=True)
    out = relay.divide(x, relay.sqrt(relay.add(total, ctx.like(ctx.p.float("eps", 1e-10), x))))
    if ctx.p.bool("channel_shared", True):
        return relay.multiply(out, ctx.constant(ctx.blob(0, "factors", 1)))
    return relay.multiply(out, ctx.constant(ctx.blob(0, "factors", shape[1], *(1,) * (len(shape) - 2))))


@layer("MVN", param="mvn_param")
def mvn(ctx, inputs):
    x = ctx.one(inputs)
    axes = list(range(1 if ctx.p.bool("across_channels", False) else 2, ctx.rank(x)))
    centred = relay.subtract(x, relay.mean(x, axes, keepdims=True))
    eps = ctx.p.float("eps", 1e-9)
    if not ctx.p.bool("normalize_variance", True):
        return centred
    spread = relay.sqrt(relay.mean(relay.multiply(centred, centred), axes, keepdims=True))
    return relay.divide(centred, relay.add(spread, ctx.like(eps, x)))


@layer("Softmax", param="softmax_param")
def softmax(ctx, inputs):
    x = ctx.one(inputs)
    return relay.nn.softmax(x, axis_of(ctx.p.int("axis", 1), ctx.rank(x)))


__all__ = ["fitted"]
