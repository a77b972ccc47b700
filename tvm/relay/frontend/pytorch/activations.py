"""Converters of activation functions."""

from __future__ import annotations

import inspect
import math

from ....error import TVMError
from ... import op as relay
from ..common.formulas import log_softmax
from .dtypes import dtype_name
from .elementwise import cast
from .table import op


@op("relu")
def relu(ctx, self):
    return relay.nn.relu(self) if ctx.is_float(self) else relay.maximum(self, ctx.like(0, self))


@op("relu6")
def relu6(ctx, self):
    return relay.clip(self, 0.0, 6.0)


@op("hardtanh")
def hardtanh(ctx, self, min_val=-1, max_val=1):
    if ctx.is_float(self):
        return relay.clip(self, float(min_val), float(max_val))
    return relay.minimum(relay.maximum(self, ctx.like(int(min_val), self)), ctx.like(int(max_val), self))


@op("leaky_relu")
def leaky_relu(ctx, self, negative_slope=0.01):
    return relay.nn.leaky_relu(self, float(negative_slope))


@op("rrelu")
def rrelu(ctx, self, lower=0.125, upper=1 / 3, training=False):
    if training:
        raise TVMError("the model is in training mode; call eval() before it is traced or exported")
    return relay.nn.leaky_relu(self, (lower + upper) / 2)


@op("prelu", "_prelu_kernel")
def prelu(ctx, self, weight):
    if ctx.rank(weight) == 1 and ctx.rank(self) > 1 and ctx.shape(weight) != (1,):
        weight = relay.reshape(weight, (-1, *[1] * (ctx.rank(self) - 2)))
    zero = ctx.like(0, self)
    return relay.where(relay.greater(self, zero), self, relay.multiply(self, weight))


def _wide(function):
    """Return a function that computes float16 inputs in float32, as PyTorch does."""

    def convert(ctx, self, **given):
        if ctx.dtype(self) in ("float16", "bfloat16"):
            made = function(ctx, ctx.infer(relay.cast(self, "float32")), **given)
            return relay.cast(made, ctx.dtype(self))
        return function(ctx, self, **given)

    convert.__signature__ = inspect.signature(function)  # pyright: ignore[reportFunctionMemberAccess]
    return convert


def _sigmoid(x):
    return relay.sigmoid(x)


@op("silu", "swish")
@_wide
def silu(ctx, self):
    return relay.multiply(self, _sigmoid(self))


@op("hardsigmoid")
@_wide
def hardsigmoid(ctx, self):
    return relay.multiply(relay.clip(relay.add(self, ctx.like(3, self)), 0.0, 6.0), ctx.like(1 / 6, self))


@op("hardswish")
@_wide
def hardswish(ctx, self):
    return relay.multiply(self, hardsigmoid(ctx, self))


@op("gelu")
@_wide
def gelu(ctx, self, approximate="none"):
    half = relay.multiply(self, ctx.like(0.5, self))
    if approximate == "none":
        inner = relay.erf(relay.multiply(self, ctx.like(0.5**0.5, self)))
    else:
        cube = relay.multiply(relay.multiply(self, self), self)
        inner = relay.add(self, relay.multiply(cube, ctx.like(0.044715, self)))
        inner = relay.tanh(relay.multiply(inner, ctx.like(math.sqrt(2 / math.pi), self)))
    return relay.multiply(half, relay.add(inner, ctx.like(1, self)))


@op("mish")
@_wide
def mish(ctx, self):
    return relay.multiply(self, relay.tanh(softplus(ctx, self)))


@op("softplus")
@_wide
def softplus(ctx, self, beta=1, threshold=20):
    scaled = self if beta == 1 else relay.multiply(self, ctx.like(beta, self))
    low = relay.log1p(relay.exp(relay.minimum(scaled, ctx.like(threshold, self))))
    low = low if beta == 1 else relay.divide(low, ctx.like(beta, self))
    return relay.where(relay.greater(scaled, ctx.like(threshold, self)), self, low)


@op("softsign")
def softsign(ctx, self):
    return relay.divide(self, relay.add(relay.abs(self), ctx.like(1, self)))


