"""Activations: as settings of layers, as layers, and as operations of ``keras.ops``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .table import Context, as_numpy, axis_of, const, layer, operation

ACTIVATIONS: dict[str, Callable[..., RelayExpr]] = {}
_LARGE = {"float16": -3e4}


def activation(*names: str):
    """Register a function ``f(ctx, x, **settings)`` for the name of a Keras activation and equivalent ``keras.ops``
    classes.
    """

    def add(function):
        ACTIVATIONS[names[0]] = function
        classes = [n for n in names[1:] if n[0].isupper()]
        ACTIVATIONS.update(dict.fromkeys((n for n in names[1:] if n[0].islower()), function))
        if classes:
            operation(*classes)(function)
        return function

    return add


def activated(ctx: Context, x: RelayExpr, named: Any) -> RelayExpr:
    """Apply the activation in a configuration, given by its name or by a class with settings."""
    settings: dict[str, Any] = {}
    if isinstance(named, dict):
        kind, config = named.get("class_name"), named.get("config")
        if kind == "function" or isinstance(config, str):
            named = config
        else:
            named = _PLAIN.get(str(kind), str(kind))
            settings = {k: v for k, v in config.items() if k in _SETTINGS} if isinstance(config, dict) else {}
    if named is None or named == "linear":
        return x
    function = ACTIVATIONS.get(named) if isinstance(named, str) else None
    if function is None:
        raise TVMError(f"the activation {named!r} is not supported: only the activations of Keras are")
    return ctx.infer(function(ctx, x, **settings))


_PLAIN = {"ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "Softmax": "softmax", "Mish": "mish"}
_SETTINGS = ("negative_slope", "max_value", "threshold", "alpha", "axis", "approximate")


def _least(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return a large negative number that masks a score."""
    return ctx.like(_LARGE.get(ctx.dtype(x), -1e9), x)


@activation("relu", "ReLU", "Relu")
def relu(ctx, x, negative_slope=0.0, max_value=None, threshold=0.0):
    if not negative_slope and not threshold:
        return relay.nn.relu(x) if max_value is None else relay.clip(x, 0.0, float(max_value))
    if negative_slope and max_value is None and not threshold:
        return relay.nn.leaky_relu(x, float(negative_slope))
    zero = ctx.like(0, x)
    out = relay.where(relay.greater(x, ctx.like(threshold, x)), x, zero) if threshold else relay.nn.relu(x)
    out = out if max_value is None else relay.clip(out, 0.0, float(max_value))
    if negative_slope:
        below = relay.nn.relu(relay.subtract(ctx.like(threshold, x), x))
        out = relay.subtract(out, relay.multiply(ctx.like(negative_slope, x), below))
    return out


@activation("relu6", "Relu6")
def relu6(ctx, x):
    return relay.clip(x, 0.0, 6.0)


@activation("leaky_relu", "LeakyRelu")
def leaky_relu(ctx, x, negative_slope=0.2):
    return relay.nn.leaky_relu(x, float(negative_slope))


@activation("softmax", "Softmax")
def softmax(ctx, x, axis=-1):
    return _along(ctx, x, axis, relay.nn.softmax)


@activation("log_softmax", "LogSoftmax")
def log_softmax(ctx, x, axis=-1):
    return _along(ctx, x, axis, relay.nn.log_softmax)


def _along(ctx: Context, x: RelayExpr, axis: Any, function) -> RelayExpr:
    if axis is None:
        return relay.reshape(function(relay.reshape(x, (-1,)), 0), ctx.sizes(x))
    rank = ctx.rank(x)
    if isinstance(axis, (list, tuple)) and len(axis) > 1:
        # Several axes are merged into one axis.
        axes = [axis_of(a, rank) for a in axis]
        order = [*(i for i in range(rank) if i not in axes), *axes]
        moved = relay.transpose(x, order)
        flat = relay.reshape(moved, (*ctx.sizes(ctx.infer(moved))[: rank - len(axes)], -1))
        back = relay.reshape(function(flat, rank - len(axes)), ctx.known_shape(ctx.infer(moved)))
        return relay.transpose(back, [order.index(i) for i in range(rank)])
    axis = axis[0] if isinstance(axis, (list, tuple)) else axis
    return function(x, axis_of(axis, rank))


