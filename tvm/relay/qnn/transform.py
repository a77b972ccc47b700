"""Passes over graphs with QNN operators."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from ..transform.expand_ops import expand_function
from ..transform.function_pass import RelayFunctionPass, function_pass
from ..transform.legalize import follow_rules


def CanonicalizeOps() -> RelayFunctionPass:
    """Lower QNN operators to plain operators, by their ``FTVMQnnCanonicalize`` rule if they have one."""

    @function_pass(opt_level=0, name="qnn.CanonicalizeOps", required=["InferType"])
    def expand(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        ruled = follow_rules(func, mod, "FTVMQnnCanonicalize")
        return expand_function(ruled, lambda call: call.op.name.startswith("qnn."), mod)

    return expand


def Legalize() -> RelayFunctionPass:
    """Rewrite QNN operators with an ``FTVMQnnLegalize`` rule to the form that the current target prefers."""

    @function_pass(opt_level=1, name="qnn.Legalize", required=["InferType"])
    def legalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return follow_rules(func, mod, "FTVMQnnLegalize")

    return legalize
