"""Calls, let expressions, and unknown dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dtype import canonical
from ..node import convert_fields
from ..op import Op
from .base import PrimExpr, PrimExprWithOp
from .values import Var

if TYPE_CHECKING:
    from ..span import Span


class Call(PrimExprWithOp, key="tir.Call"):
    """A call of an intrinsic (``op`` is an ``ir.Op``, or its name) or of another function (a GlobalVar).

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4"; None if the call has no value.
    op : Op, GlobalVar or str
        The called operator or function.
    args : tuple
        The arguments.
    """

    dtype: str
    op: Any
    args: tuple[PrimExpr, ...]

    def __init__(self, dtype: Any, op: Any, args: Any, span: Span | None = None):
        if op.__class__ is str:
            op = Op.get(op if "." in op else "tir." + op)
            dtype = "void" if dtype is None else canonical(dtype)
        self.dtype = dtype
        self.op = op
        self.args = convert_fields(args)
        self.span = span


class Let(PrimExprWithOp, key="tir.Let", derived={"dtype": "body.dtype"}):
    """An expression in which a variable is bound to a value.

    Parameters
    ----------
    var : Var
        The variable.
    value : PrimExpr
        The value.
    body : PrimExpr
        The expression.
    """

    _compared = "var! value body"
    var: Var
    value: PrimExpr
    body: PrimExpr


class Any_(PrimExprWithOp, key="tir.Any", derived={"dtype": "'int32'"}):
    """An unknown dimension of a shape.

    Parameters
    ----------
    name : str, optional
        The name in printed programs.
    """

    _compared = ""

    name: str = "any"


__all__ = ["Any_", "Call", "Let"]
