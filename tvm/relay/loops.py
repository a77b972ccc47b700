"""Loops as recursive functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.type import TupleType
from .expr import Function, If, Let, RelayExpr, Tuple, Var


def while_loop(
    cond: Callable[..., RelayExpr],
    loop_vars: Sequence[Var],
    loop_bodies: Callable[..., Sequence[RelayExpr]],
) -> Let:
    """Build a function of the loop variables that returns their final values.

    While ``cond(*loop_vars)`` holds, the variables become ``loop_bodies(*loop_vars)``.
    """
    variables = [Var(v.name_hint, v.type_annotation) for v in loop_vars]
    loop = Var("while_loop")
    body = If(cond(*variables), loop(*loop_bodies(*variables)), Tuple(variables))
    types = [v.type_annotation for v in variables]
    result = None if any(t is None for t in types) else TupleType(tuple(types))
    return Let(loop, Function(variables, body, result), loop)


__all__ = ["while_loop"]
