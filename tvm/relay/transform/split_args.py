"""Concatenations with more inputs than a kernel of the device takes arguments."""

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
    """How many arguments a tensor is: itself, and sizes and strides where some are known at run time only."""
    shape = dims(value.checked_type_)
    late = sum(not isinstance(d, int) for d in shape)
    return 1 + (late + len(shape) if late else 0)


def _split(node: Call, fields: Sequence[RelayExpr], most: int, buffers: int) -> Call | None:
    """A chain of concatenations, each of what the one before it gave and of as many more inputs as there is room for;
    None where there is room for all. ``fields`` are the inputs, perhaps made anew."""
    own, each = _arguments(node), [_arguments(f) for f in node.args[0].fields]
    # The sizes of the result are among those of the inputs, its strides are not.
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
    """Concatenations of more inputs than a device takes arguments become chains of concatenations.

    Parameters
    ----------
    max_function_args : int
        The most arguments of a kernel, its result among them; 0 for no limit.
    max_buffer_args : int, optional
        The most buffers of a kernel, its result among them; 0 for no limit.

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
