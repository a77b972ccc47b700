"""Substitution and free variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .node import Node
from .prim import PrimExpr, Var
from .visit import post_order, rewrite


def substitute(node: Node, values: Mapping[Any, Any] | Callable[[Var], Any]) -> Any:
    """Replace variables in ``node``, preserving sharing. A callable returns None to keep a variable."""
    if callable(values):
        lookup = values
    else:
        if not values:
            return node
        table: dict[Any, Any] = {}
        for var, value in values.items():
            table[getattr(var, "var", var)] = value
        lookup = table.get

    def post(n: Any):
        if isinstance(n, Var):
            got = lookup(n)
            if got is None:
                return None
            return got if isinstance(got, PrimExpr) else _as_expr(got, n.dtype)
        return None

    return rewrite(node, post)


def _as_expr(value: Any, dtype: str):
    from .prim import const, convert

    if isinstance(value, (bool, int, float)):
        return const(value, dtype)
    return convert(value)


def uses_var(node: Node, variables: Callable[[Var], bool] | Any) -> bool:
    """Whether any variable in ``node`` satisfies the predicate (or is in the given collection)."""
    test = variables if callable(variables) else variables.__contains__
    return any(isinstance(n, Var) and test(n) for n in post_order(node))


def variables(node: Node) -> list[Var]:
    """Return the variables used in ``node``, in order of first use."""
    return [n for n in post_order(node) if isinstance(n, Var)]
