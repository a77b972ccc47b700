"""Passes that write operators in a canonical form, and duplicate casts so that they can be fused with their users."""

from __future__ import annotations

from ...dtype import info
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PASSES, PassContext
from ..checked_type import with_type_of
from ..expr import Call, Constant, Function
from ..infer import dims
from ..op import tensor, transform
from ..op.record import BROADCAST, pattern_of
from ..op.rules import normalize_axis
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed


def _bias_as_add(node):
    """Write ``bias_add`` as an ``add`` of the bias, expanded with trailing dimensions of size 1."""
    if not is_call(node, "nn.bias_add"):
        return None
    data, bias = node.args
    rank = len(dims(data.checked_type_))
    after = rank - normalize_axis(node.attrs.axis, rank) - 1
    if isinstance(bias, Constant):
        array = bias.data.numpy()
        return tensor.add(data, Constant(array.reshape(array.shape + (1,) * after)) if after else bias)
    return tensor.add(data, transform.expand_dims(bias, 1, after) if after else bias)


def CanonicalizeOps() -> RelayFunctionPass:
    """Write ``bias_add`` as ``add``, so that one set of rules covers both operators."""

    @function_pass(opt_level=3, name="CanonicalizeOps", required=["InferType"])
    def canonicalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, _bias_as_add, mod)

    return canonicalize


def _bits(t) -> int:
    return info(t.dtype).bits if isinstance(t, TensorType) else 0


def canonicalize_casts(func: Function, mod: IRModule | None) -> Function:
    """Duplicate a widening cast for each element-wise operator that uses it.

    Each copy is fused into the kernel of its user, so that only the narrow tensor is stored in memory."""
    used: set[int] = set()

    def own(arg):
        if not is_call(arg, "cast") or _bits(arg.checked_type_) <= _bits(arg.args[0].checked_type_):
            return arg
        if id(arg) not in used:
            used.add(id(arg))
            return arg
        return with_type_of(Call(arg.op, arg.args, arg.attrs, (), arg.span), arg)

    def rule(node):
        if type(node) is not Call or type(node.op) is not Op or pattern_of(node.op) > BROADCAST:
            return None
        args = tuple(own(a) for a in node.args)
        changed = any(a is not b for a, b in zip(args, node.args))
        return Call(node.op, args, node.attrs, node.type_args, node.span) if changed else None

    return rewrite_typed(func, rule, mod)


def CanonicalizeCast() -> RelayFunctionPass:
    """Duplicate widening casts, one for each user."""

    @function_pass(opt_level=3, name="CanonicalizeCast", required=["InferType"])
    def canonicalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return canonicalize_casts(func, mod)

    return canonicalize


PASSES.register("CanonicalizeOps", CanonicalizeOps)

__all__ = ["CanonicalizeCast", "CanonicalizeOps"]
