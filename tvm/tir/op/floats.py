"""Functions of floating-point numbers."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from ...docstring import docstring
from ...dtype import info, with_lanes
from ...error import ExprTypeError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import Call, FloatImm, IntImm, PrimExpr, bool_like, const
from ...ir.primop import cast, select
from ..descriptions import FLOAT_FUNCTIONS, FLOAT_PAIRS, OPERAND, TWO_OPERANDS
from ..intrinsics import FLOAT_UNARY
from .element import call, element
from .literals import infinity


def _float_operand(name: str, value: Any) -> PrimExpr:
    if isinstance(value, int) and not isinstance(value, bool):
        return const(float(value), "float32")
    value = element(name, value)
    if not info(value.dtype).is_float:
        raise ExprTypeError(f"{name}: the operand must be a float, got {value.dtype}; cast it with .astype('float32')")
    return value


def _as_float(name: str, value: Any) -> PrimExpr:
    """Convert the operand of a float function to an expression; integers and bools are cast to float32."""
    value = element(name, value)
    kind = info(value.dtype)
    if kind.is_handle:
        raise ExprTypeError(f"{name}: the operand must be a number, got {value.dtype}")
    return value if kind.is_float else cast(with_lanes("float32", kind.lanes), value)


def _float_unary(name: str) -> Callable:
    op = Op.get("tir." + name)

    def function(x) -> PrimExpr:
        x = _as_float(name, x)
        return Call(x.dtype, op, (x,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docstring(FLOAT_FUNCTIONS[name] + ".", OPERAND, "PrimExpr")
    return function


exp, exp2, exp10, log, log2, log10, log1p, sqrt, rsqrt, sin, cos, tan, asin, acos, atan = map(
    _float_unary, FLOAT_UNARY[:15]
)


sinh, cosh, tanh, asinh, acosh, atanh, sigmoid, erf = map(_float_unary, FLOAT_UNARY[15:])


def _round_away(x: float) -> float:
    return math.copysign(math.floor(math.fabs(x) + 0.5), x) if math.fabs(x) < 2**52 else x


def _whole(rule: Callable[[float], float]) -> Callable[[float], float]:
    """Return a function that applies ``rule`` to finite values and returns infinities and NaN unchanged."""
    return lambda x: float(rule(x)) if math.isfinite(x) else x


_LITERAL_ROUNDING = {
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(_round_away),
    "nearbyint": _whole(lambda x: math.copysign(builtins.round(x), x)),
}


def _rounding(name: str, what: str) -> Callable:
    op = Op.get("tir." + name)
    fold = _LITERAL_ROUNDING[name]

    def function(x, span=None) -> PrimExpr:
        x = element(name, x)
        if info(x.dtype).is_integer:
            return x
        if isinstance(x, FloatImm):
            return FloatImm(x.dtype, fold(x.value))
        if not info(x.dtype).is_float:
            raise ExprTypeError(f"{name}: the operand must be a number, got {x.dtype}")
        return Call(x.dtype, op, (x,))

    function.__name__ = function.__qualname__ = name
    sentence = f"{what}; integers are returned as they are and literals are folded."
    function.__doc__ = docstring(sentence, OPERAND, "PrimExpr", ("ExprTypeError", "``x`` is no number."))
    return function


floor = _rounding("floor", "The largest integer not above x, as a float")


ceil = _rounding("ceil", "The smallest integer not below x, as a float")


trunc = _rounding("trunc", "x without its fraction")


round = _rounding("round", "The nearest integer, halves away from zero")


nearbyint = _rounding("nearbyint", "The nearest integer, halves to even")


def abs(x, span=None) -> PrimExpr:
    """The absolute value of a number; constants are folded.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        ``x`` is not a number.
    """
    x = element("abs", x)
    kind = info(x.dtype)
    if isinstance(x, FloatImm):
        return FloatImm(x.dtype, math.fabs(x.value))
    if isinstance(x, IntImm):
        return const(primop.wrap_int(-x.value if x.value < 0 else x.value, x.dtype), x.dtype)
    if kind.is_float:
        return call(x.dtype, "fabs", x)
    if kind.is_uint:
        return x
    if kind.is_int:
        return select(primop.greater_equal(x, const(0, x.dtype)), x, primop.negative(x))
    raise ExprTypeError(f"abs: the operand must be a number, got {x.dtype}")


def isnan(x, span=None) -> PrimExpr:
    """Whether a float is NaN.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = element("isnan", x)
    kind = bool_like(x.dtype)
    if not info(x.dtype).is_float:
        return const(False, kind)
    if isinstance(x, FloatImm):
        return const(math.isnan(x.value), "bool")
    if info(x.dtype).bits == 16:
        x = cast(with_lanes("float32", info(x.dtype).lanes), x)
    return call(kind, "isnan", x)


