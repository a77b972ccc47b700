"""SpanCheck: which expressions do not record where they come from."""

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
    """Warn of each expression without a span, at the nearest expression around it that has one. The messages go to
    the current renderer of diagnostics (``tvm.ir.diagnostics.get_renderer``).

    Returns
    -------
    RelayFunctionPass
        A pass that leaves the functions as they are.
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
