"""Passes over quantized networks."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from ..transform.expand_ops import expand_function
from ..transform.function_pass import RelayFunctionPass, function_pass


def CanonicalizeOps() -> RelayFunctionPass:
    """Quantized operators written with plain ones."""

    @function_pass(opt_level=0, name="qnn.CanonicalizeOps", required=["InferType"])
    def expand(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return expand_function(func, lambda call: call.op.name.startswith("qnn."), mod)

    return expand


def Legalize() -> RelayFunctionPass:
    """Quantized operators in the form a target has: operators with a rule (``FTVMQnnLegalize``) follow it."""

    @function_pass(opt_level=1, name="qnn.Legalize", required=["InferType"])
    def legalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return expand_function(func, lambda call: "FTVMQnnLegalize" in call.op.attrs, mod, "FTVMQnnLegalize")

    return legalize
