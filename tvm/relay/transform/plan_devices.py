"""PlanDevices: where expressions run."""

from __future__ import annotations

from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.visit import post_order
from ..expr import Function
from .function_pass import is_call, rewrite_typed


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


__all__ = ["PlanDevices"]
