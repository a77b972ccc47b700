"""Replace anonymous dynamic dimensions of parameters by symbolic variables, so that types express equal dimensions."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from ..symbolic import named_sizes
from .function_pass import RelayFunctionPass, function_pass


def NameSizes() -> RelayFunctionPass:
    """Replace each anonymous dynamic dimension (``Any``) of a parameter by a variable. Dimensions that operators
    require to be equal share a variable.

    Examples
    --------
    >>> x = relay.var("x", shape=(relay.Any(), 3))
    >>> mod = tvm.IRModule.from_expr(relay.Function([x], relay.concatenate([x, x], 1)))
    >>> relay.transform.NameSizes()(mod)["main"].ret_type
    Tensor[(n0, 6), float32]
    """

    @function_pass(opt_level=0, name="NameSizes", required=["InferType"])
    def name(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return named_sizes(func, mod)

    return name


__all__ = ["NameSizes"]
