"""Converters of element-wise operators on tensors and numbers."""

from __future__ import annotations

import math
import operator

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common import formulas
from .dtypes import category, dtype_name
from .table import Number, op

# Functions of real numbers; integers are converted to floats first.
_REAL = (
    "exp log log2 log10 log1p sqrt rsqrt sigmoid tanh sinh cosh sin cos tan asin acos atan asinh acosh atanh "
    "erf".split()
)
_SAME = {"abs": "abs", "neg": "negative", "negative": "negative", "sign": "sign", "sgn": "sign", "ceil": "ceil",
         "floor": "floor", "trunc": "trunc", "fix": "trunc", "bitwise_not": "bitwise_not"}  # fmt: skip
_ROUNDING = ("ceil", "floor", "trunc", "fix", "round")
_NUMBERS = {
    "neg": operator.neg, "negative": operator.neg, "abs": abs, "ceil": math.ceil, "floor": math.floor,
    "trunc": math.trunc, "round": round, "sqrt": math.sqrt, "exp": math.exp, "log": math.log,
}  # fmt: skip


def is_number(*values) -> bool:
    """Return whether none of the values is a tensor."""
    return not any(isinstance(v, RelayExpr) for v in values)


def _at_run_time(ctx, function, *values) -> Number:
    """Apply an operation to numbers that are known at run time."""
    return Number(ctx.infer(function(*[v.expr if isinstance(v, Number) else v for v in values])))


def _real(name: str):
    def convert(ctx, self):
        if is_number(self) and not isinstance(self, Number):
            return _NUMBERS[name](self) if name in _NUMBERS else float(getattr(np, name)(self))
        if isinstance(self, Number):
            return _at_run_time(ctx, lambda x: getattr(relay, name)(relay.cast(x, "float64")), self)
        x = ctx.floats(self)
        if ctx.dtype(x) in ("float16", "bfloat16"):
            return relay.cast(getattr(relay, name)(relay.cast(x, "float32")), ctx.dtype(x))
        return getattr(relay, name)(x)

    return convert


for _name in _REAL:
    op(_name)(_real(_name))
for _alias in ("asin", "acos", "atan", "asinh", "acosh", "atanh"):
    op("arc" + _alias[1:])(_real(_alias))


def _same(torch_name: str, name: str):
    def convert(ctx, self):
        if is_number(self) and not isinstance(self, Number):
            return _NUMBERS[torch_name](self)
        if isinstance(self, Number):
            return _at_run_time(ctx, lambda x: getattr(relay, name)(x), self)
        if torch_name in _ROUNDING and not ctx.is_float(self):
            return self
        if ctx.dtype(self) == "bool":
            return relay.logical_not(self) if name == "bitwise_not" else self
        if name == "sign" and ctx.is_float(self):
            return relay.where(relay.isnan(self), ctx.like(0, self), relay.sign(self))
        return getattr(relay, name)(self)

    return convert


for _torch_name, _name in _SAME.items():
    op(_torch_name)(_same(_torch_name, _name))


@op("round")
def round_(ctx, self, decimals=0):
    if is_number(self):
        return round(self)
    if not ctx.is_float(self):
        return self
    if not decimals:
        return relay.round(self)
    scale = ctx.like(10.0 ** abs(decimals), self)
    if decimals > 0:
        return relay.divide(relay.round(relay.multiply(self, scale)), scale)
    return relay.multiply(relay.round(relay.divide(self, scale)), scale)


@op("positive", "clone", "detach", "alias", "contiguous", "lift_fresh", "lift_fresh_copy", "lift", "requires_grad",
    "dropout", "alpha_dropout", "feature_dropout", "resolve_conj", "resolve_neg", "detach_copy", "alias_copy",
    "cpu")  # fmt: skip
def identity(ctx, self, p=None, train=False):
    if train:
        raise TVMError("the model is in training mode; call eval() before it is traced or exported")
    return self


@op("native_dropout")
def native_dropout(ctx, input, p, train):
    if train:
        raise TVMError("the model is in training mode; call eval() before it is exported")
    return input, relay.ones_like(relay.cast(input, "bool"))


