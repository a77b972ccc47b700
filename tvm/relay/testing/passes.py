"""Run a pass on an expression that is in no module."""

from __future__ import annotations

from ...ir.module import IRModule
from ..expr import Function, RelayExpr
from ..substitute import free_vars
from ..transform.function_pass import InferType


def run_opt_pass(expr: RelayExpr, opt_pass, import_prelude: bool = False) -> RelayExpr:
    """The expression after ``opt_pass`` (a pass or a list of them): a function stays one, anything else is a body."""
    if import_prelude:
        raise ValueError("run_opt_pass: there is no prelude of data types here; define the types in a module")
    mod = IRModule.from_expr(expr if isinstance(expr, Function) else Function(free_vars(expr), expr))
    for step in opt_pass if isinstance(opt_pass, (list, tuple)) else (opt_pass,):
        mod = step(mod)
    entry = mod["main"]
    return entry if isinstance(expr, Function) else entry.body


def run_infer_type(expr: RelayExpr) -> RelayExpr:
    """The expression with its types."""
    return run_opt_pass(expr, InferType())
