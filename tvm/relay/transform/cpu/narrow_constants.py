"""Store the integer constants of elementwise operators in the narrowest type that holds their values.

The multipliers and shifts of requantization are int64 and int32 arrays with one element for each channel. Kernels
convert the elements when they load them, so that the constants take less flash."""

from __future__ import annotations

import numpy as np

from ....dtype import info
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.transform import PassContext
from ...expr import Call, Constant, Function, RelayExpr
from ...op import tensor
from ...op.record import BROADCAST, pattern_of
from ..function_pass import RelayFunctionPass, function_pass, rewrite_typed


def narrowed(constant: Constant) -> RelayExpr | None:
    """Return the conversion of a narrower integer constant, or None if there is none."""
    dtype = info(constant.data.dtype)
    if not dtype.is_integer or dtype.is_bool or dtype.bits < 16:
        return None
    array = constant.data.numpy()
    if array.size < 2:
        return None
    low, high = int(array.min()), int(array.max())
    for bits in (8, 16, 32):
        if bits < dtype.bits and -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return tensor.cast(Constant(array.astype(np.dtype(f"int{bits}"))), constant.data.dtype)
    return None


def NarrowConstants() -> RelayFunctionPass:
    """Narrow the constants of elementwise operators, for targets with the 8-bit kernels of microcontrollers."""
    memo: dict[int, tuple[Constant, RelayExpr]] = {}

    def operand(e: RelayExpr) -> RelayExpr:
        if not isinstance(e, Constant):
            return e
        if id(e) not in memo:
            narrow = narrowed(e)
            memo[id(e)] = e, e if narrow is None else narrow
        return memo[id(e)][1]

    def rule(node: RelayExpr) -> RelayExpr | None:
        if type(node) is not Call or type(node.op) is not Op or pattern_of(node.op) > BROADCAST:
            return None
        args = [operand(arg) for arg in node.args]
        is_same = all(a is b for a, b in zip(args, node.args)) or all(isinstance(a, Constant) for a in node.args)
        return None if is_same else Call(node.op, tuple(args), node.attrs, (), node.span)

    @function_pass(opt_level=3, name="NarrowConstants", required=["InferType"])
    def narrow(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, rule, mod)

    return narrow


__all__ = ["NarrowConstants", "narrowed"]
