"""Batches of products of two quantized tensors in integers, as in attention.

Neither operand is known when compiling, so the parts of both zero points are summed when the model runs:
``sum (x - a) * (y - b) = sum x * y - a * sum y - b * sum x + k * a * b``.
"""

from __future__ import annotations

from ....target import Target
from ....topi.cpu.dot_products import dot_product
from ...expr import Call, RelayExpr, const
from ...infer import dims
from ...op import reduce, tensor, transform
from ...op.nn.byte_operand import byte_operand
from ...op.record import CallAttrs
from ..function_pass import type_of
from ..simplify_expr import Table
from .integer_products import MAX_TERMS
from .integer_products import _signed as signed_bytes


def integer_batch_matmul(node: Call, counts) -> RelayExpr | None:
    """A batch of products of quantized data as one of int8."""
    attrs, found = node.attrs, [byte_operand(e) for e in node.args]
    if type_of(node).dtype != "float32" or attrs.transpose_a or None in found:
        return None
    terms = dims(type_of(node.args[0]))[2]
    if not isinstance(terms, int) or terms > MAX_TERMS:
        return None
    (x, a), (y, b) = (signed_bytes(*operand) for operand in found if operand is not None)
    total: RelayExpr = Call(node.op, (x, y), CallAttrs({**attrs.entries, "out_dtype": "int32"}), (), node.span)
    if b:
        rows = reduce.sum(tensor.cast(x, "int32"), axis=[2], keepdims=True)
        total = tensor.subtract(total, tensor.multiply(rows, const(b, "int32")))
    if a:
        columns = tensor.cast(y, "int32")
        columns = reduce.sum(columns, axis=[2 if attrs.transpose_b else 1], keepdims=not attrs.transpose_b)
        columns = transform.expand_dims(columns, 1) if attrs.transpose_b else columns
        total = tensor.subtract(total, tensor.multiply(columns, const(a, "int32")))
    if a and b:
        total = tensor.add(total, const(terms * a * b, "int32"))
    return tensor.cast(total, "float32")


def rules(target: Target) -> Table:
    """What SimplifyExpr does for a target with dot products of bytes."""
    return {} if dot_product(target, "int8") is None else {"nn.batch_matmul": (integer_batch_matmul,)}


__all__ = ["rules"]
