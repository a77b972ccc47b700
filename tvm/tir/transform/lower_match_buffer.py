"""LowerMatchBuffer: replace the views that a block declares on regions of buffers by accesses of those buffers."""

from __future__ import annotations

from typing import Any

from ...error import TVMError
from ...ir import primop
from ...ir.prim import BufferLoad, IntImm, PrimExpr, Var
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, MatchBufferRegion, Stmt
from .statement import StmtRewriter
from .storage_flatten import row_major


class MatchLowerer(StmtRewriter):
    def __init__(self):
        self.views: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}
        self.values: dict[Var, PrimExpr] = {}

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after) if self.views or self.values else node

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer in self.views:
            target, indices = self.place(node.buffer, node.indices)
            return BufferLoad(target, indices)
        if isinstance(node, Var):
            return self.values.get(node)
        return None

    def place(self, view: Buffer, indices) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        target, begins = self.views[view]
        extra = len(begins) - len(indices)
        moved = [*begins[:extra], *(b + i for b, i in zip(begins[extra:], indices))]
        if target in self.views:
            return self.place(target, moved)
        return target, tuple(moved)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer not in self.views:
            return new
        target, indices = self.place(node.buffer, new.indices)
        return BufferStore(target, new.value, indices)

    def on_BlockRealize(self, node: BlockRealize) -> Stmt:
        predicate = self.expr(node.predicate)
        return BlockRealize(tuple(self.expr(v) for v in node.iter_values), predicate, self.stmt(node.block))

    def on_Block(self, node: Block) -> Stmt:
        for match in node.match_buffers:
            self.bind(match)
        body = self.stmt(node.body)
        return node.replace(body=body, match_buffers=(), reads=(), writes=())

    def bind(self, match: MatchBufferRegion) -> None:
        view, source = match.buffer, match.source
        target = source.buffer
        if view.dtype != target.dtype:
            raise TVMError(
                f"match_buffer: the type {view.dtype} of view {view.name} differs from the type {target.dtype} of "
                f"{target.name}"
            )
        begins = [self.expr(r.min) for r in source.region]
        extents = [self.expr(r.extent) for r in source.region]
        extra = len(extents) - len(view.shape)
        if extra < 0:
            raise TVMError(f"match_buffer: view {view.name} has more dimensions than its source {target.name}")
        self.views[view] = (target, begins)
        strides = [self.expr(s) for s in target.strides] or list(row_major(target.shape))
        self.values[view.data] = target.data
        for i, (declared, found) in enumerate(zip(view.shape, extents[extra:])):
            self.match(view, f"shape[{i}]", declared, found)
        for i, (declared, found) in enumerate(zip(view.strides, strides[extra:])):
            self.match(view, f"strides[{i}]", declared, found)
        offset = target.elem_offset
        for begin, stride in zip(begins, strides):
            offset = offset + begin * primop.cast(begin.dtype, stride)
        if isinstance(view.elem_offset, Var):
            self.values[view.elem_offset] = primop.cast(view.elem_offset.dtype, offset)

    def match(self, view: Buffer, what: str, declared: PrimExpr, found: PrimExpr) -> None:
        if isinstance(declared, Var):
            self.values[declared] = primop.cast(declared.dtype, found)
        elif isinstance(declared, IntImm) and isinstance(found, IntImm) and declared.value != found.value:
            raise TVMError(
                f"match_buffer: {what} of view {view.name} is declared as {declared.value}, but that of the region "
                f"is {found.value}"
            )


def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    return func.replace(body=MatchLowerer().stmt(func.body))
