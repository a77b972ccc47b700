"""Passes over graph functions: the class, the decorator, and type inference as a pass."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PASSES, FunctionPass, ModulePass, PassContext, PassInfo, function_pass_factory
from ..expr import Function
from ..infer import infer_module


class RelayFunctionPass(FunctionPass):
    """A pass that treats the graph functions of a module one by one: ``(func, mod, ctx) -> func``."""

    function_type = Function

    def skips(self, func: Function) -> bool:
        return bool(func.attrs.get("SkipOptimization")) or "Compiler" in func.attrs


function_pass = function_pass_factory(RelayFunctionPass, "function_pass")


def _infer(mod: IRModule, ctx: PassContext) -> IRModule:
    return infer_module(mod)


def InferType() -> ModulePass:
    """Fill in the type of every expression."""
    return ModulePass(_infer, PassInfo(0, "InferType"))


PASSES.register("InferType", InferType)
