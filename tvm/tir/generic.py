"""The arithmetic operators of expressions and tensors, as functions."""

from __future__ import annotations

from ..ir import primop
from ..ir.primop import add, cast, floordiv, multiply, subtract


def divide(lhs, rhs, span=None):
    """Division as in C: integer division truncates towards zero."""
    return primop.div(lhs, rhs)


__all__ = ["add", "cast", "divide", "floordiv", "multiply", "subtract"]
