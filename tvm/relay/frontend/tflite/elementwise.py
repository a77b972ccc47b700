"""Converters of element-wise operators with one and two operands."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import tensorflow_ops as alike
from .quantization import centered, finished, rescaled
from .table import Context, op, quantized, tabled


def activated(ctx: Context, x: RelayExpr, options) -> RelayExpr:
    """Apply the fused activation of an operator."""
    return _ACTIVATIONS[ctx.activation(options.fused_activation)](x)


_ACTIVATIONS = {
    "NONE": lambda x: x,
    "RELU": relay.nn.relu,
    "RELU6": lambda x: relay.clip(x, 0.0, 6.0),
    "RELU_N1_TO_1": lambda x: relay.clip(x, -1.0, 1.0),
    "TANH": relay.tanh,
}


# -- one operand ------------------------------------------------------------------------------------------------------


def _one(name: str, function) -> None:
    tabled(name)(lambda ctx, inputs, options: function(inputs[0]))


for _name in ("EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS", "ABS", "FLOOR", "CEIL", "TANH", "SIGN"):
    _one(_name, getattr(relay, _name.lower()))
_one("NEG", relay.negative)
_one("LOGISTIC", relay.sigmoid)
_one("SQUARE", lambda x: relay.multiply(x, x))
# Ties are rounded to even.
_one("ROUND", relay.round)
_one("LOGICAL_NOT", relay.logical_not)


@tabled("ELU")
def elu(ctx, inputs, options):
    x = inputs[0]
    return relay.where(relay.less(x, const(0.0)), relay.subtract(relay.exp(x), const(1.0)), x)


@tabled("HARD_SWISH")
def hard_swish(ctx, inputs, options):
    x = inputs[0]
    return relay.multiply(x, relay.multiply(relay.clip(relay.add(x, const(3.0)), 0.0, 6.0), const(1 / 6)))


@tabled("GELU")
def gelu(ctx, inputs, options):
    x, half = inputs[0], const(0.5)
    if options.approximate:
        cube = relay.multiply(const(0.044715), relay.multiply(x, relay.multiply(x, x)))
        inner = relay.tanh(relay.multiply(const(float(np.sqrt(2 / np.pi))), relay.add(x, cube)))
    else:
        inner = relay.erf(relay.multiply(x, const(float(np.sqrt(0.5)))))
    return relay.multiply(relay.multiply(half, x), relay.add(const(1.0), inner))


@tabled("LEAKY_RELU")
def leaky_relu(ctx, inputs, options):
    return relay.nn.leaky_relu(inputs[0], options.alpha)


for _name in ("RELU", "RELU6", "RELU_N1_TO_1"):
    op(_name)(lambda ctx, inputs, options, f=_ACTIVATIONS[_name]: f(inputs[0]))
tabled("RELU_0_TO_1")(lambda ctx, inputs, options: relay.clip(inputs[0], 0.0, 1.0))


@quantized("RELU", "RELU6", "RELU_N1_TO_1")
def integer_relu(ctx, inputs, options):
    x, y = ctx.quantization(ctx.tensor(0)), ctx.quantization(ctx.result())
    steps = rescaled(centered(inputs[0], x), np.float64(x.scale[0] / y.scale[0]))
    return finished(steps, ctx.result(), ctx.node.operator)


@quantized("LEAKY_RELU")
def integer_leaky_relu(ctx, inputs, options):
    x, y = ctx.quantization(ctx.tensor(0)), ctx.quantization(ctx.result())
    value = centered(inputs[0], x)
    above = rescaled(value, np.float64(x.scale[0] / y.scale[0]))
    below = rescaled(value, np.float64(x.scale[0] * np.float32(options.alpha) / y.scale[0]))
    return finished(relay.where(relay.greater_equal(value, const(0)), above, below), ctx.result())


@op("PRELU")
def prelu(ctx, inputs, options):
    x, alpha = inputs[:2]
    return relay.where(relay.less(x, ctx.like(0, x)), relay.multiply(x, alpha), x)


@quantized("PRELU")
def integer_prelu(ctx, inputs, options):
    x, a, y = (ctx.quantization(t) for t in (ctx.tensor(0), ctx.tensor(1), ctx.result()))
    value, slope = centered(inputs[0], x), centered(inputs[1], a)
    above = rescaled(value, np.float64(x.scale[0] / y.scale[0]))
    below = rescaled(relay.multiply(value, slope), np.float64(x.scale[0] * a.scale[0] / y.scale[0]))
    return finished(relay.where(relay.greater_equal(value, const(0)), above, below), ctx.result())


@op("CAST")
def cast(ctx, inputs, options):
    kind = ctx.result().dtype
    x = inputs[0]
    if kind == "bool" and ctx.dtype(x) != "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return x if ctx.dtype(x) == kind else relay.cast(x, kind)


# A cast converts the integer values, without dequantizing them.
quantized("CAST")(cast)


@op("BITCAST")
def bitcast(ctx, inputs, options):
    """Reinterpret the bits of an element as another type of the same size."""
    if np.dtype(ctx.dtype(inputs[0])).itemsize != np.dtype(ctx.result().dtype).itemsize:
        raise TVMError(f"cannot bitcast {ctx.tensor(0).type} to {ctx.result().type}")
    return relay.reinterpret(inputs[0], ctx.result().dtype)


@op("FAKE_QUANT")
def fake_quant(ctx, inputs, options):
    """Round to the nearest quantization step of the training."""
    if not 2 <= options.num_bits <= 16 or not options.max > options.min:
        raise TVMError(f"{options.num_bits} bits from {options.min} to {options.max} are not a valid quantization")
    low, high = np.float32(1 if options.narrow_range else 0), np.float32((1 << options.num_bits) - 1)
    scale = np.float32((np.float32(options.max) - np.float32(options.min)) / (high - low))
    zero = np.clip(np.float32(low - np.float32(options.min) / scale), low, high)
    zero = np.floor(zero + np.float32(0.5))
    least, most = (low - zero) * scale, (high - zero) * scale
    inside = relay.clip(inputs[0], float(least), float(most))
    steps = relay.divide(relay.subtract(inside, const(least)), const(scale))
    return relay.add(relay.multiply(relay.floor(relay.add(steps, const(0.5))), const(scale)), const(least))


# -- two operands -----------------------------------------------------------------------------------------------------


def _two(name: str, function, fused: bool = False) -> None:
    def convert(ctx, inputs, options):
        out = function(*inputs[:2])
        return activated(ctx, out, options) if fused else out

    op(name)(convert)


for _name, _function in (("ADD", relay.add), ("SUB", relay.subtract), ("MUL", relay.multiply)):
    _two(_name, _function, fused=True)
for _name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "LOGICAL_AND", "LOGICAL_OR",
              "BITWISE_XOR", "RIGHT_SHIFT"):  # fmt: skip
    _two(_name, getattr(relay, _name.lower()))
for _name in ("MAXIMUM", "MINIMUM"):
    _two(_name, getattr(relay, _name.lower()))
_two("POW", relay.power)


@op("DIV")
def div(ctx, inputs, options):
    function = relay.divide if ctx.is_float(inputs[0]) else relay.trunc_divide
    return activated(ctx, function(*inputs[:2]), options)


op("FLOOR_DIV")(alike.floor_divide)


@op("FLOOR_MOD")
def floor_mod(ctx, inputs, options):
    x, y = inputs[:2]
    if not ctx.is_float(x):
        return relay.floor_mod(x, y)
    # The truncated remainder is exact, while the quotient of a multiple can be rounded up or down.
    rest, zero = relay.mod(x, y), ctx.like(0, x)
    other = relay.not_equal(relay.less(rest, zero), relay.less(y, zero))
    return relay.where(relay.logical_and(other, relay.not_equal(rest, zero)), relay.add(rest, y), rest)


op("SQUARED_DIFFERENCE")(alike.squared_difference)


op("ATAN2")(alike.atan2)


@op("ADD_N")
def add_n(ctx, inputs, options):
    out = inputs[0]
    for x in inputs[1:]:
        out = relay.add(out, x)
    return out


@op("SELECT", "SELECT_V2")
def select(ctx, inputs, options):
    condition, x, y = inputs[:3]
    rank = ctx.rank(x)
    if ctx.node.operator == "SELECT" and ctx.rank(condition) == 1 and rank > 1:
        # A condition vector selects whole rows.
        condition = relay.reshape(condition, (-1, *[1] * (rank - 1)))
    return relay.where(condition, x, y)


# The kernel selects integers, regardless of their scales.
quantized("SELECT", "SELECT_V2")(select)


def _sum(sign: int):
    def convert(ctx, inputs, options):
        a, b, y = (ctx.quantization(t) for t in (ctx.tensor(0), ctx.tensor(1), ctx.result()))
        narrow = ctx.tensor(0).dtype != "int16"
        if not narrow and options.pot_scale_int16 and all(math.frexp(q.scale[0])[0] == 0.5 for q in (a, b, y)):
            raise TVMError("int16 addition with power-of-two scales is not supported")
        # The number of additional bits for which the sum still fits into int32.
        shift = 20 if narrow else 15
        twice = 2.0 * max(float(a.scale[0]), float(b.scale[0]))
        parts = []
        for x, found in ((inputs[0], a), (inputs[1], b)):
            wide = relay.left_shift(centered(x, found), const(shift, "int32"))
            parts.append(rescaled(wide, float(found.scale[0]) / twice))
        total = relay.add(*parts) if sign > 0 else relay.subtract(*parts)
        steps = rescaled(total, twice / ((1 << shift) * float(y.scale[0])))
        return finished(steps, ctx.result(), ctx.activation(options.fused_activation))

    return convert


@quantized("SQUARED_DIFFERENCE")
def integer_squared_difference(ctx, inputs, options):
    a, b, y = (ctx.quantization(t) for t in (ctx.tensor(0), ctx.tensor(1), ctx.result()))
    if ctx.tensor(0).dtype != "int8":
        raise TVMError(f"SQUARED_DIFFERENCE of {ctx.tensor(0).type} is not supported")
    twice = 2.0 * max(float(a.scale[0]), float(b.scale[0]))
    # Add seven bits of precision; the square still fits into int32.
    parts = [rescaled(relay.left_shift(centered(x, q), const(7, "int32")), float(q.scale[0]) / twice)
             for x, q in ((inputs[0], a), (inputs[1], b))]  # fmt: skip
    difference = relay.subtract(*parts)
    return finished(rescaled(relay.multiply(difference, difference), twice**2 / ((1 << 14) * float(y.scale[0]))),
                    ctx.result())  # fmt: skip


quantized("ADD")(_sum(1))
quantized("SUB")(_sum(-1))


@quantized("MUL")
def integer_mul(ctx, inputs, options):
    a, b, y = (ctx.quantization(t) for t in (ctx.tensor(0), ctx.tensor(1), ctx.result()))
    product = relay.multiply(centered(inputs[0], a), centered(inputs[1], b))
    steps = rescaled(product, np.float64(a.scale[0] * b.scale[0] / y.scale[0]))
    return finished(steps, ctx.result(), ctx.activation(options.fused_activation))


@quantized("MAXIMUM", "MINIMUM")
def integer_extreme(ctx, inputs, options):
    first = ctx.quantization(ctx.tensor(0))
    for t in (ctx.tensor(1), ctx.result()):
        found = ctx.quantization(t)
        if found.scale[0] != first.scale[0] or found.zero_point[0] != first.zero_point[0]:
            raise TVMError("operands with different scales are not supported")
    return getattr(relay, ctx.node.operator.lower())(*inputs[:2])


__all__ = ["activated"]
