"""Converters of element-wise operators: arithmetic, comparisons, bitwise operations, casts."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import formulas, run_time
from .table import Context, op

_SAME = {
    "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "abs": "abs", "ceil": "ceil", "floor": "floor", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "sign": "sign", "trunc": "trunc", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip
_TWO = {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply",
    "elementwise_max": "maximum", "elementwise_min": "minimum", "grad_add": "add",
    "minus": "subtract", "equal": "equal", "not_equal": "not_equal", "less_than": "less", "less_equal": "less_equal",
    "greater_than": "greater", "greater_equal": "greater_equal",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip
_LOGICAL = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}


def aligned(ctx: Context, x: RelayExpr, y: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """Reshape two operands to broadcast.

    The operand of lower rank starts at the attribute ``axis`` of the other; by default the trailing axes are aligned.
    """
    axis = ctx.attr("axis", -1)
    if ctx.rank(x) < ctx.rank(y):
        return tuple(reversed(_at(ctx, y, x, axis)))
    return _at(ctx, x, y, axis)


def _at(ctx: Context, x: RelayExpr, y: RelayExpr, axis: int) -> tuple[RelayExpr, RelayExpr]:
    rank, own = ctx.rank(x), ctx.rank(y)
    if axis == -1 or rank == own:
        return x, y
    if not 0 <= axis <= rank:
        raise TVMError(f"axis {axis} is out of range for a tensor of {rank} dimensions")
    # Trailing dimensions of size 1 are dropped.
    while own > 0 and axis + own > rank and ctx.shape(y)[own - 1] == 1:
        y, own = ctx.made(relay.squeeze(y, [own - 1])), own - 1
    if axis + own > rank:
        raise TVMError(f"{own} dimensions from axis {axis} on do not match a tensor of {rank} dimensions")
    rest = rank - axis - own
    return x, relay.expand_dims(y, own, rest) if rest else y


def unary(*names: str):
    """Register a converter ``f(ctx, x)`` of an operator with the single input X."""

    def register(function):
        op(*names)(lambda ctx: function(ctx, ctx.get("X")))
        return function

    return register


def _same(name: str):
    return lambda ctx, x: getattr(relay, name)(x)


def _two(name: str):
    return lambda ctx: getattr(relay, name)(*aligned(ctx, ctx.get("X"), ctx.get("Y")))


for _paddle, _name in _SAME.items():
    unary(_paddle)(_same(_name))
for _paddle, _name in _TWO.items():
    op(_paddle)(_two(_name))


def as_bool(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Convert numbers to booleans."""
    return e if ctx.dtype(e) == "bool" else relay.not_equal(e, ctx.like(0, e))


def _logical(name: str):
    def convert(ctx):
        x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
        return getattr(relay, name)(as_bool(ctx, x), as_bool(ctx, y))

    return convert


for _paddle, _name in _LOGICAL.items():
    op(_paddle)(_logical(_name))


@unary("logical_not")
def logical_not(ctx, x):
    return relay.logical_not(as_bool(ctx, x))


@unary("bitwise_not")
def bitwise_not(ctx, x):
    return relay.logical_not(x) if ctx.dtype(x) == "bool" else relay.bitwise_not(x)


@unary("round")
def round_(ctx, x):
    """Round to a number of decimals, half to even."""
    factor = ctx.like(10.0 ** ctx.attr("decimals", 0), x)
    if not ctx.is_float(x) or not ctx.attr("decimals", 0):
        return relay.round(x) if ctx.is_float(x) else x
    return relay.divide(relay.round(relay.multiply(x, factor)), factor)