@op("log_sigmoid")
@_wide
def log_sigmoid(ctx, self):
    low = relay.minimum(self, ctx.like(0, self))
    return relay.subtract(low, relay.log1p(relay.exp(relay.negative(relay.abs(self)))))


@op("log_sigmoid_forward")
def log_sigmoid_forward(ctx, self):
    return log_sigmoid(ctx, self), relay.zeros_like(self)


@op("elu")
@_wide
def elu(ctx, self, alpha=1, scale=1, input_scale=1):
    zero = ctx.like(0, self)
    below = relay.minimum(self, zero)
    below = below if input_scale == 1 else relay.multiply(below, ctx.like(input_scale, self))
    low = relay.multiply(ctx.convert("expm1", ctx.infer(below)), ctx.like(alpha * scale, self))
    high = self if scale == 1 else relay.multiply(self, ctx.like(scale, self))
    return relay.where(relay.greater(self, zero), high, low)


@op("celu")
def celu(ctx, self, alpha=1.0):
    if alpha == 0:
        raise TVMError("alpha must not be 0: the output is divided by alpha")
    return elu(ctx, self, alpha=alpha, input_scale=1 / alpha)


@op("selu")
def selu(ctx, self):
    return elu(ctx, self, alpha=1.6732632423543772, scale=1.0507009873554805)


@op("threshold")
def threshold(ctx, self, threshold, value):
    return relay.where(relay.greater(self, ctx.like(threshold, self)), self, ctx.like(value, self))


@op("hardshrink")
def hardshrink(ctx, self, lambd=0.5):
    outside = relay.greater(relay.abs(self), ctx.like(lambd, self))
    kept = relay.where(outside, self, ctx.like(0, self))
    return relay.where(relay.isnan(self), self, kept)


@op("softshrink")
def softshrink(ctx, self, lambd=0.5):
    step = ctx.like(lambd, self)
    low = relay.where(
        relay.less(self, relay.negative(step)), relay.add(self, step), relay.multiply(self, ctx.like(0, self))
    )
    return relay.where(relay.greater(self, step), relay.subtract(self, step), low)


@op("tanhshrink")
def tanhshrink(ctx, self):
    return relay.subtract(self, relay.tanh(self))


@op("glu")
def glu(ctx, self, dim=-1):
    first, second = relay.split(self, 2, ctx.axis(self, dim))
    return relay.multiply(first, relay.sigmoid(second))


def _typed(ctx, self, dtype, half_to_float=False):
    if dtype is not None:
        return cast(ctx, self, dtype_name(dtype))
    return relay.cast(self, "float32") if half_to_float else ctx.floats(self)


def _normalized(function):
    def convert(ctx, self, dim, dtype=None, half_to_float=False):
        x = ctx.infer(_typed(ctx, self, dtype, half_to_float))
        if ctx.rank(x) == 0:
            return relay.reshape(convert(ctx, ctx.infer(relay.reshape(x, (1,))), 0), ())
        axis = ctx.axis(x, dim)
        if ctx.dtype(x) in ("float16", "bfloat16"):
            return relay.cast(function(relay.cast(x, "float32"), axis), ctx.dtype(x))
        return function(x, axis)

    return convert


op("softmax", "_softmax")(_normalized(relay.nn.softmax))
op("log_softmax", "_log_softmax")(_normalized(log_softmax))


@op("softmin")
def softmin(ctx, self, dim, dtype=None):
    return ctx.convert("softmax", ctx.infer(relay.negative(self)), dim, dtype)


@op("_safe_softmax")
def safe_softmax(ctx, self, dim, dtype=None):
    """Compute a softmax whose rows of only -inf give zeros instead of NaN.

    An element is replaced by zero if the softmax is NaN and the input is -inf. In a row that contains a NaN, the other
    elements stay NaN, and so does each sum over the row. This needs no additional reduction, so that softmax and the
    following operators are fused into one kernel.
    """
    out = ctx.convert("softmax", self, dim, dtype)
    lost = relay.logical_and(relay.isnan(out), relay.equal(self, ctx.like(-math.inf, self)))
    return relay.where(lost, relay.zeros_like(out), out)
