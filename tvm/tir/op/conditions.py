"""Logical operators and conditional expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dtype import info
from ...error import ExprTypeError, ExprValueError
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr
from .element import call, element


def _join(name: str, combine: Callable, args: tuple) -> PrimExpr:
    if not args:
        raise ExprValueError(f"{name} needs at least one condition")
    out = element(name, args[0])
    for other in args[1:]:
        out = combine(out, other)
    return out


def all(*args, span=None) -> PrimExpr:
    """The conjunction of conditions.

    Parameters
    ----------
    *args : PrimExpr
        The conditions, at least one.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        No condition was given.
    """
    return _join("all", primop.logical_and, args)


def any(*args, span=None) -> PrimExpr:
    """The disjunction of conditions.

    Parameters
    ----------
    *args : PrimExpr
        The conditions, at least one.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        No condition was given.
    """
    return _join("any", primop.logical_or, args)


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> PrimExpr:
    """``t`` if ``cond`` is true, else ``f``. Only the selected value is evaluated, so the other one may access memory
    out of bounds.

    Parameters
    ----------
    cond : PrimExpr
        The condition, a bool.
    t : PrimExpr
        The value if the condition is true.
    f : PrimExpr
        The value if the condition is false.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        The condition is not a scalar bool.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((6,), lambda i: te.if_then_else(i < 4, A[i], 0.0))
    >>> print(B.op.body[0])
    T.if_then_else(i < 4, A[i], T.float32(0))
    """
    cond = element("if_then_else", cond)
    if not info(cond.dtype).is_bool or info(cond.dtype).lanes != 1:
        raise ExprTypeError(f"if_then_else: the condition must be a scalar bool, got {cond.dtype}")
    t, f = primop.match_types(element("if_then_else", t), element("if_then_else", f))
    if isinstance(cond, IntImm):
        return t if cond.value else f
    return call(t.dtype, "if_then_else", cond, t, f)


def likely(cond, span=None) -> PrimExpr:
    """``cond`` with a mark that it is true in nearly all cases. Loop partitioning splits a loop so that it is always
    true in the main part.

    Parameters
    ----------
    cond : PrimExpr
        The condition, a bool.

    Returns
    -------
    PrimExpr
    """
    cond = element("likely", cond)
    return cond if isinstance(cond, IntImm) else call(cond.dtype, "likely", cond)


__all__ = ["all", "any", "if_then_else", "likely"]
