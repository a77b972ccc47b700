"""Replace variables in expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.visit import post_order, rewrite
from .adt import Clause, pattern_variables
from .expr import Constant, Function, Let, RelayExpr, Var, const


def substitute_vars(root: RelayExpr, table: Mapping[Var, RelayExpr]) -> Any:
    """Replace variables at their uses; if the replacement is a variable, also at their definition."""

    def post(node):
        if type(node) is Var:
            return table.get(node)
        if type(node) is Function and any(p in table for p in node.params):
            params = [table.get(p, p) for p in node.params]
            kept = [p for p in params if isinstance(p, Var)]
            return node.replace(params=tuple(kept))
        if type(node) is Let and node.var in table and isinstance(table[node.var], Var):
            return Let(table[node.var], node.value, node.body, node.span)
        return None

    return rewrite(root, post)


def bind(expr, binds) -> Any:
    """Bind variables (or parameters by name) of an expression to values; a function loses the bound parameters."""
    table: dict[Var, RelayExpr] = {}
    if isinstance(expr, Function):
        by_name = {p.name_hint: p for p in expr.params}
        for key, value in binds.items():
            var = by_name.get(key) if isinstance(key, str) else key
            if var is not None:
                table[var] = value if isinstance(value, RelayExpr) else const(value)
        body = substitute_vars(expr.body, table)
        kept = [p for p in expr.params if p not in table]
        extra = [v for v in free_vars(body) if v not in kept] if any(isinstance(t, Var) for t in table.values()) else []
        ret = expr.ret_type
        return Function(kept + extra, body, ret, expr.type_params, expr.attrs, expr.span)
    for key, value in binds.items():
        table[key] = value if isinstance(value, RelayExpr) else const(value)
    return substitute_vars(expr, table)


def free_vars(expr: RelayExpr) -> list[Var]:
    """Return the variables that are used but not defined in an expression, in order of first use.

    Parameters
    ----------
    expr : RelayExpr
        The expression.

    Returns
    -------
    list[Var]
        The free variables.

    Examples
    --------
    >>> x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    >>> [v.name_hint for v in relay.analysis.free_vars(x + y)]
    ['x', 'y']
    """
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        if type(node) is Var:
            used[node] = None
        elif type(node) is Function:
            bound.update(node.params)
        elif type(node) is Let:
            bound.add(node.var)
        elif type(node) is Clause:
            bound.update(pattern_variables(node.lhs))
    return [v for v in used if v not in bound]


__all__ = ["Constant", "bind", "free_vars", "substitute_vars"]