@activation("elu", "Elu")
def elu(ctx, x, alpha=1.0):
    below = relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x))
    return relay.where(relay.greater(x, ctx.like(0, x)), x, relay.multiply(ctx.like(alpha, x), below))


@activation("selu", "Selu")
def selu(ctx, x):
    return relay.multiply(ctx.like(1.0507009873554805, x), elu(ctx, x, 1.6732632423543772))


@activation("celu", "Celu")
def celu(ctx, x, alpha=1.0):
    zero = ctx.like(0, x)
    below = relay.subtract(relay.exp(relay.divide(relay.minimum(x, zero), ctx.like(alpha, x))), ctx.like(1, x))
    return relay.add(relay.maximum(x, zero), relay.multiply(ctx.like(alpha, x), below))


@activation("softplus", "Softplus")
def softplus(ctx, x):
    # log(1 + exp(x)) without overflow.
    small = relay.log(relay.add(ctx.like(1, x), relay.exp(relay.negative(relay.abs(x)))))
    return relay.add(relay.maximum(x, ctx.like(0, x)), small)


@activation("softsign", "Softsign")
def softsign(ctx, x):
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


@activation("soft_shrink", "SoftShrink")
def soft_shrink(ctx, x, threshold=0.5):
    bound = ctx.like(threshold, x)
    return relay.subtract(x, relay.minimum(relay.maximum(x, relay.negative(bound)), bound))


@activation("hard_shrink", "HardShrink")
def hard_shrink(ctx, x, threshold=0.5):
    return relay.where(relay.greater(relay.abs(x), ctx.like(threshold, x)), x, ctx.like(0, x))


@activation("tanh_shrink", "TanhShrink")
def tanh_shrink(ctx, x):
    return relay.subtract(x, relay.tanh(x))


@activation("threshold", "Threshold")
def threshold(ctx, x, threshold, default_value=None, value=0.0):
    other = value if default_value is None else default_value
    return relay.where(relay.greater(x, ctx.like(threshold, x)), x, ctx.like(other, x))


@activation("sparse_plus", "SparsePlus")
def sparse_plus(ctx, x):
    one = ctx.like(1, x)
    square = relay.multiply(ctx.like(0.25, x), relay.multiply(relay.add(x, one), relay.add(x, one)))
    inner = relay.where(relay.less(x, one), square, x)
    return relay.where(relay.less_equal(x, ctx.like(-1, x)), ctx.like(0, x), inner)


@activation("sparse_sigmoid", "SparseSigmoid")
def sparse_sigmoid(ctx, x):
    half = ctx.like(0.5, x)
    return relay.clip(relay.add(relay.multiply(x, half), half), 0.0, 1.0)


@activation("sigmoid", "Sigmoid")
def sigmoid(ctx, x):
    return relay.sigmoid(x)


@activation("hard_sigmoid", "HardSigmoid")
def hard_sigmoid(ctx, x):
    slope = 1 / 6 if ctx.version >= 3 else 0.2
    return relay.clip(relay.add(relay.multiply(x, ctx.like(slope, x)), ctx.like(0.5, x)), 0.0, 1.0)


@activation("silu", "Silu", "swish")
def silu(ctx, x):
    return relay.multiply(x, relay.sigmoid(x))


@activation("hard_silu", "HardSilu", "hard_swish")
def hard_silu(ctx, x):
    inner = relay.clip(relay.add(relay.multiply(x, ctx.like(1 / 6, x)), ctx.like(0.5, x)), 0.0, 1.0)
    return relay.multiply(x, inner)


@activation("log_sigmoid", "LogSigmoid")
def log_sigmoid(ctx, x):
    return relay.negative(softplus(ctx, relay.negative(x)))


@activation("squareplus", "Squareplus")
def squareplus(ctx, x, b=4):
    root = relay.sqrt(relay.add(relay.multiply(x, x), ctx.like(b, x)))
    return relay.multiply(relay.add(x, root), ctx.like(0.5, x))


