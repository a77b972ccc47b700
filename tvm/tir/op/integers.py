"""Functions of integers and bits: bit counts, fixed-point multiplication, division."""

from __future__ import annotations

from typing import Any

from ...dtype import canonical, info, with_lanes
from ...error import ExprTypeError
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr, const
from ...ir.primop import div, floordiv, floormod
from .element import call, element


def popcount(x) -> PrimExpr:
    """The number of set bits.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = element("popcount", x)
    primop._want_integer("popcount", x)
    return call(x.dtype, "popcount", x)


def clz(x) -> PrimExpr:
    """The number of leading zero bits; for zero, the bit width of the type.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = element("clz", x)
    primop._want_integer("clz", x)
    return call(with_lanes("int32", info(x.dtype).lanes), "clz", x)


def q_multiply_shift(x, y, q, s) -> PrimExpr:
    """The fixed-point product of the int32 ``x`` and the number ``y`` with ``q`` fractional bits, shifted by ``s``,
    rounded half up.

    Parameters
    ----------
    x : PrimExpr
        The operand.
    y : PrimExpr
        The factor, a fixed-point number in an int32.
    q : int
        The number of fractional bits of ``y``.
    s : int
        The number of bits to shift: a positive value shifts to the left.

    Returns
    -------
    PrimExpr
    """
    x = element("q_multiply_shift", x)
    return call(with_lanes("int32", info(x.dtype).lanes), "q_multiply_shift", x, y, q, s)


def q_multiply_shift_per_axis(x, y, ls, rs, q, is_lshift_required, is_rshift_required) -> PrimExpr:
    """``q_multiply_shift`` with separate left and right shifts, for per-channel scales.

    Parameters
    ----------
    x : PrimExpr
        The operand.
    y : PrimExpr
        The factor, a fixed-point number.
    ls : PrimExpr
        The number of bits to shift left before the multiplication.
    rs : PrimExpr
        The number of bits to shift right after the multiplication.
    q : int
        The number of fractional bits of ``y``.
    is_lshift_required : PrimExpr
        Whether the left shift is applied.
    is_rshift_required : PrimExpr
        Whether the right shift is applied.

    Returns
    -------
    PrimExpr
    """
    x = element("q_multiply_shift_per_axis", x)
    args = (x, y, ls, rs, q, is_lshift_required, is_rshift_required)
    return call(with_lanes("int32", info(x.dtype).lanes), "q_multiply_shift_per_axis", *args)


def reinterpret(dtype, value, span=None) -> PrimExpr:
    """The bits of a value reinterpreted as another type of the same size.

    Parameters
    ----------
    dtype : str
        The new type.
    value : PrimExpr
        The value.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        The types have different sizes.
    """
    dtype, value = canonical(dtype), element("reinterpret", value)
    if value.dtype == dtype:
        return value
    to, source = info(dtype), info(value.dtype)
    if to.bits * to.lanes != source.bits * source.lanes:
        raise ExprTypeError(f"reinterpret: {value.dtype} and {dtype} have different sizes")
    return call(dtype, "reinterpret", value)


def _want_integers(name: str, a, b) -> tuple[PrimExpr, PrimExpr]:
    a, b = primop.match_types(element(name, a), element(name, b))
    if not info(a.dtype).is_integer:
        raise ExprTypeError(f"{name}: the operands must be integers, got {a.dtype}")
    return a, b


def truncdiv(a, b, span=None) -> PrimExpr:
    """Integer division rounded towards zero.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return div(*_want_integers("truncdiv", a, b))


def truncmod(a, b, span=None) -> PrimExpr:
    """The remainder of ``truncdiv``; it has the sign of the dividend.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return primop.truncmod(*_want_integers("truncmod", a, b))


def indexdiv(a, b, span=None) -> PrimExpr:
    """Division of non-negative indices. The rounding mode is the one that simplifies best.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return floordiv(a, b)


def indexmod(a, b, span=None) -> PrimExpr:
    """The remainder of ``indexdiv``.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return floormod(a, b)


def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Integer division rounded up.

    Parameters
    ----------
    lhs : PrimExpr
        The left operand.
    rhs : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _want_integers("ceildiv", lhs, rhs)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value:
        return const(primop.wrap_int(-(-a.value // b.value), a.dtype), a.dtype)
    return floordiv(primop.add(a, primop.subtract(b, const(1, b.dtype))), b)


shapediv = ceildiv


__all__ = [
    "ceildiv",
    "clz",
    "indexdiv",
    "indexmod",
    "popcount",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "reinterpret",
    "shapediv",
    "truncdiv",
    "truncmod",
]
