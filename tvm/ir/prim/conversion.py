"""Conversion of Python values to expressions."""

from __future__ import annotations

from typing import Any

from ...dtype import canonical
from ..node import CONVERT, Node
from .base import PrimExpr
from .iteration import IterVar
from .values import StringImm, const


def convert(value: Any) -> Any:
    """Convert a Python value to an expression: numbers, strings, bool, NumPy scalars, axes, lists of these."""
    if isinstance(value, PrimExpr):
        return value
    kind = value.__class__
    if kind is int or kind is float or kind is bool:
        return const(value)
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        return StringImm(value)
    if hasattr(value, "asobject"):
        return value.asobject()
    if isinstance(value, (list, tuple)):
        return tuple(convert(v) for v in value)
    if value is None:
        return None
    if hasattr(value, "dtype") and getattr(value, "ndim", 0) == 0 and hasattr(value, "item"):
        return const(value.item(), canonical(value.dtype))
    if isinstance(value, (int, float)):
        return const(value)
    raise TypeError(f"cannot use {value!r} ({kind.__name__}) in an expression")


CONVERT.give(convert)


__all__ = ["convert"]
