"""Split concatenations with more inputs than a kernel of the device can have arguments."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...ir.visit import post_order, rewrite
from ..expr import Call, Function, RelayExpr, Tuple
from ..infer import dims
from ..op.annotation import stop_fusion
from .function_pass import RelayFunctionPass, function_pass, is_call


def _arguments(value: RelayExpr) -> int:
    """Return the number of kernel arguments of a tensor: 1, plus its dynamic dimensions and its strides if it has
    any."""
    shape = dims(value.checked_type_)
    dynamic = sum(not isinstance(d, int) for d in shape)
    return 1 + (dynamic + len(shape) if dynamic else 0)


def _split(node: Call, fields: Sequence[RelayExpr], most: int, buffers: int) -> Call | None:
    """Split a concatenation into a chain of concatenations within the limits; None if it is within the limits.

    ``fields`` are the inputs, possibly rewritten.
    """
    own, each = _arguments(node), [_arguments(f) for f in node.args[0].fields]
    # The dynamic dimensions of the output occur in the inputs, but its strides are additional arguments.
    room = most - (1 if own == 1 else 1 + len(dims(node.checked_type_)))
    if (not most or sum(each) <= room) and (not buffers or len(fields) < buffers):
        return None
    inputs: list[RelayExpr] = []
    taken = 0
    for field, needed in zip(fields, each):
        full = most and taken + needed > room or buffers and len(inputs) + 1 >= buffers
        if full and len(inputs) > 1:
            inputs = [Call(node.op, (stop_fusion(Tuple(inputs)),), node.attrs, (), node.span)]
            taken = own
        inputs.append(field)
        taken += needed
    return Call(node.op, (stop_fusion(Tuple(inputs)),), node.attrs, (), node.span)


def SplitArgs(max_function_args: int, max_buffer_args: int = 0) -> RelayFunctionPass:
    """Split concatenations with too many inputs for the device into chains of concatenations.

    Parameters
    ----------
    max_function_args : int
        The maximum number of arguments of a kernel, including its output; 0 for no limit.
    max_buffer_args : int, optional
        The maximum number of buffers of a kernel, including its output; 0 for no limit.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=1, name="SplitArgs", required=["InferType"])
    def split(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        memo: dict[int, tuple] = {}
        for node in post_order(func):
            if is_call(node, "concatenate") and isinstance(node.args[0], Tuple):
                made = _split(node, rewrite(node.args[0], memo=memo).fields, max_function_args, max_buffer_args)
                if made is not None:
                    memo[id(node)] = (node, made)
        return rewrite(func, memo=memo) if memo else func

    return split


__all__ = ["SplitArgs"]
