"""LowerInitBlock: replace the initial value of a reduction block by a conditional statement."""

from __future__ import annotations

from ...ir import primop
from ...ir.prim import IterVar, PrimExpr
from ..function import PrimFunc
from ..stmt import Block, IfThenElse, Stmt, seq
from .statement import StmtRewriter


class InitLowerer(StmtRewriter):
    def on_Block(self, node: Block) -> Stmt:
        body = self.stmt(node.body)
        if node.init is None:
            return node if body is node.body else node.replace(body=body)
        return node.replace(init=None, body=seq(first_time(node), body))


def first_time(block: Block) -> Stmt:
    """Return the initialization under the condition that every reduction axis has its first value."""
    condition: PrimExpr | None = None
    for axis in block.iter_vars:
        if axis.iter_type == IterVar.CommReduce:
            start = primop.equal(axis.var, axis.dom.min)
            condition = start if condition is None else primop.logical_and(condition, start)
    return block.init if condition is None else IfThenElse(condition, block.init)


def lower_init_block(func: PrimFunc) -> PrimFunc:
    return func.replace(body=InitLowerer().stmt(func.body))
