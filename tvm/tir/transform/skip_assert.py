"""SkipAssert: remove assertions."""

from __future__ import annotations

from ..function import PrimFunc
from ..stmt import AssertStmt, Stmt
from .statement import StmtRewriter


class AssertDropper(StmtRewriter):
    def on_AssertStmt(self, node: AssertStmt) -> Stmt:
        return self.stmt(node.body)


def skip_assert(func: PrimFunc) -> PrimFunc:
    return func.replace(body=AssertDropper().stmt(func.body))
