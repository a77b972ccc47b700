"""Share kernels between layers that differ only in the number of channel blocks.

The record of an operator that processes all channel blocks independently and alike has the entry ``for_any_blocks``:
the attributes of a call that accepts any number of blocks. If image sizes are dynamic, the number of blocks becomes an
additional dynamic dimension. Layers that differ only in this number then share a kernel, which is compiled once.
"""

from __future__ import annotations

from ...ir.op import Op
from ...ir.prim import IntImm, PrimExpr, SizeVar
from ...ir.tensor_type import TensorType
from ...ir.type import Type
from ...ir.visit import post_order, rewrite
from ..expr import Call, Function, RelayExpr, Var
from ..op.record import BROADCAST, pattern_of
from ..symbolic import primitive_form, with_types

# The rank and the axis of the block count, of data (n, C/c, h, w, c) and of kernels (O/o, I/i, kh, kw, i, o).
_DATA, _KERNEL = (5, 1), (6, 0)


def shared_form(function: Function) -> Function:
    """Return a fused function with dynamic shapes in the form in which its kernel is compiled, with its own size
    variables."""
    lead = _lead(function)
    made = None if lead is None else primitive_form(_for_any(function, lead)).function
    return made if made is not None and _is_alike(made) else primitive_form(function).function


def _lead(function: Function) -> Call | None:
    """Return the operator over channel blocks of a function whose other operators are element-wise, else None."""
    calls = [n for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, Op)]
    found = [c for c in calls if "for_any_blocks" in c.op.attrs]
    if len(found) != 1 or any(pattern_of(c.op) > BROADCAST for c in calls if c is not found[0]):
        return None
    data, kernel = (a.checked_type_.shape for a in found[0].args)
    if (len(data), len(kernel)) != (_DATA[0], _KERNEL[0]) or not isinstance(found[0].args[1], Var):
        return None
    # There must be as many filters as channels. For a static width, the choice of row tiles depends on the number of
    # blocks.
    same = all(isinstance(x, IntImm) and _is(y, x.value) for x, y in ((data[1], kernel[0]), (data[4], kernel[5])))
    return found[0] if same and not isinstance(data[3], IntImm) else None


def _for_any(function: Function, lead: Call) -> Function:
    weight = lead.args[1]
    blocks, number = SizeVar("blocks", "int64"), int(weight.checked_type_.shape[0])

    def with_dynamic_blocks(p: Var) -> Type:
        t = p.checked_type_ or p.type_annotation
        rank, axis = _KERNEL if p is weight else _DATA
        if not isinstance(t, TensorType) or len(t.shape) != rank or not _is(t.shape[axis], number):
            return t
        return TensorType([blocks if i == axis else d for i, d in enumerate(t.shape)], t.dtype)

    def post(e: RelayExpr) -> RelayExpr | None:
        is_lead = isinstance(e, Call) and e.op is lead.op
        return Call(e.op, e.args, e.op.attrs["for_any_blocks"](e.attrs)) if is_lead else None

    typed = with_types(function, [with_dynamic_blocks(p) for p in function.params], None)
    return Function(typed.params, rewrite(typed.body, post), None, typed.type_params, typed.attrs, typed.span)


def _is(d: PrimExpr, number: int) -> bool:
    return isinstance(d, IntImm) and d.value == number


def _is_alike(function: Function) -> bool:
    """Return whether only the weight depends on the number of blocks: every other value is a scalar, has the dynamic
    number of blocks, or has one block."""
    types = [n.checked_type_ for n in post_order(function.body) if isinstance(n, (Call, Var))]
    if not all(isinstance(t, TensorType) and len(t.shape) in (0, _DATA[0], _KERNEL[0]) for t in types):
        return False
    counts = {t.shape[1] for t in types if len(t.shape) == _DATA[0] and not _is(t.shape[1], 1)}
    return len(counts) == 1 and isinstance(counts.pop(), SizeVar)


__all__ = ["shared_form"]
