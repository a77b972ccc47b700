"""Arithmetic, comparisons, logic, casts, and selection."""

from __future__ import annotations

from typing import Any

from ...docstring import described
from ...error import ExprTypeError
from .base import SCOPE, PrimExpr, PrimExprWithOp


class BinaryOpExpr(PrimExprWithOp):
    """Base class of arithmetic with two operands."""


class CmpExpr(BinaryOpExpr):
    """Base class of comparisons."""


class LogicalExpr(BinaryOpExpr):
    """Base class of And and Or."""


def _mismatch(node: Any):
    raise ExprTypeError(
        f"{type(node).__name__}: operands must have the same type, got {node.a.dtype} and {node.b.dtype}; cast one of "
        "them"
    )


_SCOPE: dict[str, Any] = {**SCOPE, "_mismatch": _mismatch}
_CHECK = "if a.dtype != b.dtype: _mismatch(self)"
_ARITH: dict[str, Any] = {"derived": {"dtype": "a.dtype"}, "check": _CHECK, "scope": _SCOPE}
_COMPARE: dict[str, Any] = {"derived": {"dtype": "bool_like(a.dtype)"}, "check": _CHECK, "scope": _SCOPE}


class Add(BinaryOpExpr, key="tir.Add", **_ARITH):
    """``a + b``; both operands have the same type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Sub(BinaryOpExpr, key="tir.Sub", **_ARITH):
    """``a - b``; both operands have the same type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Mul(BinaryOpExpr, key="tir.Mul", **_ARITH):
    """``a * b``; both operands have the same type, and integers wrap around."""

    a: PrimExpr
    b: PrimExpr


class Div(BinaryOpExpr, key="tir.Div", **_ARITH):
    """Division; truncates on integers."""

    a: PrimExpr
    b: PrimExpr


class Mod(BinaryOpExpr, key="tir.Mod", **_ARITH):
    """The remainder of truncating division."""

    a: PrimExpr
    b: PrimExpr


class FloorDiv(BinaryOpExpr, key="tir.FloorDiv", **_ARITH):
    """The quotient, rounded down."""

    a: PrimExpr
    b: PrimExpr


class FloorMod(BinaryOpExpr, key="tir.FloorMod", **_ARITH):
    """The remainder of FloorDiv, with the sign of the divisor."""

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
    """Whether two values are equal; a bool with the same number of lanes."""

    a: PrimExpr
    b: PrimExpr


class NE(CmpExpr, key="tir.NE", **_COMPARE):
    """Whether two values differ; a bool with the same number of lanes."""

    a: PrimExpr
    b: PrimExpr


class LT(CmpExpr, key="tir.LT", **_COMPARE):
    """Whether ``a`` is less than ``b``."""

    a: PrimExpr
    b: PrimExpr


class LE(CmpExpr, key="tir.LE", **_COMPARE):
    """Whether ``a`` is less than or equal to ``b``."""

    a: PrimExpr
    b: PrimExpr


class GT(CmpExpr, key="tir.GT", **_COMPARE):
    """Whether ``a`` is greater than ``b``."""

    a: PrimExpr
    b: PrimExpr


class GE(CmpExpr, key="tir.GE", **_COMPARE):
    """Whether ``a`` is greater than or equal to ``b``."""

    a: PrimExpr
    b: PrimExpr


class And(LogicalExpr, key="tir.And", **_ARITH):
    """Whether both conditions are true; ``b`` is evaluated only if ``a`` is true."""

    a: PrimExpr
    b: PrimExpr


class Or(LogicalExpr, key="tir.Or", **_ARITH):
    """Whether one of two conditions is true; ``b`` is evaluated only if ``a`` is false."""

    a: PrimExpr
    b: PrimExpr


class Not(PrimExprWithOp, key="tir.Not", derived={"dtype": "a.dtype"}):
    """The negation of a condition.

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
    """A selection between two values, both of which may be evaluated; ``if_then_else`` evaluates only one.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    true_value : PrimExpr
        The value if the condition is true.
    false_value : PrimExpr
        The value otherwise.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr


_describe_operands = described({"a": ("PrimExpr", "The left operand."), "b": ("PrimExpr", "The right operand.")})
for _operator in (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or):
    _describe_operands(_operator)

__all__ = [
    "Add",
    "And",
    "BinaryOpExpr",
    "Cast",
    "CmpExpr",
    "Div",
    "EQ",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "LE",
    "LT",
    "LogicalExpr",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "Or",
    "Select",
    "Sub",
]
