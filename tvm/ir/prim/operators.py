"""Arithmetic, comparisons, logic, casts, and the choice between two values."""

from __future__ import annotations

from typing import Any

from ...docstring import described
from ...error import ExprTypeError
from .base import SCOPE, PrimExpr, PrimExprWithOp


class BinaryOpExpr(PrimExprWithOp):
    """Base of two-operand arithmetic."""


class CmpExpr(BinaryOpExpr):
    """Base of comparisons."""


class LogicalExpr(BinaryOpExpr):
    """Base of And, Or."""


def _mismatch(node: Any):
    raise ExprTypeError(
        f"{type(node).__name__}: operands must have one type, got {node.a.dtype} and {node.b.dtype}; cast one of them"
    )


_SCOPE: dict[str, Any] = {**SCOPE, "_mismatch": _mismatch}
_CHECK = "if a.dtype != b.dtype: _mismatch(self)"
_ARITH: dict[str, Any] = {"derived": {"dtype": "a.dtype"}, "check": _CHECK, "scope": _SCOPE}
_COMPARE: dict[str, Any] = {"derived": {"dtype": "bool_like(a.dtype)"}, "check": _CHECK, "scope": _SCOPE}


class Add(BinaryOpExpr, key="tir.Add", **_ARITH):
    """``a + b``; both have one type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Sub(BinaryOpExpr, key="tir.Sub", **_ARITH):
    """``a - b``; both have one type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Mul(BinaryOpExpr, key="tir.Mul", **_ARITH):
    """``a * b``; both have one type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Div(BinaryOpExpr, key="tir.Div", **_ARITH):
    """Division; truncates on integers."""

    a: PrimExpr
    b: PrimExpr


class Mod(BinaryOpExpr, key="tir.Mod", **_ARITH):
    """Remainder of the truncating division."""

    a: PrimExpr
    b: PrimExpr


class FloorDiv(BinaryOpExpr, key="tir.FloorDiv", **_ARITH):
    """The quotient of integers rounded down."""

    a: PrimExpr
    b: PrimExpr


class FloorMod(BinaryOpExpr, key="tir.FloorMod", **_ARITH):
    """What FloorDiv leaves; it has the sign of the divisor."""

    a: PrimExpr
    b: PrimExpr


class Min(BinaryOpExpr, key="tir.Min", **_ARITH):
    """The smaller of two values."""

    a: PrimExpr
    b: PrimExpr


class Max(BinaryOpExpr, key="tir.Max", **_ARITH):
    """The larger of two values."""

    a: PrimExpr
    b: PrimExpr


class EQ(CmpExpr, key="tir.EQ", **_COMPARE):
    """Whether two values are equal; a bool of as many lanes."""

    a: PrimExpr
    b: PrimExpr


class NE(CmpExpr, key="tir.NE", **_COMPARE):
    """Whether two values differ; a bool of as many lanes."""

    a: PrimExpr
    b: PrimExpr


class LT(CmpExpr, key="tir.LT", **_COMPARE):
    """Whether ``a`` is below ``b``."""

    a: PrimExpr
    b: PrimExpr


class LE(CmpExpr, key="tir.LE", **_COMPARE):
    """Whether ``a`` is at most ``b``."""

    a: PrimExpr
    b: PrimExpr


class GT(CmpExpr, key="tir.GT", **_COMPARE):
    """Whether ``a`` is above ``b``."""

    a: PrimExpr
    b: PrimExpr


class GE(CmpExpr, key="tir.GE", **_COMPARE):
    """Whether ``a`` is at least ``b``."""

    a: PrimExpr
    b: PrimExpr


class And(LogicalExpr, key="tir.And", **_ARITH):
    """Whether both conditions hold; ``b`` is evaluated only where ``a`` does."""

    a: PrimExpr
    b: PrimExpr


class Or(LogicalExpr, key="tir.Or", **_ARITH):
    """Whether one of two conditions holds; ``b`` is evaluated only where ``a`` does not."""

    a: PrimExpr
    b: PrimExpr


class Not(PrimExprWithOp, key="tir.Not", derived={"dtype": "a.dtype"}):
    """Whether a condition does not hold.

    Parameters
    ----------
    a : PrimExpr
        The condition.
    """

    a: PrimExpr


class Cast(PrimExprWithOp, key="tir.Cast"):
    """A value converted to another type.

    Parameters
    ----------
    dtype : str
        The type to convert to.
    value : PrimExpr
        The value.
    """

    dtype: str
    value: PrimExpr


class Select(PrimExprWithOp, key="tir.Select", derived={"dtype": "true_value.dtype"}):
    """Both sides may be evaluated; ``if_then_else`` is the call that evaluates one.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    true_value : PrimExpr
        The value where the condition holds.
    false_value : PrimExpr
        The value elsewhere.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr


_describe_operands = described({"a": ("PrimExpr", "The left operand."), "b": ("PrimExpr", "The right operand.")})
for _operator in (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or):
    _describe_operands(_operator)

__all__ = [
    "Add", "And", "BinaryOpExpr", "Cast", "CmpExpr", "Div", "EQ", "FloorDiv", "FloorMod", "GE", "GT", "LE", "LT",
    "LogicalExpr", "Max", "Min", "Mod", "Mul", "NE", "Not", "Or", "Select", "Sub",
]
