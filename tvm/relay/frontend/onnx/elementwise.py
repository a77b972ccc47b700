"""Converters of element-wise operators: arithmetic, comparisons, bitwise operators, activations and casts."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from .load import onnx_dtype, sparse_array
from .small_types import SmallType, decode, encode, small_type
from .table import argument, axis_of, op

_SAME = {
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
    "Abs": "abs",
    "Neg": "negative",
    "Floor": "floor",
    "Ceil": "ceil",
    "Erf": "erf",
    "Sign": "sign",
    "Not": "logical_not",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "IsNaN": "isnan",
    "Round": "round",
    "BitwiseNot": "bitwise_not",
}
_TWO = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Equal": "equal",
    "Greater": "greater",
    "Less": "less",
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}


def _same(name: str):
    def convert(ctx, inputs, attrs):
        return getattr(relay, name)(inputs[0])

    return convert


def _two(name: str):
    def convert(ctx, inputs, attrs):
        return getattr(relay, name)(inputs[0], aligned(ctx, inputs, attrs))

    return convert


def aligned(ctx, inputs, attrs):
    """Return the right operand, expanded to the ``axis`` attribute of operator sets before 7."""
    a, b = inputs
    if ctx.version >= 7 or not attrs.get("broadcast", 0) or "axis" not in attrs:
        return b
    rest = ctx.rank(a) - axis_of(attrs["axis"], ctx.rank(a)) - ctx.rank(b)
    return relay.expand_dims(b, ctx.rank(b), rest) if rest else b


for _onnx, _name in _SAME.items():
    op(_onnx)(_same(_name))
for _onnx, _name in _TWO.items():
    op(_onnx)(_two(_name))


@op("Sigmoid")
def sigmoid(ctx, inputs, attrs):
    """Compute float16 in float32: 1 + exp(-x) would be rounded before the division."""
    if ctx.dtype(inputs[0]) == "float16":
        return relay.cast(relay.sigmoid(relay.cast(inputs[0], "float32")), "float16")
    return relay.sigmoid(inputs[0])


@op("Div")
def divide(ctx, inputs, attrs):
    a, b = inputs[0], aligned(ctx, inputs, attrs)
    return relay.divide(a, b) if ctx.is_float(a) else relay.trunc_divide(a, b)


@op("Mod")
def mod(ctx, inputs, attrs):
    """Use C's modulo (sign of the dividend) for fmod=1, otherwise Python's modulo (sign of the divisor)."""
    a, b = inputs
    return relay.trunc_mod(a, b) if attrs.get("fmod", 0) else relay.floor_mod(a, b)


@op("BitShift")
def bit_shift(ctx, inputs, attrs):
    """Shift by amounts that can be negative or reach the bit width, for which hardware does not define the result.

    Such amounts shift all bits out: the output is 0, or the sign for a signed right shift.
    """
    x, n = inputs
    width, signed = int(ctx.dtype(x).lstrip("uint")), not ctx.dtype(x).startswith("u")
    inside = relay.less(n, ctx.like(width, n))
    if signed:
        inside = relay.logical_and(inside, relay.greater_equal(n, ctx.like(0, n)))
    function = relay.left_shift if attrs.get("direction") == "LEFT" else relay.right_shift
    shifted = function(x, relay.where(inside, n, ctx.like(width - 1, n)))
    if attrs.get("direction") != "LEFT" and signed:
        return shifted  # an arithmetic right shift by width - 1 already leaves only sign bits
    return relay.where(inside, shifted, relay.zeros_like(shifted))


@op("Pow")
def power(ctx, inputs, attrs):
    base, exponent = inputs[0], aligned(ctx, inputs, attrs)
    kept = ctx.dtype(base)
    known = ctx.value(exponent)
    if known is not None and known.size == 1 and known.item() == 2:
        return relay.multiply(base, base)
    if ctx.dtype(exponent) == kept:
        return relay.power(base, exponent)
    if ctx.is_float(base):
        return relay.power(base, relay.cast(exponent, kept))
    if ctx.is_float(exponent):
        wide = ctx.dtype(exponent)
        return relay.cast(relay.power(relay.cast(base, wide), exponent), kept)
    return relay.power(base, relay.cast(exponent, kept))


@op("Reciprocal")
def reciprocal(ctx, inputs, attrs):
    return relay.divide(ctx.like(1, inputs[0]), inputs[0])


def chain(name: str):
    def convert(ctx, inputs, attrs):
        out = inputs[0]
        for x in inputs[1:]:
            out = getattr(relay, name)(out, x)
        return out

    return convert


op("Max")(chain("maximum"))
op("Min")(chain("minimum"))
op("Sum")(chain("add"))


@op("Mean")
def mean(ctx, inputs, attrs):
    return relay.divide(chain("add")(ctx, inputs, attrs), ctx.like(len(inputs), inputs[0]))


@op("IsInf")
def is_inf(ctx, inputs, attrs):
    x = inputs[0]
    up, down = attrs.get("detect_positive", 1), attrs.get("detect_negative", 1)
    if up and down:
        return relay.isinf(x)
    if not up and not down:
        return relay.zeros_like(relay.isinf(x))
    return relay.equal(x, ctx.like(float("inf") if up else float("-inf"), x))


@op("Clip")
def clip_6(ctx, inputs, attrs):
    low, high = attrs.get("min", -np.finfo("float32").max), attrs.get("max", np.finfo("float32").max)
    return relay.clip(inputs[0], low, high)


@op("Clip", since=11)
def clip(ctx, inputs, attrs):
    out = inputs[0]
    bounds = [argument(inputs, i) for i in (1, 2)]
    if all(isinstance(b, Constant) for b in bounds) and ctx.is_float(out):
        low, high = (b.data.numpy().item() for b in bounds)
        if low <= high:
            return relay.clip(out, low, high)
    if bounds[0] is not None:
        out = relay.maximum(out, bounds[0])
    if bounds[1] is not None:
        out = relay.minimum(out, bounds[1])
    return out


@op("Cast")
def cast(ctx, inputs, attrs):
    to = attrs["to"]
    if isinstance(to, str):
        # Early operator sets store the element type as a string.
        from onnx import TensorProto

        to = TensorProto.DataType.Value(to)
    return _cast(ctx, inputs[0], onnx_dtype(to), small_type(to), attrs)


def _cast(ctx, x, dtype: str, kind: SmallType | None, attrs):
    """Cast to an element type, or to the uint8/int8 storage of a small type."""
    have = ctx.small(x)
    ctx.made_small = kind
    if have is not None and have == kind:
        return x
    if have is not None:
        x = decode(ctx, x, have)
    if kind is not None:
        return encode(ctx, x, kind, bool(attrs.get("saturate", 1)), attrs.get("round_mode", "up"))
    return cast_to(ctx, x, dtype)


def cast_to(ctx, x, dtype: str):
    if ctx.dtype(x) == dtype:
        return x
    if dtype == "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return relay.cast(x, dtype)


@op("CastLike")
def cast_like(ctx, inputs, attrs):
    return _cast(ctx, inputs[0], ctx.dtype(inputs[1]), ctx.small(inputs[1]), attrs)


@op("BitCast")
def bit_cast(ctx, inputs, attrs):
    dtype = onnx_dtype(attrs["to"])
    if "bool" in (dtype, ctx.dtype(inputs[0])):
        return relay.cast(inputs[0], dtype)
    return inputs[0] if dtype == ctx.dtype(inputs[0]) else relay.reinterpret(inputs[0], dtype)


@op("Identity")
def identity(ctx, inputs, attrs):
    return inputs[0]


@op("Where")
def where(ctx, inputs, attrs):
    return relay.where(*inputs)


# -- activations ----------------------------------------------------------------------------------------------------


@op("Relu")
def relu(ctx, inputs, attrs):
    return relay.nn.relu(inputs[0]) if ctx.is_float(inputs[0]) else relay.maximum(inputs[0], ctx.like(0, inputs[0]))


def _negative_part(ctx, x, below):
    """Return x where it is not negative or is NaN, and ``below`` elsewhere."""
    return relay.where(relay.less(x, ctx.like(0, x)), below, x)


@op("LeakyRelu")
def leaky_relu(ctx, inputs, attrs):
    x = inputs[0]
    return _negative_part(ctx, x, relay.multiply(x, ctx.like(attrs.get("alpha", 0.01), x)))


@op("PRelu")
def prelu(ctx, inputs, attrs):
    x, slope = inputs
    if ctx.version < 7 and ctx.rank(slope) == 1 and ctx.rank(x) > 2 and ctx.shape(slope)[0] != 1:
        slope = relay.expand_dims(slope, 1, ctx.rank(x) - 2)
    return _negative_part(ctx, x, relay.multiply(x, slope))


def _grow(ctx, x):
    return relay.subtract(relay.exp(relay.minimum(x, ctx.like(0, x))), ctx.like(1, x))


@op("Elu")
def elu(ctx, inputs, attrs):
    x = inputs[0]
    return _negative_part(ctx, x, relay.multiply(_grow(ctx, x), ctx.like(attrs.get("alpha", 1.0), x)))


@op("Selu")
def selu(ctx, inputs, attrs):
    x = inputs[0]
    alpha, gamma = attrs.get("alpha", 1.67326319217681884765625), attrs.get("gamma", 1.05070102214813232421875)
    return relay.multiply(ctx.like(gamma, x), _negative_part(ctx, x, relay.multiply(_grow(ctx, x), ctx.like(alpha, x))))


@op("Celu")
def celu(ctx, inputs, attrs):
    x = inputs[0]
    alpha = ctx.like(attrs.get("alpha", 1.0), x)
    return _negative_part(ctx, x, relay.multiply(_grow(ctx, relay.divide(x, alpha)), alpha))


@op("HardSigmoid")
def hard_sigmoid(ctx, inputs, attrs):
    x = inputs[0]
    out = relay.add(relay.multiply(x, ctx.like(attrs.get("alpha", 0.2), x)), ctx.like(attrs.get("beta", 0.5), x))
    return relay.clip(out, 0.0, 1.0)


@op("HardSwish")
def hard_swish(ctx, inputs, attrs):
    return relay.multiply(inputs[0], hard_sigmoid(ctx, inputs, {"alpha": 1 / 6, "beta": 0.5}))


def softplus_of(ctx, x):
    """Compute log(1 + exp(x)) without overflow as max(x, 0) + log1p(exp(-|x|))."""
    return relay.add(relay.maximum(x, ctx.like(0, x)), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


@op("Softplus")
def softplus(ctx, inputs, attrs):
    return softplus_of(ctx, inputs[0])


@op("Softsign")
def softsign(ctx, inputs, attrs):
    x = inputs[0]
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


@op("Mish")
def mish(ctx, inputs, attrs):
    return relay.multiply(inputs[0], relay.tanh(softplus_of(ctx, inputs[0])))


@op("Swish")
def swish(ctx, inputs, attrs):
    x = inputs[0]
    return relay.multiply(x, relay.sigmoid(relay.multiply(x, ctx.like(attrs.get("alpha", 1.0), x))))


@op("Gelu")
def gelu(ctx, inputs, attrs):
    return gelu_tanh(ctx, inputs[0]) if attrs.get("approximate", "none") == "tanh" else gelu_erf(ctx, inputs[0])


def gelu_erf(ctx, x):
    half = relay.multiply(x, ctx.like(0.5, x))
    return relay.multiply(half, relay.add(relay.erf(relay.multiply(x, ctx.like(0.5**0.5, x))), ctx.like(1, x)))


def gelu_tanh(ctx, x):
    cube = relay.multiply(relay.multiply(x, relay.multiply(x, x)), ctx.like(0.044715, x))
    inner = relay.multiply(relay.add(x, cube), ctx.like((2 / np.pi) ** 0.5, x))
    return relay.multiply(relay.multiply(x, ctx.like(0.5, x)), relay.add(relay.tanh(inner), ctx.like(1, x)))


@op("ThresholdedRelu")
def thresholded_relu(ctx, inputs, attrs):
    x = inputs[0]
    return relay.where(relay.greater(x, ctx.like(attrs.get("alpha", 1.0), x)), x, relay.zeros_like(x))


@op("Shrink")
def shrink(ctx, inputs, attrs):
    x = inputs[0]
    bias, edge = attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    high = relay.where(relay.greater(x, ctx.like(edge, x)), relay.subtract(x, ctx.like(bias, x)), relay.zeros_like(x))
    return relay.where(relay.less(x, ctx.like(-edge, x)), relay.add(x, ctx.like(bias, x)), high)


@op("Constant")
def constant(ctx, inputs, attrs):
    if "value" in attrs:
        ctx.made_small = small_type(attrs["value"].data_type)
        return Constant(ctx.tensor(attrs["value"]))
    if "sparse_value" in attrs:
        return Constant(sparse_array(attrs["sparse_value"], ctx.importer.folder))
    for key, dtype in (
        ("value_float", "float32"),
        ("value_floats", "float32"),
        ("value_int", "int64"),
        ("value_ints", "int64"),
    ):
        if key in attrs:
            return Constant(np.array(attrs[key], dtype))
    raise TVMError("string constants are not supported")


@op("ai.onnx.ml.Binarizer")
def binarizer(ctx, inputs, attrs):
    x = inputs[0]
    return relay.cast(relay.greater(x, ctx.like(attrs.get("threshold", 0.0), x)), ctx.dtype(x))


@op("ConstantFill")
def constant_fill(ctx, inputs, attrs):
    shape = attrs.get("shape") or ctx.ints(argument(inputs, 0), "the shape")
    return relay.full(const(attrs.get("value", 0.0), "float32"), shape, "float32")
