"""Replace math functions by faster approximations."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import OPS
from ...ir.transform import PassContext
from ..expr import Call, Function
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed

FASTER = {"exp": "fast_exp", "erf": "fast_erf", "tanh": "fast_tanh", "nn.softmax": "nn.fast_softmax"}


def _faster(node):
    if is_call(node, *FASTER):
        quick = OPS.get(FASTER[node.op.name])
        t = node.args[0].checked_type_
        if quick is not None and getattr(t, "dtype", "") == "float32":
            return Call(quick, node.args, node.attrs, (), node.span)
    return None


def FastMath() -> RelayFunctionPass:
    """Use approximations of exp, erf, tanh and softmax on float32 tensors."""

    @function_pass(opt_level=4, name="FastMath", required=["InferType"])
    def fast(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, _faster, mod)

    return fast


__all__ = ["FastMath"]