# -- two operands -------------------------------------------------------------------------------------------------


def _python(name: str, a, b):
    functions = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}
    return functions[name](a, b)


def _arithmetic(ctx, name: str, a, b):
    """Add, subtract or multiply; for bool operands the operation is logical, as in PyTorch."""
    if isinstance(a, (list, tuple)) or isinstance(a, str):
        return a + b if name == "add" else a * b
    if is_number(a, b) and not isinstance(a, Number) and not isinstance(b, Number):
        return _python(name, a, b)
    late = is_number(a, b)
    x, y = ctx.together(a, b)
    if ctx.dtype(x) == "bool":
        out = {"add": relay.logical_or, "multiply": relay.logical_and, "subtract": relay.logical_xor}[name](x, y)
    else:
        out = getattr(relay, name)(x, y)
    return Number(out) if late else out


def _times(ctx, value, alpha):
    return (
        value
        if not isinstance(alpha, (RelayExpr, Number)) and alpha == 1
        else _arithmetic(ctx, "multiply", value, alpha)
    )


@op("add", "__add__", "__radd__")
def add(ctx, self, other, alpha=1):
    return _arithmetic(ctx, "add", self, _times(ctx, other, alpha))


@op("sub", "subtract", "__sub__")
def sub(ctx, self, other, alpha=1):
    return _arithmetic(ctx, "subtract", self, _times(ctx, other, alpha))


@op("rsub")
def rsub(ctx, self, other, alpha=1):
    return _arithmetic(ctx, "subtract", other, _times(ctx, self, alpha))


@op("mul", "multiply", "__mul__")
def mul(ctx, self, other):
    return _arithmetic(ctx, "multiply", self, other)


