"""ConvertBlocksToOpaque: replace the axes of blocks by their values; only the body and the memory of a block remain."""

from __future__ import annotations

from typing import Any

from ...ir.prim import PrimExpr, Var
from ...ir.visit import rewrite
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, Stmt
from .statement import StmtRewriter


class BlockRewriter(StmtRewriter):
    """A rewriter that replaces the axes of blocks by their values."""

    def __init__(self):
        self.values: dict[Var, PrimExpr] = {}

    def expr(self, node: Any) -> Any:
        if not self.values:
            return node
        return rewrite(node, lambda n: self.values.get(n) if isinstance(n, Var) else None)

    def enter(self, node: BlockRealize) -> PrimExpr:
        """Record the values of the axes of a block, and return its condition."""
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            self.values[axis.var] = self.expr(value)
        return self.expr(node.predicate)


class OpaqueBlocks(BlockRewriter):
    def on_BlockRealize(self, node: BlockRealize) -> Stmt:
        return BlockRealize((), self.enter(node), self.stmt(node.block))

    def on_Block(self, node: Block) -> Stmt:
        reads = tuple(self.expr(r) for r in node.reads)
        writes = tuple(self.expr(r) for r in node.writes)
        matches = tuple(self.expr(m) for m in node.match_buffers)
        init = None if node.init is None else self.stmt(node.init)
        return Block(
            (), reads, writes, node.name_hint, self.stmt(node.body), init, node.alloc_buffers, matches, node.annotations
        )


def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    return func.replace(body=OpaqueBlocks().stmt(func.body))
