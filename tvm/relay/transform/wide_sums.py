"""Accumulate half-precision matmuls and convolutions in float32, and round once at the end.

The graph specifies the output type of a matmul (``out_dtype="float16"``). Accumulation in this type would lose most of
the precision, and processors without half-precision arithmetic would convert at every step. The following cast is fused
into the epilogue.
"""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from ..op import tensor
from ..op.record import CallAttrs
from .function_pass import RelayFunctionPass, function_pass, is_contraction, rewrite_typed, type_of

HALF_PRECISION = ("float16", "bfloat16")


def _widened(node: RelayExpr) -> RelayExpr | None:
    if not isinstance(node, Call) or not is_contraction(node):
        return None
    t = type_of(node)
    if not isinstance(t, TensorType) or t.dtype not in HALF_PRECISION:
        return None
    attrs = CallAttrs({**node.attrs.entries, "out_dtype": "float32"})
    return tensor.cast(Call(node.op, node.args, attrs, (), node.span), t.dtype)


def WideSums() -> RelayFunctionPass:
    """Accumulate in float32 if the output of a matmul or convolution is in half precision."""

    @function_pass(opt_level=0, name="WideSums", required=["InferType"])
    def widen(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, _widened, mod)

    return widen


__all__ = ["WideSums"]
