"""Converters of unary and binary element-wise operators."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from .schema import DTYPES
from .table import Tensor, op

_ONE = {
    "Negate": relay.negative, "Sigmoid": relay.sigmoid, "StableSigmoid": relay.sigmoid, "Tanh": relay.tanh,
    "ReLU": relay.nn.relu, "Exp": relay.exp, "Log": relay.log, "Sqrt": relay.sqrt, "Floor": relay.floor,
    "Abs": relay.abs, "Sin": relay.sin, "Cos": relay.cos, "Tan": relay.tan, "Sinh": relay.sinh, "Cosh": relay.cosh,
    "Asin": relay.asin, "Acos": relay.acos, "Atan": relay.atan, "Asinh": relay.asinh, "Atanh": relay.atanh,
}  # fmt: skip
for _name, _build in _ONE.items():
    op(_name)(lambda ctx, inputs, attrs, build=_build: Tensor(build(inputs[0].expr), inputs[0].lead))


@op("Pass", "NoOp", "StopGradient", "Dropout")
def unchanged(ctx, inputs, attrs):
    return inputs[0]


@op("Reciprocal")
def reciprocal(ctx, inputs, attrs):
    x = inputs[0]
    return Tensor(relay.divide(ctx.like(1, x.expr), x.expr), x.lead)


@op("ELU")
def elu(ctx, inputs, attrs):
    x, lead = inputs[0]
    below = relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x))
    below = relay.multiply(below, ctx.like(float(attrs.get("alpha", 1.0)), x))
    return Tensor(relay.where(relay.less(x, ctx.like(0, x)), below, x), lead)


@op("StraightThrough")
def straight_through(ctx, inputs, attrs):
    """Return 1 for positive elements and -1 for the others, including zero."""
    x, lead = inputs[0]
    return Tensor(relay.where(relay.greater(x, ctx.like(0, x)), ctx.like(1, x), ctx.like(-1, x)), lead)


@op("Cast")
def cast(ctx, inputs, attrs):
    number = attrs.get("newDataType")
    if number not in DTYPES:
        raise TVMError(f"element type {number} is not supported")
    return Tensor(relay.cast(inputs[0].expr, DTYPES[number]), inputs[0].lead)


# -- two or more inputs ------------------------------------------------------------------------------------------------


def _pair(build):
    def convert(ctx, inputs, attrs):
        sides, lead = ctx.aligned(*inputs)
        return Tensor(build(*sides), lead)

    return convert


op("Plus")(_pair(relay.add))
op("Minus")(_pair(relay.subtract))
op("ElementTimes")(_pair(relay.multiply))
op("Pow")(_pair(relay.power))


@op("LogPlus")
def log_plus(ctx, inputs, attrs):
    """Return ``log(exp(a) + exp(b))``."""
    (a, b), lead = ctx.aligned(*inputs)
    gap = relay.negative(relay.abs(relay.subtract(a, b)))
    return Tensor(relay.add(relay.maximum(a, b), relay.log(relay.add(relay.exp(gap), ctx.like(1, a)))), lead)


_COMPARED = {"Equal": relay.equal, "NotEqual": relay.not_equal, "Less": relay.less, "LessEqual": relay.less_equal,
             "Greater": relay.greater, "GreaterEqual": relay.greater_equal}  # fmt: skip


def _comparison(build):
    def convert(ctx, inputs, attrs):
        """Compare; the output is 1 or 0 in the element type of the inputs."""
        sides, lead = ctx.aligned(*inputs)
        return Tensor(relay.cast(build(*sides), ctx.dtype(inputs[0].expr)), lead)

    return convert


for _name, _build in _COMPARED.items():
    op(_name)(_comparison(_build))


@op("Clip")
def clip(ctx, inputs, attrs):
    """Clip the data to bounds, which are tensors."""
    (x, low, high), lead = ctx.aligned(*inputs)
    return Tensor(relay.minimum(relay.maximum(x, low), high), lead)


@op("Select")
def select(ctx, inputs, attrs):
    """Return the first value where the condition is not zero, else the second."""
    (condition, yes, no), lead = ctx.aligned(*inputs)
    return Tensor(relay.where(relay.not_equal(condition, ctx.like(0, condition)), yes, no), lead)


@op("PerDimMeanVarNormalization")
def normalized(ctx, inputs, attrs):
    """Return ``(x - mean) * inverse deviation``. The file may store the statistics as flat vectors."""
    x = inputs[0]
    mean, inverse = (Tensor(relay.reshape(t.expr, ctx.sizes(x)), 0) for t in inputs[1:3])
    return Tensor(relay.multiply(relay.subtract(x.expr, mean.expr), inverse.expr), x.lead)


@op("PerDimMeanVarDeNormalization")
def denormalized(ctx, inputs, attrs):
    x = inputs[0]
    mean, inverse = (Tensor(relay.reshape(t.expr, ctx.sizes(x)), 0) for t in inputs[1:3])
    return Tensor(relay.add(relay.divide(x.expr, inverse.expr), mean.expr), x.lead)
