"""Where expressions come from, and where they run."""

from __future__ import annotations

from typing import Any

from ...error import TVMError
from ...ir.base import SourceName, Span
from ...ir.module import IRModule
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.visit import post_order
from ..expr import Call, Function, RelayExpr
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed

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


def PlanDevices(config: Any) -> ModulePass:
    """Settle where everything runs. Models run on one device: marks that name it are taken away, others refused."""

    def plan(mod: IRModule, ctx: PassContext) -> IRModule:
        named: dict[str, None] = {}
        for func in mod.functions.values():
            if isinstance(func, Function):
                named.update({n.attrs.device: None for n in post_order(func) if is_call(n, "on_device")})
        if len(named) > 1:
            raise TVMError(f"PlanDevices: the model names {', '.join(named)}; several devices in one model are not "
                           "supported, mark one")  # fmt: skip
        if not named:
            return mod
        made = mod.clone()
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                made[var] = rewrite_typed(func, lambda n: n.args[0] if is_call(n, "on_device") else None, mod)
        return made

    return ModulePass(plan, PassInfo(0, "PlanDevices", ["InferType"]))


__all__ = ["AnnotateSpans", "PlanDevices"]
