"""Lowering of extern operations: binds their buffers to the memory of the tensors."""

from __future__ import annotations

from typing import Any

from ..ir.op import Op
from ..ir.prim import Call, const
from ..tir.stmt import AttrStmt, Stmt
from .tensor import ExternOp, Tensor


def bind_buffer(buffer: Any, tensor: Tensor, region: list[tuple[Any, ...]], body: Stmt) -> Stmt:
    """Bind ``buffer`` to a region (pairs of start and extent) of the tensor's memory inside ``body``."""
    flat = [e for pair in region for e in pair]
    return AttrStmt((buffer, tensor), "buffer_bind_scope", Call("handle", Op.get("tir.tvm_tuple"), tuple(flat)), body)


def bind_extern(op: ExternOp) -> Stmt:
    stmt = op.body
    for tensor, buffer in reversed(
        list(zip(op.inputs, op.input_placeholders)) + list(zip(op.outputs, op.output_placeholders))
    ):
        stmt = bind_buffer(buffer, tensor, [(const(0, d.dtype), d) for d in tensor.shape], stmt)
    return stmt
