"""Convert division by a constant to multiplication by its reciprocal."""

from __future__ import annotations

import numpy as np

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...runtime import ndarray
from ..expr import Constant, Function, RelayExpr
from ..op import tensor
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed


def _multiplied(node: RelayExpr) -> RelayExpr | None:
    if not is_call(node, "divide") or not isinstance(node.args[1], Constant):
        return None
    divisor = node.args[1].data
    if divisor.dtype not in ("float16", "float32", "float64"):
        return None
    with np.errstate(divide="ignore", over="ignore"):
        reciprocal = np.asarray(np.reciprocal(divisor.numpy()))
    return tensor.multiply(node.args[0], Constant(ndarray.array(reciprocal)))


def DivToMul() -> RelayFunctionPass:
    """Replace a division by a floating-point constant with a multiplication by its reciprocal.

    The reciprocal is rounded to the type of the constant, so the outputs can differ in the last bit."""

    @function_pass(opt_level=0, name="DivToMul", required=["InferType"])
    def multiply(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, _multiplied, mod)

    return multiply


__all__ = ["DivToMul"]
