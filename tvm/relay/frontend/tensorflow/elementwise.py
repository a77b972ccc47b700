"""Converters of element-wise operators with one and two operands."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import tensorflow_ops as alike
from .table import Context, op

# -- one operand ------------------------------------------------------------------------------------------------------


def _one(name: str, function) -> None:
    op(name)(lambda ctx, inputs, attrs: function(inputs[0]))


for _name in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor",
              "Log", "Round", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"):  # fmt: skip
    _one(_name, getattr(relay, _name.lower()))
_one("Neg", relay.negative)
_one("Rint", relay.round)
_one("Square", lambda x: relay.multiply(x, x))
_one("LogicalNot", relay.logical_not)
_one("Invert", relay.bitwise_not)
_one("Relu", relay.nn.relu)
_one("Relu6", lambda x: relay.clip(x, 0.0, 6.0))
for _name in ("IsFinite", "IsInf", "IsNan"):
    _one(_name, getattr(relay, _name.lower()))


@op("Reciprocal", "Inv")
def reciprocal(ctx, inputs, attrs):
    return relay.divide(ctx.like(1, inputs[0]), inputs[0])


@op("Log1p")
def log1p(ctx, inputs, attrs):
    """Compute log(1 + x) near zero with a correction: a quotient cancels the rounding error of the sum."""
    x, one = inputs[0], ctx.like(1, inputs[0])
    total = relay.add(one, x)
    lost = relay.subtract(total, one)
    is_lost, is_far = relay.equal(lost, ctx.like(0, x)), relay.isinf(total)
    scaled = relay.multiply(relay.log(total), relay.divide(x, relay.where(is_lost, one, lost)))
    return relay.where(is_lost, x, relay.where(is_far, total, scaled))


@op("Expm1")
def expm1(ctx, inputs, attrs):
    """Compute 2 sinh(x/2) exp(x/2) near zero, where the difference would cancel."""
    x, half = inputs[0], ctx.like(0.5, inputs[0])
    middle = relay.multiply(x, half)
    near = relay.multiply(relay.multiply(ctx.like(2, x), relay.sinh(middle)), relay.exp(middle))
    is_near = relay.less(relay.abs(x), ctx.like(1, x))
    return relay.where(is_near, near, relay.subtract(relay.exp(x), ctx.like(1, x)))


@op("Erfc")
def erfc(ctx, inputs, attrs):
    return relay.subtract(ctx.like(1, inputs[0]), relay.erf(inputs[0]))


@op("Elu")
def elu(ctx, inputs, attrs):
    x = inputs[0]
    return relay.where(relay.less(x, ctx.like(0, x)), expm1(ctx, inputs, attrs), x)


@op("Selu")
def selu(ctx, inputs, attrs):
    x = inputs[0]
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    below = relay.multiply(ctx.like(scale * alpha, x), expm1(ctx, inputs, attrs))
    return relay.where(relay.less(x, ctx.like(0, x)), below, relay.multiply(ctx.like(scale, x), x))


@op("LeakyRelu")
def leaky_relu(ctx, inputs, attrs):
    x = inputs[0]
    return relay.where(relay.less(x, ctx.like(0, x)), relay.multiply(x, ctx.like(attrs.get("alpha", 0.2), x)), x)


@op("Softplus")
def softplus(ctx, inputs, attrs):
    x = inputs[0]
    small = log1p(ctx, [ctx.made(relay.exp(relay.negative(relay.abs(x))))], attrs)
    return relay.add(relay.maximum(x, ctx.like(0, x)), small)


@op("Softsign")
def softsign(ctx, inputs, attrs):
    return relay.divide(inputs[0], relay.add(ctx.like(1, inputs[0]), relay.abs(inputs[0])))


@op("Cast")
def cast(ctx, inputs, attrs):
    x, kind = inputs[0], ctx.kind(attrs, "DstT", "")
    if kind == "bool" and ctx.dtype(x) != "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return x if ctx.dtype(x) == kind else relay.cast(x, kind)


@op("Bitcast")
def bitcast(ctx, inputs, attrs):
    kind = ctx.kind(attrs, "type", "")
    if np.dtype(kind).itemsize != np.dtype(ctx.dtype(inputs[0])).itemsize:
        raise TVMError(f"bitcast from {ctx.dtype(inputs[0])} to {kind} is not supported")
    return relay.reinterpret(inputs[0], kind)


@op("ClipByValue")
def clip_by_value(ctx, inputs, attrs):
    return relay.maximum(relay.minimum(inputs[0], inputs[2]), inputs[1])


# -- two operands -----------------------------------------------------------------------------------------------------


def _two(name: str, function) -> None:
    op(name)(lambda ctx, inputs, attrs: function(*inputs[:2]))


for _names, _function in (
    ("Add AddV2", relay.add), ("Sub", relay.subtract), ("Mul", relay.multiply), ("RealDiv", relay.divide),
    ("Maximum", relay.maximum), ("Minimum", relay.minimum), ("Pow", relay.power), ("Equal", relay.equal),
    ("NotEqual", relay.not_equal), ("Less", relay.less), ("LessEqual", relay.less_equal), ("Greater", relay.greater),
    ("GreaterEqual", relay.greater_equal), ("LogicalAnd", relay.logical_and), ("LogicalOr", relay.logical_or),
    ("BitwiseAnd", relay.bitwise_and), ("BitwiseOr", relay.bitwise_or), ("BitwiseXor", relay.bitwise_xor),
    ("LeftShift", relay.left_shift), ("RightShift", relay.right_shift), ("TruncateMod Mod", relay.trunc_mod),
):  # fmt: skip
    for _name in _names.split():
        _two(_name, _function)


@op("Div", "TruncateDiv")
def divide(ctx, inputs, attrs):
    return (relay.divide if ctx.is_float(inputs[0]) else relay.trunc_divide)(*inputs[:2])


op("FloorDiv")(alike.floor_divide)


@op("FloorMod")
def floor_mod(ctx, inputs, attrs):
    return relay.floor_mod(*inputs[:2])


def _where_zero(ctx: Context, y: RelayExpr, zero: RelayExpr, value: RelayExpr) -> RelayExpr:
    return relay.where(relay.equal(y, ctx.like(0, y)), zero, value)


@op("DivNoNan")
def div_no_nan(ctx, inputs, attrs):
    x, y = inputs[:2]
    safe = _where_zero(ctx, y, ctx.like(1, y), y)
    return _where_zero(ctx, y, ctx.like(0, x), relay.divide(x, safe))


@op("MulNoNan")
def mul_no_nan(ctx, inputs, attrs):
    x, y = inputs[:2]
    return _where_zero(ctx, y, ctx.like(0, x), relay.multiply(x, y))


@op("Xdivy")
def xdivy(ctx, inputs, attrs):
    x, y = inputs[:2]
    return _where_zero(ctx, x, ctx.like(0, x), relay.divide(x, y))


@op("Xlogy")
def xlogy(ctx, inputs, attrs):
    x, y = inputs[:2]
    return _where_zero(ctx, x, ctx.like(0, x), relay.multiply(x, relay.log(y)))


@op("Xlog1py")
def xlog1py(ctx, inputs, attrs):
    x, y = inputs[:2]
    return _where_zero(ctx, x, ctx.like(0, x), relay.multiply(x, log1p(ctx, [y], attrs)))


op("SquaredDifference")(alike.squared_difference)


@op("ApproximateEqual")
def approximate_equal(ctx, inputs, attrs):
    distance = relay.abs(relay.subtract(*inputs[:2]))
    return relay.less(distance, ctx.like(attrs.get("tolerance", 1e-5), inputs[0]))


op("Atan2")(alike.atan2)


@op("AddN", "AccumulateNV2")
def add_n(ctx, inputs, attrs):
    out = inputs[0]
    for x in inputs[1:]:
        out = relay.add(out, x)
    return out


@op("Select")
def select(ctx, inputs, attrs):
    """Select elements; a condition vector selects whole rows."""
    condition, x, y = inputs[:3]
    rank = ctx.rank(x)
    if ctx.rank(condition) == 1 and rank > 1:
        condition = relay.reshape(condition, (-1, *[1] * (rank - 1)))
    return relay.where(condition, x, y)


@op("SelectV2")
def select_v2(ctx, inputs, attrs):
    return relay.where(*inputs[:3])


# -- fake quantization ------------------------------------------------------------------------------------------------


def _fake_quant(ctx: Context, x: RelayExpr, low, high, attrs) -> RelayExpr:
    """Round to the nearest quantization step between two limits, which are shifted so that zero is a step."""
    bits = attrs.get("num_bits", 8)
    if not 2 <= bits <= 16:
        raise TVMError(f"fake quantization with {bits} bits is not supported")
    least = np.float32(1 if attrs.get("narrow_range", False) else 0)
    most = np.float32((1 << bits) - 1)
    low, high = (np.asarray(v, "float32") for v in (low, high))
    if (low > 0).any() or (high < 0).any() or not (low < high).all():
        raise TVMError("the quantization range must contain zero")
    scale = ((high - low) / (most - least)).astype("float32")
    zero = np.floor(np.clip(least - low / scale, least, most) + np.float32(0.5)).astype("float32")
    first, last = ((v - zero) * scale for v in (least, most))
    inside = relay.minimum(relay.maximum(x, const(first)), const(last))
    steps = relay.floor(
        relay.add(relay.multiply(relay.subtract(inside, const(first)), const(np.float32(1) / scale)), const(0.5))
    )
    return relay.add(relay.multiply(steps, const(scale)), const(first))


@op("Dequantize")
def dequantize(ctx, inputs, attrs):
    """Dequantize integers with limits for the whole tensor or for each index of an axis."""
    x, low, high = inputs[:3]
    kind, out = np.iinfo(ctx.dtype(x)), attrs.get("dtype", "float32")
    axis, rank = attrs.get("axis", -1), ctx.rank(x)
    if axis >= rank or axis < -1:
        raise TVMError(f"axis {axis} is out of range for a tensor with {rank} dimensions")
    shape = [-1 if i == axis else 1 for i in range(rank)] if axis >= 0 else ()
    low, high = (relay.reshape(v, shape) for v in (low, high))
    mode, narrow = attrs.get("mode", "MIN_COMBINED"), int(attrs.get("narrow_range", False))
    steps = relay.cast(x, "float64" if kind.bits == 32 else "float32")
    low, high = (relay.cast(v, "float64") if kind.bits == 32 else v for v in (low, high))
    span = relay.divide(relay.subtract(high, low), ctx.like(float(kind.max - kind.min), low))
    lift = ctx.like(float(-kind.min), low)
    if mode == "SCALED":
        scale = relay.divide(high, ctx.like(float(kind.max), low))
        if kind.min:
            scale = relay.maximum(relay.divide(low, ctx.like(float(kind.min + narrow), low)), scale)
        real = relay.multiply(steps, scale)
    elif mode == "MIN_COMBINED":
        real = relay.add(relay.multiply(relay.add(steps, lift), span), low)
    elif mode == "MIN_FIRST":
        # Round the minimum to a multiple of the step, so that zero is exact.
        least = relay.multiply(relay.round(relay.divide(low, span)), span)
        real = relay.add(least, relay.multiply(relay.add(steps, lift), span))
    else:
        raise TVMError(f"unknown mode '{mode}'")
    return relay.cast(real, out)


@op("FakeQuantWithMinMaxArgs")
def fake_quant_args(ctx, inputs, attrs):
    return _fake_quant(ctx, inputs[0], attrs.get("min", -6.0), attrs.get("max", 6.0), attrs)


@op("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars(ctx, inputs, attrs):
    return _fake_quant(ctx, inputs[0], *(ctx.array(v, "the limits") for v in inputs[1:3]), attrs)
