"""LowerOpaqueBlock: replace blocks by their bodies and allocations, and thread-bound loops by attributes."""

from __future__ import annotations

from typing import Any

from ...ir.prim import IntImm, IterVar, PrimExpr, Range, StringImm, Var, const
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, Block, BlockRealize, DeclBuffer, For, ForKind, IfThenElse, Stmt
from .convert_blocks_to_opaque import BlockRewriter
from .statement import int_value


class BlockLowerer(BlockRewriter):
    def on_BlockRealize(self, node: BlockRealize) -> Stmt:
        predicate = self.enter(node)
        body = self.stmt(node.block)
        return body if int_value(predicate) == 1 else IfThenElse(predicate, body)

    def on_Block(self, node: Block) -> Stmt:
        body = self.stmt(node.body)
        for key, value in node.annotations.items():
            if str(key).startswith("pragma_") and annotation(value) is not None:
                body = AttrStmt(Var(node.name_hint or "block", "int32"), str(key), annotation(value), body)
        for buffer in reversed(node.alloc_buffers):
            extents = tuple(self.expr(e) for e in buffer.shape) or (const(1, "int32"),)
            if buffer.strides:
                extents = (self.expr(buffer.strides[0]) * extents[0],)
            body = Allocate(buffer.data, buffer.dtype, extents, const(True, "bool"), DeclBuffer(buffer, body))
        return body

    def on_For(self, node: For) -> Stmt:
        low, extent = self.expr(node.min), self.expr(node.extent)
        if node.kind is ForKind.THREAD_BINDING:
            return self.thread(node, low, extent)
        body = self.stmt(node.body)
        annotations = {k: v for k, v in node.annotations.items() if not str(k).startswith("pragma_")}
        new: Stmt = For(node.loop_var, low, extent, node.kind, body, None, annotations)
        for key, value in node.annotations.items():
            if str(key).startswith("pragma_") and annotation(value) is not None:
                new = AttrStmt(node.loop_var, str(key), annotation(value), new)
        return new

    def thread(self, node: For, low: PrimExpr, extent: PrimExpr) -> Stmt:
        tag = node.thread_binding.thread_tag
        axis = IterVar(Range.from_min_extent(low, extent), Var(tag, node.loop_var.dtype), IterVar.ThreadIndex, tag)
        self.values[node.loop_var] = axis.var + low
        key = "virtual_thread" if tag.startswith("vthread") else "thread_extent"
        return AttrStmt(axis, key, extent, self.stmt(node.body))


def annotation(value: Any) -> PrimExpr | None:
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int)):
        return IntImm("int32", int(value))
    return StringImm(value) if isinstance(value, str) else None


def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    return func.replace(body=BlockLowerer().stmt(func.body))
