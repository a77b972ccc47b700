"""Passes over quantized networks."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from ..transform.expand_ops import expand_function
from ..transform.function_pass import RelayFunctionPass, function_pass
from ..transform.legalize import follow_rules


def CanonicalizeOps() -> RelayFunctionPass:
    """Replace quantized operators by plain ones; operators with a rule (``FTVMQnnCanonicalize``) follow it."""

    @function_pass(opt_level=0, name="qnn.CanonicalizeOps", required=["InferType"])
    def expand(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        ruled = follow_rules(func, mod, "FTVMQnnCanonicalize")
        return expand_function(ruled, lambda call: call.op.name.startswith("qnn."), mod)

    return expand


def Legalize() -> RelayFunctionPass:
    """Replace quantized operators by the form the current target prefers: operators with a rule
    (``FTVMQnnLegalize``) follow it."""

    @function_pass(opt_level=1, name="qnn.Legalize", required=["InferType"])
    def legalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return follow_rules(func, mod, "FTVMQnnLegalize")

    return legalize