@op("div", "divide", "true_divide", "truediv")
def div(ctx, self, other, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(ctx, self, other)
    if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
        return self / other if rounding_mode is None else int(self / other)
    late = is_number(self, other)
    if rounding_mode is None:
        out = relay.divide(*ctx.together(self, other, at_least=2))
    else:
        x, y = ctx.together(self, other, at_least=1)
        out = relay.trunc(relay.divide(x, y)) if ctx.is_float(x) else relay.trunc_divide(x, y)
    return Number(out) if late else out


@op("floor_divide", "floordiv", "__floordiv__")
def floor_divide(ctx, self, other):
    if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
        return self // other
    x, y = ctx.together(self, other, at_least=1)
    out = _floor_of_quotient(ctx, x, y) if ctx.is_float(x) else relay.floor_divide(x, y)
    return Number(out) if is_number(self, other) else out


def _floor_of_quotient(ctx, x, y):
    """Compute the floor of the exact quotient: subtract the remainder before dividing."""
    whole = relay.divide(relay.subtract(x, _remainder(ctx, x, y)), y)
    return relay.where(relay.equal(y, ctx.like(0, y)), relay.divide(x, y), relay.round(whole))


@op("remainder", "__mod__", "mod")
def remainder(ctx, self, other):
    if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
        return self % other
    x, y = ctx.together(self, other, at_least=1)
    out = _remainder(ctx, x, y) if ctx.is_float(x) else relay.floor_mod(x, y)
    return Number(out) if is_number(self, other) else out


def _remainder(ctx, x, y):
    """Compute C's exact remainder, corrected to the sign of the divisor."""
    rest = relay.trunc_mod(x, y)
    zero = ctx.like(0, x)
    other = relay.logical_and(relay.not_equal(rest, zero), relay.not_equal(relay.less(rest, zero), relay.less(y, zero)))
    return relay.where(other, relay.add(rest, y), rest)


@op("fmod")
def fmod(ctx, self, other):
    if is_number(self, other) and not isinstance(self, Number):
        return math.fmod(self, other)
    x, y = ctx.together(self, other, at_least=1)
    return relay.trunc_mod(x, y)


@op("pow")
def power(ctx, self, other):
    if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
        return self**other
    if isinstance(self, RelayExpr) and isinstance(other, (int, float)):
        known = _known_power(ctx, self, other)
        if known is not None:
            return known
    x, y = ctx.together(self, other, at_least=1)
    if not ctx.is_float(x):
        return relay.cast(relay.round(relay.power(relay.cast(x, "float64"), relay.cast(y, "float64"))), ctx.dtype(x))
    return relay.power(x, y)


def _known_power(ctx, x, exponent):
    """Convert small constant exponents to multiplications and square roots."""
    if not ctx.is_float(x) and (exponent != int(exponent) or isinstance(exponent, float)):
        x = ctx.floats(x)
    if exponent == 2:
        return relay.multiply(x, x)
    if exponent == 3:
        return relay.multiply(relay.multiply(x, x), x)
    if exponent == 1:
        return x
    if ctx.is_float(x) and exponent in (0.5, -0.5, -1):
        return {0.5: relay.sqrt, -0.5: relay.rsqrt, -1: lambda v: relay.divide(ctx.like(1, v), v)}[exponent](x)
    return None


def _logical(name: str, function):
    def convert(ctx, self, other):
        if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
            return function(bool(self), bool(other))
        x, y = (as_bool(ctx, v) for v in (self, other))
        out = getattr(relay, name)(x, y)
        return Number(out) if is_number(self, other) else out

    return convert


def as_bool(ctx, value) -> RelayExpr:
    """Return whether elements are not zero."""
    x = ctx.tensor(value)
    return x if ctx.dtype(x) == "bool" else relay.not_equal(x, ctx.like(0, x))


for _name, _function in (("and", lambda a, b: a and b), ("or", lambda a, b: a or b), ("xor", operator.xor)):
    op(f"logical_{_name}")(_logical(f"logical_{_name}", _function))


@op("logical_not", "__not__")
def logical_not(ctx, self):
    if isinstance(self, Number):
        return Number(relay.logical_not(as_bool(ctx, self)))
    if is_number(self):
        return not self
    return relay.logical_not(as_bool(ctx, self))


def _bits(name: str, function):
    def bits(ctx, self, other):
        if is_number(self, other) and not isinstance(self, Number) and not isinstance(other, Number):
            return function(self, other)
        x, y = ctx.together(self, other)
        out = getattr(relay, ("logical_" if ctx.dtype(x) == "bool" else "bitwise_") + name)(x, y)
        return Number(out) if is_number(self, other) else out

    return bits


op("bitwise_and", "__and__")(_bits("and", operator.and_))
op("bitwise_or", "__or__")(_bits("or", operator.or_))
op("bitwise_xor", "__xor__")(_bits("xor", operator.xor))


@op("bitwise_left_shift", "__lshift__")
def left_shift(ctx, self, other):
    return relay.left_shift(*ctx.together(self, other))


@op("bitwise_right_shift", "__rshift__")
def right_shift(ctx, self, other):
    return relay.right_shift(*ctx.together(self, other))


def nan_kept(ctx, name: str, a, b):
    """Return the maximum or minimum of two operands; NaN if one of them is NaN."""
    if is_number(a, b) and not isinstance(a, Number) and not isinstance(b, Number):
        return max(a, b) if name == "maximum" else min(a, b)
    x, y = ctx.together(a, b)
    if ctx.dtype(x) == "bool":
        out = (relay.logical_or if name == "maximum" else relay.logical_and)(x, y)
    else:
        out = getattr(relay, name)(x, y)
        if ctx.is_float(x):
            out = relay.where(relay.isnan(x), relay.add(x, y), relay.where(relay.isnan(y), relay.add(x, y), out))
    return Number(out) if is_number(a, b) else out


@op("maximum")
def maximum(ctx, self, other):
    return nan_kept(ctx, "maximum", self, other)


@op("minimum")
def minimum(ctx, self, other):
    return nan_kept(ctx, "minimum", self, other)


@op("fmax")
def fmax(ctx, self, other):
    x, y = ctx.together(self, other)
    return relay.where(relay.isnan(y), x, relay.where(relay.isnan(x), y, relay.maximum(x, y)))


@op("fmin")
def fmin(ctx, self, other):
    x, y = ctx.together(self, other)
    return relay.where(relay.isnan(y), x, relay.where(relay.isnan(x), y, relay.minimum(x, y)))


@op("atan2", "arctan2")
def atan2(ctx, self, other):
    return formulas.atan2(ctx, *ctx.together(self, other, at_least=2))


@op("where")
def where(ctx, condition, self=None, other=None):
    if self is None and other is None:
        return ctx.convert("nonzero_numpy", condition)
    x, y = ctx.together(self, other)
    return relay.where(as_bool(ctx, condition), x, y)


@op("masked_fill")
def masked_fill(ctx, self, mask, value):
    return relay.where(as_bool(ctx, mask), ctx.tensor(value, ctx.dtype(self)), self)


@op("clamp", "clip")
def clamp(ctx, self, min=None, max=None):
    if is_number(self):
        return _bounded(self, min, max)
    values = [v for v in (self, min, max) if v is not None]
    dtype = ctx.result_type(*values)
    out = ctx.tensor(self, dtype)
    if min is not None and max is not None and all(isinstance(v, (int, float)) for v in (min, max)):
        if min <= max and ctx.is_float(out):
            return relay.clip(out, float(min), float(max))
    if min is not None:
        out = relay.maximum(out, ctx.tensor(min, dtype))
    return out if max is None else relay.minimum(out, ctx.tensor(max, dtype))


def _bounded(value, low, high):
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


@op("clamp_min")
def clamp_min(ctx, self, min):
    return clamp(ctx, self, min)


@op("clamp_max")
def clamp_max(ctx, self, max):
    return clamp(ctx, self, None, max)


# -- composed functions -------------------------------------------------------------------------------------------


@op("reciprocal")
def reciprocal(ctx, self):
    x = ctx.floats(self)
    return relay.divide(ctx.like(1, x), x)


@op("square")
def square(ctx, self):
    return relay.multiply(self, self)


@op("exp2")
def exp2(ctx, self):
    x = ctx.floats(self)
    return relay.power(ctx.like(2, x), x)


@op("expm1")
def expm1(ctx, self):
    """Compute exp(x) - 1 without cancellation near zero, as tanh(x/2) * (exp(x) + 1)."""
    x = ctx.floats(self)
    half = relay.tanh(relay.multiply(x, ctx.like(0.5, x)))
    return relay.multiply(half, relay.add(relay.exp(x), ctx.like(1, x)))


@op("erfc", "special_erfc")
def erfc(ctx, self):
    x = ctx.floats(self)
    return relay.subtract(ctx.like(1, x), relay.erf(x))


@op("erfinv", "special_erfinv")
def inverse_erf(ctx, self):
    return formulas.erfinv(ctx, ctx.infer(ctx.floats(self)))


@op("lgamma", "special_gammaln")
def lgamma(ctx, self):
    return formulas.gamma(True)(ctx, ctx.infer(ctx.floats(self)))


@op("frac")
def frac(ctx, self):
    return relay.subtract(self, relay.trunc(self))


@op("logit")
def logit(ctx, self, eps=None):
    x = ctx.floats(self)
    x = x if eps is None else relay.clip(x, eps, 1 - eps)
    return relay.log(relay.divide(x, relay.subtract(ctx.like(1, x), x)))


@op("xlogy")
def xlogy(ctx, self, other):
    x, y = ctx.together(self, other, at_least=2)
    out = relay.multiply(x, relay.log(y))
    out = relay.where(relay.equal(x, ctx.like(0, x)), relay.zeros_like(out), out)
    return relay.where(relay.isnan(y), y, out)


@op("hypot")
def hypot(ctx, self, other):
    x, y = ctx.together(self, other, at_least=2)
    return relay.sqrt(relay.add(relay.multiply(x, x), relay.multiply(y, y)))


@op("logaddexp")
def logaddexp(ctx, self, other):
    x, y = ctx.together(self, other, at_least=2)
    high = relay.maximum(x, y)
    apart = relay.negative(relay.abs(relay.subtract(x, y)))
    return relay.where(
        relay.equal(x, y), relay.add(high, ctx.like(math.log(2), x)), relay.add(high, relay.log1p(relay.exp(apart)))
    )


@op("deg2rad")
def deg2rad(ctx, self):
    x = ctx.floats(self)
    return relay.multiply(x, ctx.like(math.pi / 180, x))


@op("rad2deg")
def rad2deg(ctx, self):
    x = ctx.floats(self)
    return relay.multiply(x, ctx.like(180 / math.pi, x))


@op("addcmul")
def addcmul(ctx, self, tensor1, tensor2, value=1):
    return add(ctx, self, _times(ctx, _arithmetic(ctx, "multiply", tensor1, tensor2), value))


@op("addcdiv")
def addcdiv(ctx, self, tensor1, tensor2, value=1):
    return add(ctx, self, _times(ctx, div(ctx, tensor1, tensor2), value))


@op("lerp")
def lerp(ctx, self, end, weight):
    x, y, w = ctx.together(self, end, weight)
    return relay.add(x, relay.multiply(w, relay.subtract(y, x)))


@op("nan_to_num")
def nan_to_num(ctx, self, nan=None, posinf=None, neginf=None):
    if not ctx.is_float(self):
        return self
    limits = _limits(ctx.dtype(self))
    out = relay.where(relay.isnan(self), ctx.like(nan or 0.0, self), self)
    for value, sign, limit in ((posinf, 1, limits[1]), (neginf, -1, limits[0])):
        at = relay.logical_and(
            relay.isinf(self), relay.greater(relay.multiply(self, ctx.like(sign, self)), ctx.like(0, self))
        )
        out = relay.where(at, ctx.like(limit if value is None else value, self), out)
    return out


def _limits(dtype: str) -> tuple[float, float]:
    if dtype == "bfloat16":
        return -3.3895313892515355e38, 3.3895313892515355e38
    found = np.finfo(dtype)
    return float(found.min), float(found.max)


def _test(name: str):
    def convert(ctx, self):
        if not ctx.is_float(self):
            return relay.cast(relay.full_like(self, ctx.like(int(name == "isfinite"), self)), "bool")
        return getattr(relay, name)(self)

    return convert


for _name in ("isnan", "isinf", "isfinite"):
    op(_name)(_test(_name))


@op("signbit")
def signbit(ctx, self):
    return relay.less(self, ctx.like(0, self))


# -- types ----------------------------------------------------------------------------------------------------------


def cast(ctx, x, dtype: str):
    """Cast a tensor or number to a tensor of another type; the bool type tests whether elements are not zero."""
    x = ctx.tensor(x)
    if ctx.dtype(x) == dtype:
        return x
    return as_bool(ctx, x) if dtype == "bool" else relay.cast(x, dtype)


@op("to", "_to_copy", "type", "_autocast_to_reduced_precision", "_autocast_to_full_precision")
def to(ctx, self, dtype=None, other=None, cuda_enabled=None, cpu_enabled=None, cuda_dtype=None, cpu_dtype=None):
    if other is not None and isinstance(other, RelayExpr):
        return cast(ctx, self, ctx.dtype(other))
    return self if dtype is None or ctx.name.startswith("_autocast") else cast(ctx, self, dtype_name(dtype))


@op("prims::convert_element_type")
def convert_element_type(ctx, self, dtype):
    """Convert the cast that PyTorch's decompositions insert for promoted types."""
    return cast(ctx, self, dtype_name(dtype))


@op("type_as")
def type_as(ctx, self, other):
    return cast(ctx, self, ctx.dtype(other))


for _torch_name, _dtype in (("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"),
                            ("long", "int64"), ("int", "int32"), ("bool", "bool"), ("byte", "uint8"),
                            ("char", "int8"), ("short", "int16")):  # fmt: skip
    op(_torch_name)(lambda ctx, self, dtype=_dtype: cast(ctx, self, dtype))


@op("can_cast")
def can_cast(ctx, from_, to):
    return category(dtype_name(from_)) <= category(dtype_name(to))


__all__ = ["cast", "clamp", "is_number", "nan_kept", "as_bool"]
