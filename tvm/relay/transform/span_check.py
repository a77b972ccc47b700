"""SpanCheck: report expressions without a source span."""

from __future__ import annotations

from ...ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.span import Span
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..expr import Call, Function, GlobalVar, RelayExpr, Var
from .function_pass import RelayFunctionPass, function_pass


def _described(node: RelayExpr) -> str:
    if isinstance(node, Var):
        return f"variable {node.name_hint}"
    return f"call of {node.op.name}" if isinstance(node, Call) and isinstance(node.op, Op) else type(node).__name__


def SpanCheck() -> RelayFunctionPass:
    """Report a warning for each expression without a span, at the nearest enclosing expression that has one.

    The warnings go to the current diagnostic renderer (``tvm.ir.diagnostics.get_renderer``).

    Returns
    -------
    RelayFunctionPass
        A pass that returns the functions unchanged.
    """

    @function_pass(opt_level=0, name="SpanCheck")
    def check(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        found = DiagnosticContext(mod)
        around: dict[int, Span | None] = {}
        for node in reversed(list(post_order(func))):
            if not isinstance(node, RelayExpr) or isinstance(node, (Op, GlobalVar)):
                continue
            near = around.get(id(node))
            if node.span is None:
                found.emit(Diagnostic(DiagnosticLevel.WARNING, near, f"{_described(node)} has no span"))
            for child in node.children():
                around.setdefault(id(child), node.span or near)
        found.render()
        return func

    return check


__all__ = ["SpanCheck"]