def isinf(x, span=None) -> PrimExpr:
    """Whether a float is infinite.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = element("isinf", x)
    if not info(x.dtype).is_float:
        return const(False, bool_like(x.dtype))
    return primop.equal(abs(x), infinity(x.dtype))


def isfinite(x, span=None) -> PrimExpr:
    """Whether a float is neither infinite nor NaN.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = element("isfinite", x)
    if not info(x.dtype).is_float:
        return const(True, bool_like(x.dtype))
    return primop.less(abs(x), infinity(x.dtype))


def _float_binary(name: str) -> Callable:
    op = Op.get("tir." + name)

    def function(x1, x2) -> PrimExpr:
        a, b = primop.match_types(element(name, x1), element(name, x2))
        a, b = _float_operand(name, a), _float_operand(name, b)
        return Call(a.dtype, op, (a, b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docstring(FLOAT_PAIRS[name], TWO_OPERANDS, "PrimExpr")
    return function


atan2, hypot, copysign, nextafter = map(_float_binary, ("atan2", "hypot", "copysign", "nextafter"))


def fmod(x, y) -> PrimExpr:
    """The remainder of division rounded towards zero.

    Parameters
    ----------
    x : PrimExpr
        The dividend.
    y : PrimExpr
        The divisor.

    Returns
    -------
    PrimExpr
    """
    return _fmod(x, y)


_fmod = _float_binary("fmod")


_pow = _float_binary("pow")


def ldexp(x1, x2) -> PrimExpr:
    """``x1`` times two to the power of the integer ``x2``.

    Parameters
    ----------
    x1 : PrimExpr
        The first operand.
    x2 : PrimExpr
        The second operand.

    Returns
    -------
    PrimExpr
    """
    x1 = _float_operand("ldexp", x1)
    return call(x1.dtype, "ldexp", x1, element("ldexp", x2))


def power(x, y, span=None) -> PrimExpr:
    """``x`` to the power of ``y``, both floats; a constant exponent of one is removed.

    Parameters
    ----------
    x : PrimExpr
        The base.
    y : PrimExpr
        The exponent.

    Returns
    -------
    PrimExpr
    """
    if isinstance(x, PrimExpr) and isinstance(y, (int, float)):
        y = const(y, x.dtype) if info(x.dtype).is_float else y
    a, b = primop.match_types(element("pow", x), element("pow", y))
    if primop.literal(b) == 1:
        return a
    return _pow(a, b)


def pow(x, y, span=None) -> PrimExpr:
    """An alias of ``power``.

    Parameters
    ----------
    x : PrimExpr
        The base.
    y : PrimExpr
        The exponent.

    Returns
    -------
    PrimExpr
    """
    return power(x, y)


def fma(x, y, z) -> PrimExpr:
    """``x * y + z`` with a single rounding.

    Parameters
    ----------
    x : PrimExpr
        The first factor.
    y : PrimExpr
        The second factor.
    z : PrimExpr
        The addend.

    Returns
    -------
    PrimExpr
    """
    x, y, z = (_float_operand("fma", v) for v in (x, y, z))
    return call(x.dtype, "fma", x, y, z)


__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "pow",
    "power",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
