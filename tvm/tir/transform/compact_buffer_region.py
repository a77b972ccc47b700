"""CompactBufferAllocation: shrink memory that is allocated inside a loop to the region that is accessed there."""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...arith.interval_set import as_set, eval_set
from ...ir.prim import BufferLoad, IntImm, PrimExpr, Range, Var
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, Stmt
from .accessed_region import bounded_union
from .statement import StmtRewriter


def touched(body: Stmt, buffer: Buffer) -> list[Range] | None:
    """Return the region of a buffer that a statement accesses, or None if a part of it is unknown."""
    ranges: dict[Var, Any] = {}
    found: list[list] = []

    def visit(node: Any) -> bool:
        if isinstance(node, For):
            ranges[node.loop_var] = as_set(Range.from_min_extent(node.min, node.extent))
        if isinstance(node, Block) and any(m.source.buffer is buffer for m in node.match_buffers):
            return False
        for child in node.children():
            if isinstance(child, Stmt):
                if not visit(child):
                    return False
            else:
                for n in post_order(child):
                    if isinstance(n, BufferLoad) and n.buffer is buffer:
                        found.append([eval_set(i, ranges) for i in n.indices])
                    elif n is buffer.data:
                        return False
        if isinstance(node, BufferStore) and node.buffer is buffer:
            found.append([eval_set(i, ranges) for i in node.indices])
        return True

    if not visit(body) or not found:
        return None
    return bounded_union(found)


class Compactor(StmtRewriter):
    def __init__(self, is_strict: bool):
        self.is_strict = is_strict
        self.analyzer = Analyzer()
        self.new: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after) if self.new else node

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer in self.new:
            buffer, mins = self.new[node.buffer]
            return BufferLoad(buffer, tuple(i - m for i, m in zip(node.indices, mins)))
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer not in self.new:
            return new
        buffer, mins = self.new[node.buffer]
        return BufferStore(buffer, new.value, tuple(i - m for i, m in zip(new.indices, mins)))

    def on_For(self, node: For) -> Stmt:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        return self.keep(node)

    def on_BlockRealize(self, node: BlockRealize) -> Stmt:
        block = self.stmt(node.block)
        return node if block is node.block else BlockRealize(node.iter_values, node.predicate, block)

    def on_Block(self, node: Block) -> Stmt:
        buffers = []
        for buffer in node.alloc_buffers:
            region = touched(node.body, buffer) if not buffer.strides else None
            if region is None or not self.fits(region, buffer):
                buffers.append(buffer)
                continue
            shape = tuple(r.extent for r in region)
            compact = Buffer(
                buffer.data, buffer.dtype, shape, (), buffer.elem_offset, buffer.name, buffer.data_alignment,
                buffer.offset_factor, buffer.buffer_type,
            )  # fmt: skip
            self.new[buffer] = (compact, [r.min for r in region])
            buffers.append(compact)
        body = self.stmt(node.body)
        return node.replace(body=body, alloc_buffers=tuple(buffers), reads=(), writes=())

    def fits(self, region: list[Range], buffer: Buffer) -> bool:
        """Return whether the extents are known and differ from the declared ones, and with ``strict`` do not exceed
        them."""
        differs = False
        for r, extent in zip(region, buffer.shape):
            if not isinstance(r.extent, IntImm) or not isinstance(extent, IntImm):
                return False
            if self.is_strict and r.extent.value > extent.value:
                return False
            differs = differs or r.extent.value != extent.value
        return differs


def compact_buffer_region(func: PrimFunc, is_strict: bool = True) -> PrimFunc:
    return func.replace(body=Compactor(is_strict).stmt(func.body))
