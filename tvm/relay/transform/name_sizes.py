"""Unknown sizes of parameters as variables, so that types say which sizes are equal and what follows from what."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Function
from ..symbolic import named_sizes
from .function_pass import RelayFunctionPass, function_pass


def NameSizes() -> RelayFunctionPass:
    """Put a variable in place of each unknown size of a parameter; sizes that operators take for equal are one.

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
