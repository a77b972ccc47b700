"""RemoveAssume: remove ``tir.assume`` statements."""

from __future__ import annotations

from ..function import PrimFunc
from ..stmt import Evaluate, Stmt, no_op
from .remove_no_op import remove_no_op
from .statement import StmtRewriter, is_call


class AssumeRemover(StmtRewriter):
    def on_Evaluate(self, node: Evaluate) -> Stmt:
        return no_op() if is_call(node.value, "tir.assume") else node


def remove_assume(func: PrimFunc) -> PrimFunc:
    body = AssumeRemover().stmt(func.body)
    return func if body is func.body else remove_no_op(func.replace(body=body))
