"""AnnotateSpans: where expressions come from."""

from __future__ import annotations

from ...ir.base import SourceName, Span
from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed

SOURCE = "GeneratedSource"


def AnnotateSpans() -> RelayFunctionPass:
    """Give every call without a place of origin one: its number in the order of execution, as a line."""

    @function_pass(opt_level=0, name="AnnotateSpans", required=["InferType"])
    def annotate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        line = 0

        def place(node: RelayExpr) -> RelayExpr | None:
            nonlocal line
            if not isinstance(node, Call):
                return None
            line += 1
            if node.span is not None:
                return None
            return Call(node.op, node.args, node.attrs, node.type_args, Span(SourceName(SOURCE), line, line, 0, 0))

        return rewrite_typed(func, place, mod)

    return annotate


__all__ = ["AnnotateSpans"]
