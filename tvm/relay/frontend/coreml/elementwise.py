"""Converters of element-wise operations."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from .table import Context, half, op

_DTYPES = {"int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32",
           "int64": "int64", "fp16": "float16", "fp32": "float32", "fp64": "float64", "bool": "bool",
           "float16": "float16", "float32": "float32"}  # fmt: skip


def dtype_of(name: str) -> str:
    """Return the element type for its name in ML programs."""
    if name not in _DTYPES:
        raise TVMError(f"the element type '{name}' is not supported")
    return _DTYPES[name]


def _unary(build):
    @half
    def convert(ctx: Context, x):
        return build(x)

    return convert


for _name, _build in {
    "abs": relay.abs, "acos": relay.acos, "asin": relay.asin, "atan": relay.atan, "atanh": relay.atanh,
    "ceil": relay.ceil, "cos": relay.cos, "cosh": relay.cosh, "erf": relay.erf, "exp": relay.exp, "floor": relay.floor,
    "logical_not": relay.logical_not, "round": relay.round, "sign": relay.sign, "sin": relay.sin, "sinh": relay.sinh,
    "sqrt": relay.sqrt, "tan": relay.tan,
}.items():  # fmt: skip
    op(_name)(_unary(_build))


@op("identity")
def identity(ctx, x):
    return x


@op("square")
def square(ctx, x):
    return relay.multiply(x, x)


@op("exp2")
@half
def exp2(ctx, x):
    return relay.exp(relay.multiply(x, ctx.like(math.log(2), x)))


@op("inverse")
@half
def inverse(ctx, x, epsilon: float = 1e-4):
    return relay.divide(ctx.like(1, x), relay.add(x, ctx.like(epsilon, x)))


@op("log")
@half
def log(ctx, x, epsilon: float = 1e-45):
    return relay.log(relay.add(x, ctx.like(epsilon, x)) if epsilon > 1e-40 else x)


@op("rsqrt")
@half
def rsqrt(ctx, x, epsilon: float = 1e-12):
    return relay.rsqrt(relay.add(x, ctx.like(epsilon, x)))


@op("threshold")
def threshold(ctx, x, alpha: float):
    return relay.maximum(x, ctx.like(alpha, x))


@op("clip")
def clip(ctx, x, alpha: float, beta: float):
    return relay.minimum(relay.maximum(x, ctx.like(alpha, x)), ctx.like(beta, x))


@op("cast")
def cast(ctx, x, dtype: str):
    wanted = dtype_of(dtype)
    if wanted == "bool" and ctx.dtype(x) != "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return ctx.cast(x, wanted)


# -- two inputs -------------------------------------------------------------------------------------------------------


def together(ctx: Context, x, y) -> tuple:
    """Convert two tensors to one element type. A constant gets the type of the other tensor."""
    a, b = ctx.dtype(x), ctx.dtype(y)
    if a == b:
        return x, y
    return (ctx.cast(x, b), y) if ctx.value(x) is not None and ctx.value(y) is None else (x, ctx.cast(y, a))


def _binary(build):
    def convert(ctx: Context, x, y):
        return build(*together(ctx, x, y))

    return convert


for _name, _build in {
    "add": relay.add, "sub": relay.subtract, "mul": relay.multiply, "maximum": relay.maximum, "minimum": relay.minimum,
    "equal": relay.equal, "not_equal": relay.not_equal, "less": relay.less, "less_equal": relay.less_equal,
    "greater": relay.greater, "greater_equal": relay.greater_equal, "logical_and": relay.logical_and,
    "logical_or": relay.logical_or, "logical_xor": relay.logical_xor,
}.items():  # fmt: skip
    op(_name)(_binary(_build))


@op("real_div")
def real_div(ctx, x, y):
    x, y = together(ctx, x, y)
    if ctx.is_float(x):
        return relay.divide(x, y)
    return ctx.cast(ctx.made(relay.divide(relay.cast(x, "float32"), relay.cast(y, "float32"))), ctx.dtype(x))


@op("floor_div")
@half
def floor_div(ctx, x, y):
    x, y = together(ctx, x, y)
    return relay.floor(relay.divide(x, y)) if ctx.is_float(x) else relay.floor_divide(x, y)


@op("mod")
@half
def mod(ctx, x, y):
    """Return the remainder of a division, with the sign of the divisor."""
    x, y = together(ctx, x, y)
    if not ctx.is_float(x):
        return relay.floor_mod(x, y)
    return relay.subtract(x, relay.multiply(relay.floor(relay.divide(x, y)), y))


@op("pow")
@half
def power(ctx, x, y):
    x, y = together(ctx, x, y)
    known = ctx.value(y)
    if known is not None and known.shape == () and known == 2:
        return relay.multiply(x, x)
    return relay.power(x, y)


@op("select")
def select(ctx, cond, a, b):
    a, b = together(ctx, a, b)
    condition = cond if ctx.dtype(cond) == "bool" else relay.not_equal(cond, ctx.like(0, cond))
    return relay.where(condition, a, b)


# -- 8-bit quantization -----------------------------------------------------------------------------------------------


def _column(ctx: Context, e, axis: int | None, rank: int):
    """Return a scalar, or a vector reshaped to broadcast along an axis."""
    if ctx.rank(e) == 0 or ctx.shape(e) == (1,):
        return relay.reshape(e, ())
    if axis is None:
        raise TVMError("the input 'axis' of per-channel scales is missing")
    return relay.reshape(e, [-1 if i == axis % rank else 1 for i in range(rank)])


@op("dequantize")
def dequantize(ctx, input, scale, zero_point=None, axis: int | None = None):
    rank, dtype = ctx.rank(input), ctx.dtype(scale)
    x = relay.cast(input, "float32")
    if zero_point is not None:
        x = relay.subtract(x, relay.cast(_column(ctx, zero_point, axis, rank), "float32"))
    return ctx.cast(ctx.made(relay.multiply(x, relay.cast(_column(ctx, scale, axis, rank), "float32"))), dtype)


@op("quantize")
def quantize(ctx, input, scale, output_dtype: str, zero_point=None, axis: int | None = None):
    rank, wanted = ctx.rank(input), dtype_of(output_dtype)
    if wanted not in ("int8", "uint8"):
        raise TVMError(f"quantization to {output_dtype} is not supported; expected int8 or uint8")
    x = relay.round(relay.divide(relay.cast(input, "float32"), relay.cast(_column(ctx, scale, axis, rank), "float32")))
    if zero_point is not None:
        x = relay.add(x, relay.cast(_column(ctx, zero_point, axis, rank), "float32"))
    limits = np.iinfo(wanted)
    return relay.cast(relay.clip(x, float(limits.min), float(limits.max)), wanted)


__all__ = ["dtype_of", "identity", "power", "real_div", "select", "together"]
