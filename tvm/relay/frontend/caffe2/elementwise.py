"""Converters of unary, binary and n-ary element-wise operators."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .schema import dtype_name
from .table import Context, axis_of, op

# -- one input ---------------------------------------------------------------------------------------------------------

for _name, _build in {
    "Relu": relay.nn.relu, "Sigmoid": relay.sigmoid, "Tanh": relay.tanh, "Exp": relay.exp, "Log": relay.log,
    "Abs": relay.abs, "Sqrt": relay.sqrt, "Rsqrt": relay.rsqrt, "Negative": relay.negative, "Floor": relay.floor,
    "Ceil": relay.ceil, "Sign": relay.sign, "Sin": relay.sin, "Cos": relay.cos, "Tan": relay.tan, "Asin": relay.asin,
    "Acos": relay.acos, "Atan": relay.atan, "Sinh": relay.sinh, "Cosh": relay.cosh, "Not": relay.logical_not,
    "Erf": relay.erf,
}.items():  # fmt: skip
    op(_name)(lambda ctx, inputs, args, build=_build: build(inputs[0]))


@op(
    "Copy",
    "StopGradient",
    "Alias",
    "AliasWithName",
    "EnsureCPUOutput",
    "CopyGPUToCPU",
    "CopyCPUToGPU",
    "CopyFromCPUInput",
    "EnsureDense",
)
def unchanged(ctx, inputs, args):
    return inputs[0]


@op("Dropout")
def dropout(ctx, inputs, args):
    """Return the input unchanged, as at inference, and a mask of ones."""
    return [inputs[0], relay.ones_like(relay.cast(inputs[0], "bool"))] if ctx.wants(1) else inputs[0]


@op("Sqr")
def sqr(ctx, inputs, args):
    return relay.multiply(inputs[0], inputs[0])


@op("Cube")
def cube(ctx, inputs, args):
    return relay.multiply(relay.multiply(inputs[0], inputs[0]), inputs[0])


@op("Cbrt")
def cbrt(ctx, inputs, args):
    x = inputs[0]
    return relay.multiply(relay.sign(x), relay.power(relay.abs(x), ctx.like(1 / 3, x)))


@op("Reciprocal")
def reciprocal(ctx, inputs, args):
    return relay.divide(ctx.like(1, inputs[0]), inputs[0])


@op("Round")
def round_(ctx, inputs, args):
    """Round half away from zero."""
    x = inputs[0]
    return relay.multiply(relay.sign(x), relay.floor(relay.add(relay.abs(x), ctx.like(0.5, x))))


@op("Scale")
def scale(ctx, inputs, args):
    return relay.multiply(inputs[0], ctx.like(float(args.get("scale", 1.0)), inputs[0]))


@op("Clip")
def clip(ctx, inputs, args):
    limits = np.finfo(ctx.dtype(inputs[0])) if ctx.is_float(inputs[0]) else np.iinfo(ctx.dtype(inputs[0]))
    low, high = float(args.get("min", limits.min)), float(args.get("max", limits.max))
    if low > high:
        raise TVMError(f"Clip: min {low} is greater than max {high}")
    return relay.clip(inputs[0], low, high)


@op("ReluN")
def relu_n(ctx, inputs, args):
    return relay.clip(inputs[0], 0.0, float(args.get("n", 6.0)))


@op("Elu")
def elu(ctx, inputs, args):
    x, alpha = inputs[0], float(args.get("alpha", 1.0))
    below = relay.multiply(
        relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x)), ctx.like(alpha, x)
    )
    return relay.where(relay.less(x, ctx.like(0, x)), below, x)


@op("Selu")
def selu(ctx, inputs, args):
    x = inputs[0]
    inner = elu(ctx, inputs, {"alpha": args.get("alpha", 1.6732632423543772848170429916717)})
    return relay.multiply(inner, ctx.like(float(args.get("scale", 1.0507009873554804934193349852946)), x))


@op("LeakyRelu")
def leaky_relu(ctx, inputs, args):
    return relay.nn.leaky_relu(inputs[0], float(args.get("alpha", 0.01)))


@op("PRelu")
def prelu(ctx, inputs, args):
    x, slope = inputs
    count = ctx.known_shape(slope)
    if count == (1,):
        return relay.where(relay.greater(x, ctx.like(0, x)), x, relay.multiply(x, slope))
    along = ctx.along(slope, ctx.channel(x, args), x)
    return relay.where(relay.greater(x, ctx.like(0, x)), x, relay.multiply(x, along))


@op("Softplus")
def softplus(ctx, inputs, args):
    x = inputs[0]
    tail = relay.log(relay.add(relay.exp(relay.negative(relay.abs(x))), ctx.like(1, x)))
    return relay.add(relay.maximum(x, ctx.like(0, x)), tail)


@op("Softsign")
def softsign(ctx, inputs, args):
    return relay.divide(inputs[0], relay.add(relay.abs(inputs[0]), ctx.like(1, inputs[0])))


@op("Swish")
def swish(ctx, inputs, args):
    return relay.multiply(inputs[0], relay.sigmoid(inputs[0]))


@op("HardSigmoid")
def hard_sigmoid(ctx, inputs, args):
    x = inputs[0]
    line = relay.add(
        relay.multiply(x, ctx.like(float(args.get("alpha", 0.2)), x)), ctx.like(float(args.get("beta", 0.5)), x)
    )
    return relay.clip(line, 0.0, 1.0)


@op("ThresholdedRelu")
def thresholded_relu(ctx, inputs, args):
    x, alpha = inputs[0], float(args.get("alpha", 1.0))
    return relay.where(relay.greater(x, ctx.like(alpha, x)), x, ctx.like(0, x))


@op("Logit")
def logit(ctx, inputs, args):
    x, eps = inputs[0], float(args.get("eps", 1e-6))
    if not 0 < eps < 0.5:
        raise TVMError(f"Logit: eps must be between 0 and 0.5, got {eps}")
    x = relay.clip(x, eps, 1.0 - eps)
    return relay.log(relay.divide(x, relay.subtract(ctx.like(1, x), x)))


@op("Gelu")
def gelu(ctx, inputs, args):
    x = inputs[0]
    half = relay.multiply(x, ctx.like(0.5, x))
    if args.get("fast_gelu", 0):
        cubed = relay.multiply(relay.multiply(relay.multiply(x, x), x), ctx.like(0.044715, x))
        inner = relay.tanh(relay.multiply(relay.add(x, cubed), ctx.like(0.7978845608028654, x)))
    else:
        inner = relay.erf(relay.multiply(x, ctx.like(0.7071067811865476, x)))
    return relay.multiply(half, relay.add(inner, ctx.like(1, x)))


@op("Mod")
def mod(ctx, inputs, args):
    """Return the integer remainder with the dividend's sign, or with the divisor's if ``sign_follow_divisor`` is
    set."""
    divisor = args.get("divisor", 0)
    if divisor <= 0:
        raise TVMError(f"Mod: the divisor must be positive, got {divisor}")
    build = relay.floor_mod if args.get("sign_follow_divisor", 0) else relay.trunc_mod
    return build(inputs[0], ctx.like(divisor, inputs[0]))


@op("Cast")
def cast(ctx, inputs, args):
    return relay.cast(inputs[0], dtype_name(args.get("to", 1)))


# -- two inputs --------------------------------------------------------------------------------------------------------


def aligned(ctx: Context, a: RelayExpr, b: RelayExpr, args) -> RelayExpr:
    """Reshape the right operand to broadcast against the left one.

    Older nets set ``broadcast`` and the axis of the left operand at which the right one starts. Without an axis, the
    trailing dimensions are aligned.
    """
    if not args.get("broadcast", 0):
        if "axis" in args and args["axis"] != -1:
            return _placed(ctx, a, b, args["axis"])
        return b
    if "axis_str" in args:
        order = args.get("order", b"NCHW")
        axis = order.find(args["axis_str"])
        if not args["axis_str"] or axis < 0:
            raise TVMError(f"axis_str {args['axis_str']!r} is not part of the order {order!r}")
        return _placed(ctx, a, b, axis)
    axis = args.get("axis", -1)
    return _placed(ctx, a, b, ctx.rank(a) - ctx.rank(b) if axis == -1 else axis)


def _placed(ctx: Context, a: RelayExpr, b: RelayExpr, axis: int) -> RelayExpr:
    rank, own = ctx.rank(a), ctx.known_shape(b)
    if int(np.prod(own)) == 1:
        return relay.reshape(b, ())
    after = rank - axis - len(own)
    if not rank or axis_of(axis, rank) != axis or after < 0:
        raise TVMError(f"a tensor of shape {own} does not match axis {axis} of a tensor with {rank} dimensions")
    return relay.reshape(b, (*own, *[1] * after)) if after else b


for _name, _build in {
    "Add": relay.add, "Sub": relay.subtract, "Mul": relay.multiply, "EQ": relay.equal, "NE": relay.not_equal,
    "LT": relay.less, "LE": relay.less_equal, "GT": relay.greater, "GE": relay.greater_equal,
    "And": relay.logical_and, "Or": relay.logical_or, "Xor": relay.logical_xor, "BitwiseAnd": relay.bitwise_and,
    "BitwiseOr": relay.bitwise_or, "BitwiseXor": relay.bitwise_xor,
}.items():  # fmt: skip
    op(_name)(lambda ctx, inputs, args, build=_build: build(inputs[0], aligned(ctx, inputs[0], inputs[1], args)))


@op("Div")
def divide(ctx, inputs, args):
    """Divide; integers are truncated toward zero."""
    b = aligned(ctx, inputs[0], inputs[1], args)
    return (relay.divide if ctx.is_float(inputs[0]) else relay.trunc_divide)(inputs[0], b)


@op("Pow")
def power(ctx, inputs, args):
    if len(inputs) > 1:
        return relay.power(inputs[0], aligned(ctx, inputs[0], inputs[1], args))
    exponent = float(args.get("exponent", 0.0))
    if exponent == 2:
        return relay.multiply(inputs[0], inputs[0])
    return relay.power(inputs[0], ctx.like(exponent, inputs[0]))


@op("Where")
def where(ctx, inputs, args):
    condition, yes, no = inputs
    if args.get("broadcast_on_rows", 0):
        condition = ctx.along(condition, 0, yes)
    return relay.where(condition, yes, no)


# -- any number of inputs ----------------------------------------------------------------------------------------------


def _folded(build):
    def convert(ctx, inputs, args):
        if not inputs:
            raise TVMError("expected at least 1 input, got none")
        out = inputs[0]
        for other in inputs[1:]:
            out = build(out, other)
        return out

    return convert


_sum = _folded(relay.add)
op("Sum")(_sum)
op("Max")(_folded(relay.maximum))
op("Min")(_folded(relay.minimum))


@op("Mean")
def mean(ctx, inputs, args):
    return relay.divide(_sum(ctx, inputs, args), ctx.like(float(len(inputs)), inputs[0]))


@op("WeightedSum")
def weighted_sum(ctx, inputs, args):
    """Return the sum of the inputs with weights; the inputs alternate between a tensor and its weight."""
    if not inputs or len(inputs) % 2:
        raise TVMError("WeightedSum: expected pairs of a tensor and a weight")
    parts = [relay.multiply(x, relay.reshape(w, ())) for x, w in zip(inputs[::2], inputs[1::2])]
    return _sum(ctx, parts, args)


__all__ = ["aligned"]
