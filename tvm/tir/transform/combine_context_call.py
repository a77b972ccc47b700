"""CombineContextCall: merge equal calls of ``tvm_thread_context`` in a function or parallel loop body."""

from __future__ import annotations

from typing import Any

from ...ir.prim import PrimExpr, Var
from ...ir.structural import structural_equal
from ...ir.visit import rewrite
from ..function import PrimFunc
from ..stmt import AttrStmt, For, ForKind, LetStmt, Stmt
from .statement import StmtRewriter, is_call


class ContextCombiner(StmtRewriter):
    def __init__(self):
        self.known: list[tuple[PrimExpr, Var]] = []

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def after(self, node: Any):
        if not is_call(node, "tir.tvm_thread_context"):
            return None
        context = node.args[0]
        for value, var in self.known:
            if structural_equal(value, context):
                return var
        var = Var(f"ctx_cache_{len(self.known)}", context.dtype)
        self.known.append((context, var))
        return var

    def frame(self, body: Stmt) -> Stmt:
        outer, self.known = self.known, []
        new = self.stmt(body)
        for value, var in reversed(self.known):
            new = LetStmt(var, value, new)
        self.known = outer
        return new

    def on_For(self, node: For) -> Stmt:
        if node.kind is not ForKind.PARALLEL:
            return self.keep(node)
        return node.replace(min=self.expr(node.min), extent=self.expr(node.extent), body=self.frame(node.body))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("thread_extent", "coproc_uop_scope"):
            return node.replace(body=self.frame(node.body))
        return self.keep(node)


def combine_context_call(func: PrimFunc) -> PrimFunc:
    return func.replace(body=ContextCombiner().frame(func.body))
