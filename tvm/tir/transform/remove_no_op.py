"""RemoveNoOp: remove statements without effect: empty loops and branches, and unused values."""

from __future__ import annotations

from ...ir.prim import IntImm
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    is_no_op,
    no_op,
    seq,
)
from .occurrence import mentions
from .statement import StmtRewriter, has_effect, int_value


class NoOpRemover(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        extent = int_value(node.extent)
        if extent is not None and extent <= 0 and node.kind is not ForKind.THREAD_BINDING:
            return no_op()
        new = self.keep(node)
        return no_op() if is_no_op(new.body) else new

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        new = self.keep(node)
        if is_no_op(new.body):
            return effect_of(new.value)
        if not has_effect(new.value) and not mentions(new.body, node.var):
            return new.body
        return new

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "pragma_debug_skip_region":
            return no_op()
        new = self.keep(node)
        return no_op() if is_no_op(new.body) and not node.attr_key.startswith("thread") else new

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        then_case = self.stmt(node.then_case)
        else_case = None if node.else_case is None else self.stmt(node.else_case)
        if else_case is not None and is_no_op(else_case):
            else_case = None
        if type(node.condition) is IntImm:
            return then_case if node.condition.value else else_case or no_op()
        if is_no_op(then_case) and else_case is None:
            return effect_of(node.condition)
        if then_case is node.then_case and else_case is node.else_case:
            return node
        return IfThenElse(node.condition, then_case, else_case)

    def on_Allocate(self, node: Allocate) -> Stmt:
        new = self.keep(node)
        return no_op() if is_no_op(new.body) else new

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        return node

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        return node if is_no_op(node) or has_effect(node.value) else no_op()

    def on_SeqStmt(self, node) -> Stmt:
        new = [self.stmt(s) for s in node.seq]
        return node if all(a is b and not is_no_op(b) for a, b in zip(new, node.seq)) else seq(*new)


def effect_of(value) -> Stmt:
    return Evaluate(value) if has_effect(value) else no_op()


def remove_no_op(func: PrimFunc) -> PrimFunc:
    return func.replace(body=NoOpRemover().stmt(func.body))
