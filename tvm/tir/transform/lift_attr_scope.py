"""LiftAttrScope: move an attribute to the largest statement whose work is all inside this attribute.

The attribute moves over loops, branches and other attributes, and adjacent statements with the same attribute are
merged. It does not move over allocations and virtual threads, and not over a definition that its value uses.
"""

from __future__ import annotations

from ...ir.prim import Var
from ...ir.structural import structural_equal
from ..function import PrimFunc
from ..stmt import AttrStmt, For, IfThenElse, SeqStmt, Stmt, seq
from .statement import StmtRewriter, uses_any


class ScopeLifter(StmtRewriter):
    def __init__(self, key: str, merges: bool):
        self.key, self.merges = key, merges

    def lifted(self, node: Stmt) -> tuple[Stmt, AttrStmt | None]:
        """Return a statement without the attribute that contains all of its work, and this attribute."""
        new = self.stmt(node)
        if isinstance(new, AttrStmt) and new.attr_key == self.key:
            return new.body, new
        return new, None

    def over(self, node: For | AttrStmt, defined: Var | None = None) -> Stmt:
        body, scope = self.lifted(node.body)
        if scope is None:
            return node if body is node.body else node.replace(body=body)
        if defined is not None and uses_any(scope.value, [defined]):
            return node.replace(body=scope.replace(body=body))
        return scope.replace(body=node.replace(body=body))

    def on_For(self, node: For) -> Stmt:
        return self.over(node, node.loop_var)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in (self.key, "virtual_thread", "thread_extent"):
            return self.keep(node)
        return self.over(node)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        if node.else_case is not None:
            return self.keep(node)
        body, scope = self.lifted(node.then_case)
        new = IfThenElse(node.condition, body, None)
        return self.keep(node) if scope is None else scope.replace(body=new)

    def on_SeqStmt(self, node: SeqStmt) -> Stmt:
        out: list[Stmt] = []
        for part in map(self.stmt, node.seq):
            last = out[-1] if out else None
            if self.merges and same_scope(last, part, self.key):
                out[-1] = last.replace(body=seq(last.body, part.body))
            else:
                out.append(part)
        return seq(*out)


def same_scope(one: Stmt | None, two: Stmt, key: str) -> bool:
    return (
        isinstance(one, AttrStmt)
        and isinstance(two, AttrStmt)
        and one.attr_key == two.attr_key == key
        and one.node is two.node
        and structural_equal(one.value, two.value)
    )


def lift_attr_scope(func: PrimFunc, attr_key: str, merges_neighbors: bool = True) -> PrimFunc:
    return func.replace(body=ScopeLifter(attr_key, merges_neighbors).stmt(func.body))