def away_from_zero(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Round to the nearest integer, half away from zero."""
    size = relay.abs(x)
    whole = relay.floor(size)
    up = relay.greater_equal(relay.subtract(size, whole), ctx.like(0.5, x))
    nearest = relay.where(up, relay.add(whole, ctx.like(1, x)), whole)
    # Large numbers and infinities have no fraction and are returned unchanged.
    return relay.where(relay.equal(size, whole), x, relay.multiply(relay.sign(x), nearest))


@unary("rint")
def rint(ctx, x):
    return relay.round(x)


@unary("square")
def square(ctx, x):
    return relay.multiply(x, x)


@unary("expm1")
def expm1(ctx, x):
    """Return exp(x) - 1. Small values are computed as 2 exp(x/2) sinh(x/2), which avoids cancellation."""
    half = relay.multiply(x, ctx.like(0.5, x))
    near = relay.multiply(relay.multiply(relay.exp(half), relay.sinh(half)), ctx.like(2, x))
    return relay.where(relay.less(relay.abs(x), ctx.like(1, x)), near, relay.subtract(relay.exp(x), ctx.like(1, x)))


@unary("reciprocal")
def reciprocal(ctx, x):
    return relay.divide(ctx.like(1, x), x)


@unary("logit")
def logit(ctx, x):
    eps = ctx.attr("eps", 1e-6)
    if eps:
        x = relay.clip(x, float(eps), 1.0 - float(eps))
    out = relay.log(relay.divide(x, relay.subtract(ctx.like(1, x), x)))
    if eps:
        return out
    outside = relay.logical_or(relay.less(x, ctx.like(0, x)), relay.greater(x, ctx.like(1, x)))
    return relay.where(outside, ctx.like(math.nan, x), out)


@unary("isnan_v2")
def isnan(ctx, x):
    return relay.isnan(x) if ctx.is_float(x) else relay.not_equal(x, x)


@unary("isinf_v2")
def isinf(ctx, x):
    return relay.isinf(x) if ctx.is_float(x) else relay.not_equal(x, x)


@unary("isfinite_v2")
def isfinite(ctx, x):
    return relay.isfinite(x) if ctx.is_float(x) else relay.equal(x, x)


# The first versions of these operators reduce over the whole tensor.
for _name, _all in (("isnan", False), ("isinf", False), ("isfinite", True)):
    _element = {"isnan": isnan, "isinf": isinf, "isfinite": isfinite}[_name]
    unary(_name)(lambda ctx, x, f=_element, every=_all: relay.reshape(
        (relay.all if every else relay.any)(f(ctx, x)), (1,)))  # fmt: skip


@op("elementwise_div")
def divide(ctx):
    x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
    return relay.divide(x, y) if ctx.is_float(x) else relay.trunc_divide(x, y)


@op("elementwise_floordiv")
def floor_divide(ctx):
    x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
    return relay.floor_divide(x, y)


@op("elementwise_mod")
def mod(ctx):
    x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
    return relay.floor_mod(x, y)


@op("elementwise_pow")
def elementwise_pow(ctx):
    x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
    return power(ctx, x, y)


def power(ctx: Context, x: RelayExpr, y: RelayExpr) -> RelayExpr:
    known = ctx.value(y)
    if known is not None and known.size == 1 and known.item() == 2:
        return relay.multiply(x, x)
    if ctx.is_float(x):
        return relay.power(x, y)
    wide = relay.power(relay.cast(x, "float64"), relay.cast(y, "float64"))
    return relay.cast(relay.round(wide), ctx.dtype(x))


@op("pow")
def pow_(ctx):
    x, factor = ctx.get("X"), ctx.maybe("FactorTensor")
    if factor is not None:
        return power(ctx, x, relay.cast(run_time.scalar(ctx, factor, ctx.dtype(factor)), ctx.dtype(x)))
    value = ctx.attr("factor", 1.0)
    if value == 0.5 and ctx.is_float(x):
        return relay.power(x, ctx.like(0.5, x))
    return power(ctx, x, ctx.like(value, x))


@op("elementwise_heaviside")
def heaviside(ctx):
    x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
    step = relay.cast(relay.greater(x, ctx.like(0, x)), ctx.dtype(x))
    return relay.where(relay.equal(x, ctx.like(0, x)), y, relay.where(relay.isnan(x), x, step))


def _without_nan(name: str):
    def convert(ctx):
        """Return the maximum or minimum. If one operand is NaN, the other is returned."""
        x, y = aligned(ctx, ctx.get("X"), ctx.get("Y"))
        if not ctx.is_float(x):
            return getattr(relay, name)(x, y)
        return relay.where(relay.isnan(x), y, relay.where(relay.isnan(y), x, getattr(relay, name)(x, y)))

    return convert


op("elementwise_fmax")(_without_nan("maximum"))
op("elementwise_fmin")(_without_nan("minimum"))


@op("atan2")
def atan2(ctx):
    return formulas.atan2(ctx, ctx.get("X1"), ctx.get("X2"))


@op("scale")
def scale(ctx):
    x = ctx.get("X")
    given = [ctx.maybe("ScaleTensor"), ctx.maybe("BiasTensor")]
    factor, bias = (ctx.like(ctx.attr(n, d), x) if t is None else run_time.scalar(ctx, t, ctx.dtype(x))
                    for n, d, t in zip(("scale", "bias"), (1.0, 0.0), given))  # fmt: skip
    if given[1] is None and not ctx.attr("bias", 0.0):
        return relay.multiply(x, factor)
    if ctx.attr("bias_after_scale", True):
        return relay.add(x if given[0] is None and ctx.attr("scale", 1.0) == 1.0 else relay.multiply(x, factor), bias)
    return relay.multiply(relay.add(x, bias), factor)


@op("clip")
def clip(ctx):
    out = ctx.get("X")
    bounds = [(ctx.maybe("Min"), "min", relay.maximum), (ctx.maybe("Max"), "max", relay.minimum)]
    values = [ctx.value(t) if t is not None else ctx.attr(n) for t, n, _ in bounds]
    if ctx.is_float(out) and all(v is not None for v in values):
        low, high = (float(v) if not hasattr(v, "reshape") else float(v.reshape(-1)[0]) for v in values)
        if low <= high:
            return relay.clip(out, low, high)
    for tensor, name, function in bounds:
        if tensor is not None:
            out = function(out, run_time.scalar(ctx, tensor, ctx.dtype(out)))
        elif ctx.attr(name) is not None:
            out = function(out, ctx.like(ctx.attr(name), out))
    return out


@op("cast")
def cast(ctx):
    return cast_to(ctx, ctx.get("X"), ctx.dtype_attr("out_dtype", "float32"))


def cast_to(ctx: Context, x: RelayExpr, dtype: str) -> RelayExpr:
    if ctx.dtype(x) == dtype:
        return x
    return as_bool(ctx, x) if dtype == "bool" else relay.cast(x, dtype)


@op("sum")
def sum_(ctx):
    out, *rest = ctx.tensors("X")
    for x in rest:
        out = relay.add(out, x)
    return out


@op("where")
def where(ctx):
    return relay.where(ctx.get("Condition"), ctx.get("X"), ctx.get("Y"))


@op("share_data", "memcpy", "memcpy_d2h", "memcpy_h2d", "npu_identity", "print", "depend")
def same(ctx):
    """Return the input unchanged, as for a print operator."""
    return ctx.get("In" if ctx.has("In") else "X")


@op("increment")
def increment(ctx):
    x = ctx.get("X")
    return relay.add(x, ctx.like(ctx.attr("step", 1.0), x))


@op("dropout")
def dropout(ctx):
    """Return the input, scaled by the keep probability in mode ``downgrade_in_infer``."""
    x = ctx.get("X")
    if not ctx.attr("is_test", True):
        raise TVMError("the program is in training mode; clone it with for_test=True or save it for inference")
    if ctx.attr("dropout_implementation", "downgrade_in_infer") == "upscale_in_train":
        return x
    return relay.multiply(x, ctx.like(1.0 - ctx.attr("dropout_prob", 0.5), x))


@op("lerp")
def lerp(ctx):
    x = ctx.get("X")
    return relay.add(x, relay.multiply(ctx.get("Weight"), relay.subtract(ctx.get("Y"), x)))


@op("label_smooth")
def label_smooth(ctx):
    x, prior, eps = ctx.get("X"), ctx.maybe("PriorDist"), ctx.attr("epsilon", 0.0)
    kept = relay.multiply(x, ctx.like(1.0 - eps, x))
    if prior is not None:
        return relay.add(kept, relay.multiply(prior, ctx.like(eps, x)))
    return relay.add(kept, ctx.like(eps / ctx.known_size(x, -1), x))


@op("equal_all")
def equal_all(ctx):
    x, y = ctx.get("X"), ctx.get("Y")
    return const(False) if ctx.shape(x) != ctx.shape(y) else relay.all(relay.equal(x, y))


def _close(ctx: Context) -> RelayExpr:
    x, y = ctx.get("Input"), ctx.get("Other")
    limits = []
    for name, default in (("Rtol", "1e-5"), ("Atol", "1e-8")):
        tensor = ctx.maybe(name)
        limits.append(ctx.like(float(ctx.attr(name.lower(), default)), x) if tensor is None
                      else run_time.scalar(ctx, tensor, ctx.dtype(x)))  # fmt: skip
    room = relay.add(limits[1], relay.multiply(limits[0], relay.abs(y)))
    near = relay.less_equal(relay.abs(relay.subtract(x, y)), room)
    out = relay.logical_or(relay.equal(x, y), relay.logical_and(near, relay.isfinite(y)))
    if ctx.attr("equal_nan", False):
        out = relay.logical_or(out, relay.logical_and(relay.isnan(x), relay.isnan(y)))
    return out


@op("isclose")
def isclose(ctx):
    return _close(ctx)


@op("allclose")
def allclose(ctx):
    return relay.all(_close(ctx))


__all__ = ["aligned", "away_from_zero", "cast_to", "power", "as_bool", "unary"]
