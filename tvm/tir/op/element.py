"""Checks and helpers that the functions on expressions share."""

from __future__ import annotations

from typing import Any

from ...error import ExprTypeError
from ...ir.op import Op
from ...ir.prim import Call, PrimExpr, convert


def element(name: str, value: Any) -> PrimExpr:
    """Convert the operand of the function ``name`` to an expression."""
    value = convert(value)
    if not isinstance(value, PrimExpr):
        raise ExprTypeError(
            f"{name}: the operand must be an expression, such as an element of a tensor, got {type(value).__name__}; "
            f"functions of whole tensors are in tvm.topi"
        )
    return value


def call(dtype: str, name: str, *args: Any) -> PrimExpr:
    """Return a call of an intrinsic."""
    return Call(dtype, Op.get("tir." + name), args)


__all__ = ["call", "element"]
