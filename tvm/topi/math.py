"""Elementwise operators on one tensor, constant tensors and sums of tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from .. import te, tir
from ..dtype import canonical, info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import PrimExpr, const, convert
from . import tag, utils
from .assumptions import agree
from .utils import check_tensor


def map_elements(x: Any, element: Callable[[PrimExpr], PrimExpr], name: str) -> Any:
    """``element`` applied to every element of a tensor, or to a plain expression."""
    if not isinstance(x, te.Tensor):
        return element(convert(x))
    return te.compute(x.shape, lambda *i: element(x(*i)), name=name, tag=tag.ELEMWISE)


def _unary(name: str, element: Callable[[PrimExpr], PrimExpr], doc: str) -> Callable:
    def function(x):
        return map_elements(x, element, f"T_{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _on_float(name: str) -> Callable:
    return _unary(name, getattr(te, name), f"The {name} of every element of a float tensor.")


exp, exp2, exp10, log, log2, log10, log1p, sqrt, rsqrt = map(
    _on_float, ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt")
)
sin, cos, tan, asin, acos, atan = map(_on_float, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_on_float, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
sigmoid, erf = map(_on_float, ("sigmoid", "erf"))

identity = _unary("identity", lambda x: x, "A copy.")
negative = _unary("negative", primop.negative, "Minus every element.")
abs = _unary("abs", te.abs, "The absolute value of every element; the minimum integer stays unchanged.")
floor = _unary("floor", te.floor, "The largest integer that is at most the element, for every element.")
ceil = _unary("ceil", te.ceil, "The smallest integer that is at least the element, for every element.")
trunc = _unary("trunc", te.trunc, "Every element rounded towards zero.")
round = _unary("round", te.nearbyint, "The nearest integer of every element; ties go to even, as in NumPy and ONNX.")
isnan = _unary("isnan", te.isnan, "Whether each element is NaN.")
isfinite = _unary("isfinite", te.isfinite, "Whether each element is finite.")
isinf = _unary("isinf", te.isinf, "Whether each element is infinite.")


def sign(x):
    """-1, 0 or 1 according to the sign of every element; NaN stays NaN."""

    def element(value):
        zero, one = const(0, value.dtype), const(1, value.dtype)
        if info(value.dtype).is_uint or info(value.dtype).is_bool:
            return tir.Select(value > zero, one, zero)
        rest = tir.Select(value < zero, const(-1, value.dtype), zero)
        if info(value.dtype).is_float:
            rest = tir.Select(te.isnan(value), value, rest)
        return tir.Select(value > zero, one, rest)

    return map_elements(x, element, "T_sign")


def cast(x, dtype, span=None):
    """Every element converted to another dtype."""
    dtype = canonical(dtype)
    if not isinstance(x, te.Tensor):
        return primop.cast(dtype, x)
    if x.dtype == dtype:
        return x
    return map_elements(x, lambda value: primop.cast(dtype, value), "T_cast")


def reinterpret(x, dtype):
    """The bits of every element reinterpreted as another dtype of the same size."""
    return map_elements(x, lambda value: tir.reinterpret(dtype, value), "T_reinterpret")


def clip(x, a_min, a_max):
    """Every element clamped to a range; NaN stays NaN. Limits outside the range of the dtype have no effect."""

    def element(value):
        low, high = _limit(a_min, value.dtype), _limit(a_max, value.dtype)
        if high is not None:
            value = tir.Select(value > high, high, value)
        return value if low is None else tir.Select(value < low, low, value)

    return map_elements(x, element, "T_clip")


def _limit(limit: Any, dtype: str) -> PrimExpr | None:
    """Return a limit as a value of ``dtype``, or None if no value of that type exceeds it."""
    if limit is None:
        return None
    if isinstance(limit, PrimExpr):
        return primop.cast(dtype, limit)
    if info(dtype).is_float:
        return const(float(limit), dtype)
    least, greatest = int(te.min_value(dtype)), int(te.max_value(dtype))
    if limit <= least or limit >= greatest:
        return const(least if limit <= least else greatest, dtype)
    return const(int(limit), dtype)


def ceil_log2(x):
    """The base-two logarithm of every element, rounded up."""

    def element(value):
        kind = info(value.dtype)
        if kind.is_float:
            return te.ceil(te.log2(value))
        bits = const(kind.bits, "int32") - tir.clz(value - const(1, value.dtype))
        return tir.Select(value <= const(1, value.dtype), const(0, value.dtype), primop.cast(value.dtype, bits))

    return map_elements(x, element, "T_ceil_log2")


def fixed_point_multiply(x, multiplier, shift):
    """Every int32 element times the fixed-point number multiplier * 2**(shift - 31); ties round up."""

    def element(value):
        return tir.q_multiply_shift(value, const(multiplier, "int32"), const(31, "int32"), const(shift, "int32"))

    return map_elements(x, element, "T_fixed_point_multiply")


def fixed_point_multiply_per_axis(x, y, lshift, rshift, is_lshift_required, is_rshift_required, axes):
    """fixed_point_multiply with a multiplier and shifts (tensors) for each index along ``axes``."""
    check_tensor(x, "fixed_point_multiply_per_axis")
    axes = utils.normalize_axes(axes, len(x.shape), "fixed_point_multiply_per_axis")

    def element(*indices):
        own = [indices[axis] for axis in axes]
        return tir.q_multiply_shift_per_axis(
            x(*indices), y(*own), lshift(*own), rshift(*own), const(31, "int32"),
            const(bool(is_lshift_required), "bool"), const(bool(is_rshift_required), "bool"),
        )  # fmt: skip

    return te.compute(x.shape, element, name="T_fixed_point_multiply_per_axis", tag=tag.BROADCAST)


# --- quicker functions of float32 ----------------------------------------------------------------------------------


def _polynomial(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    """Return c[0] x**n + ... + c[n]."""
    result = const(coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        result = result * x + const(coefficient, x.dtype)
    return result


def _between(x: PrimExpr, low: float, high: float) -> PrimExpr:
    low, high = const(low, x.dtype), const(high, x.dtype)
    return tir.Select(x < low, low, tir.Select(x > high, high, x))


def _fast_exp(x: PrimExpr) -> PrimExpr:
    # exp(x) = 2**n * exp(r) with integer n and |r| <= log(2) / 2; 2**n is built from its bit pattern.
    x = _between(x, -87.33654, 88.72283)
    n = te.floor(x * const(1.44269504088896341, "float32") + const(0.5, "float32"))
    n = _between(n, -126.0, 127.0)
    rest = x - n * const(0.693359375, "float32") + n * const(2.12194440e-4, "float32")
    series = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
    value = _polynomial(rest, series) * rest * rest + rest + const(1.0, "float32")
    power = tir.reinterpret("float32", (primop.cast("int32", n) + 127) << 23)
    return value * power


# Rational functions of x*x with the coefficients of Eigen.
_TANH = (
    9.0,
    (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
     6.37261928875436e-04, 4.89352455891786e-03),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)  # fmt: skip
_ERF = (
    4.0,
    (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
     -2.95459980854025e-03, -1.60960333262415e-02),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02),
)  # fmt: skip


def _ratio(table: tuple) -> Callable[[PrimExpr], PrimExpr]:
    limit, above, below = table

    def element(x: PrimExpr) -> PrimExpr:
        x = _between(x, -limit, limit)
        square = x * x
        return x * _polynomial(square, above) / _polynomial(square, below)

    return element


def _fast(name: str, quick: Callable[[PrimExpr], PrimExpr], exact: Callable[[PrimExpr], PrimExpr]) -> Callable:
    def function(x):
        return map_elements(x, lambda v: quick(v) if v.dtype == "float32" else exact(v), f"T_{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name[5:]}, with a faster approximation for float32."
    return function


fast_exp = _fast("fast_exp", _fast_exp, te.exp)
fast_tanh = _fast("fast_tanh", _ratio(_TANH), te.tanh)
fast_erf = _fast("fast_erf", _ratio(_ERF), te.erf)


# --- tensors of constants, sums of tensors -------------------------------------------------------------------------


def full(shape, dtype, fill_value):
    """A tensor filled with one value."""
    value = primop.cast(canonical(dtype), convert(fill_value)) if isinstance(fill_value, PrimExpr) else None
    if value is None:
        value = const(fill_value, canonical(dtype))
    return te.compute(shape, lambda *i: value, name="T_full", tag=tag.ELEMWISE)


def full_like(x, fill_value):
    """A tensor filled with one value, with the shape and dtype of another tensor."""
    check_tensor(x, "full_like")
    value = fill_value() if isinstance(fill_value, te.Tensor) else convert(fill_value)
    value = primop.cast(x.dtype, value)
    return te.compute(x.shape, lambda *i: value, name="T_full_like", tag=tag.ELEMWISE)


def elemwise_sum(xs):
    """The elementwise sum of tensors of the same shape and dtype.

    Raises
    ------
    ExprValueError
        The list is empty, or the shapes differ.
    ExprTypeError
        The dtypes differ.
    """
    xs = list(xs)
    if not xs:
        raise ExprValueError("elemwise_sum: at least one tensor is needed")
    for x in xs:
        check_tensor(x, "elemwise_sum")
        if x.dtype != xs[0].dtype:
            raise ExprTypeError(f"elemwise_sum: the dtypes differ: {xs[0].dtype} and {x.dtype}")
        alike = (agree(a, b, "equal shapes of the tensors") for a, b in zip(x.shape, xs[0].shape))
        if len(x.shape) != len(xs[0].shape) or not builtins.all(alike):
            raise ExprValueError(f"elemwise_sum: the shapes differ: {list(xs[0].shape)} and {list(x.shape)}")

    def element(*indices):
        total = xs[0](*indices)
        for x in xs[1:]:
            total = total + x(*indices)
        return total

    return te.compute(xs[0].shape, element, name="T_elemwise_sum", tag=tag.ELEMWISE)


__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cast", "ceil", "ceil_log2", "clip", "cos", "cosh",
    "elemwise_sum", "erf", "exp", "exp10", "exp2", "fast_erf", "fast_exp", "fast_tanh", "fixed_point_multiply",
    "fixed_point_multiply_per_axis", "floor", "full", "full_like", "identity", "isfinite", "isinf", "isnan", "log",
    "log10", "log1p", "log2", "map_elements", "negative", "reinterpret", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
