"""Run passes on expressions that are not part of a module."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.visit import post_order
from ..expr import Call, Function, RelayExpr
from ..prelude import Prelude
from ..substitute import free_vars
from ..transform.function_pass import InferType


def run_opt_pass(expr: RelayExpr, opt_pass, import_prelude: bool = False) -> RelayExpr:
    """Run ``opt_pass``, a pass or a list of passes, on an expression.

    A function is returned as a function, any other expression as the body.
    """
    mod = IRModule.from_expr(expr if isinstance(expr, Function) else Function(free_vars(expr), expr))
    if import_prelude:
        Prelude(mod)
    for step in opt_pass if isinstance(opt_pass, (list, tuple)) else (opt_pass,):
        mod = step(mod)
    entry = mod["main"]
    return entry if isinstance(expr, Function) else entry.body


def run_infer_type(expr: RelayExpr) -> RelayExpr:
    """Return the expression with inferred types."""
    return run_opt_pass(expr, InferType())


def count_ops(expr: RelayExpr) -> dict[str, int]:
    """Return the number of calls of each operator in the expression, by operator name."""
    counts: dict[str, int] = {}
    for node in post_order(expr):
        if isinstance(node, Call) and isinstance(node.op, Op):
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
    return counts