@activation("gelu", "Gelu")
def gelu(ctx, x, approximate=False):
    half, one = ctx.like(0.5, x), ctx.like(1, x)
    if approximate:
        cube = relay.multiply(ctx.like(0.044715, x), relay.multiply(x, relay.multiply(x, x)))
        inner = relay.tanh(relay.multiply(ctx.like(math.sqrt(2 / math.pi), x), relay.add(x, cube)))
    else:
        inner = relay.erf(relay.multiply(x, ctx.like(math.sqrt(0.5), x)))
    return relay.multiply(relay.multiply(half, x), relay.add(one, inner))


@activation("glu", "Glu")
def glu(ctx, x, axis=-1):
    left, right = relay.split(x, 2, axis_of(axis, ctx.rank(x)))
    return relay.multiply(left, relay.sigmoid(right))


@activation("tanh", "Tanh")
def tanh(ctx, x):
    return relay.tanh(x)


@activation("hard_tanh", "HardTanh")
def hard_tanh(ctx, x):
    return relay.clip(x, -1.0, 1.0)


@activation("exponential", "Exp")
def exponential(ctx, x):
    return relay.exp(x)


@activation("linear", "Identity")
def linear(ctx, x):
    return x


@activation("mish", "Mish")
def mish(ctx, x):
    return relay.multiply(x, relay.tanh(softplus(ctx, x)))


@activation("sparsemax", "Sparsemax")
def sparsemax(ctx, x, axis=-1):
    axis = axis_of(axis, ctx.rank(x))
    count = ctx.known_size(x, axis)
    ordered = relay.sort(x, axis, False)
    total = relay.cumsum(ordered, axis)
    ranks = np.arange(1, count + 1).reshape([-1 if i == axis else 1 for i in range(ctx.rank(x))])
    ranks = const(ranks.astype(as_numpy(ctx.dtype(x))))
    one, zero = ctx.like(1, x), ctx.like(0, x)
    support = relay.greater(relay.subtract(ordered, relay.divide(relay.subtract(total, one), ranks)), zero)
    support = relay.cast(support, ctx.dtype(x))
    size = relay.sum(support, axis, True)
    # Keras sums the cumulative sums over the support.
    tau = relay.divide(relay.subtract(relay.sum(relay.multiply(support, total), axis, True), one), size)
    return relay.maximum(relay.subtract(x, tau), zero)


# -- layers -----------------------------------------------------------------------------------------------------------


@layer("Activation", masked=True)
def activation_layer(ctx, x):
    return activated(ctx, x, ctx.layer.config.get("activation"))


@layer("ReLU", masked=True)
def relu_layer(ctx, x):
    return relu(ctx, x, ctx.get("negative_slope", 0.0), ctx.get("max_value"), ctx.get("threshold", 0.0))


@layer("ThresholdedReLU", masked=True)
def thresholded_relu_layer(ctx, x):
    return threshold(ctx, x, ctx.get("theta", 1.0), 0.0)


@layer("LeakyReLU", masked=True)
def leaky_relu_layer(ctx, x):
    return leaky_relu(ctx, x, ctx.get("negative_slope", ctx.get("alpha", 0.3)))


@layer("ELU", masked=True)
def elu_layer(ctx, x):
    return elu(ctx, x, ctx.get("alpha", 1.0))


@layer("PReLU", masked=True)
def prelu_layer(ctx, x):
    slope = Constant(ctx.array("alpha")[None])
    below = relay.nn.relu(relay.negative(x))
    return relay.subtract(relay.nn.relu(x), relay.multiply(slope, below))


@layer("Softmax", masked=True)
def softmax_layer(ctx, x, mask=None):
    axis = ctx.get("axis", -1)
    mask = ctx.mask if mask is None else mask
    if mask is None:
        return softmax(ctx, x, axis)
    if ctx.dtype(mask) != "bool":
        mask = relay.greater(mask, ctx.like(0.5, mask))
    out = softmax(ctx, ctx.infer(relay.where(mask, x, _least(ctx, x))), axis)
    return relay.where(mask, out, ctx.like(0, x)) if ctx.version >= 3 else out


__all__ = ["ACTIVATIONS", "activated"]
