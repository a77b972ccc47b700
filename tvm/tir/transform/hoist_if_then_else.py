"""HoistIfThenElse: a condition that a loop does not change is tested before the loop.

Only a condition around the whole body of the loop moves, so no statement is copied.
"""

from __future__ import annotations

from typing import Any

from ...ir import primop
from ...ir.prim import BufferLoad, Call, Div, FloorDiv, FloorMod, Mod, PrimExpr, Var
from ...ir.visit import pre_order
from ..function import PrimFunc
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import AttrStmt, For, ForKind, IfThenElse, LetStmt, Stmt
from .statement import StmtRewriter

# Nodes of a condition that is taken out of a loop. In a chain of choices each condition may hold all that come before.
LARGEST = 256


class Hoister(StmtRewriter):
    def __init__(self, out_of_threads: bool):
        self.out_of_threads = out_of_threads

    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        return new if node.kind is ForKind.THREAD_BINDING else self.out_of(new)

    def out_of(self, loop: For) -> Stmt:
        """The loop with the conditions around its whole body before it, those that become so included."""
        body = loop.body
        if not isinstance(body, IfThenElse) or not invariant(body.condition, loop.loop_var):
            return loop
        then_case = self.out_of(loop.replace(body=body.then_case))
        else_case = None if body.else_case is None else self.out_of(loop.replace(body=body.else_case))
        return IfThenElse(body.condition, then_case, else_case)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        new = self.keep(node)
        body = new.body
        moves = isinstance(body, IfThenElse) and body.else_case is None and self.lets_out(node, body.condition)
        return IfThenElse(body.condition, new.replace(body=body.then_case)) if moves else new

    def lets_out(self, node: AttrStmt, condition: PrimExpr) -> bool:
        """Whether a condition may be tested before what the attribute stands for."""
        if node.attr_key == "thread_extent":
            return self.out_of_threads and invariant(condition, node.node.var)
        return node.attr_key.startswith("pragma_")

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        return self.keep(node)


def invariant(condition: PrimExpr, variable: Var) -> bool:
    """The value is the same in every iteration of the loop of a variable, and can be had even if there is none: no
    memory, no division that may fail."""
    for number, n in enumerate(pre_order(condition)):
        if number == LARGEST or n is variable or isinstance(n, BufferLoad):
            return False
        if type(n) is Call and effect_of(n) > CallEffectKind.ReadState:
            return False
        if isinstance(n, (Div, Mod, FloorDiv, FloorMod)) and primop.literal(n.b) in (None, 0):
            return False
    return True


def hoist_if_then_else(func: PrimFunc, config: Any = None) -> PrimFunc:
    out_of_threads = config is not None and config.support_block_scope_hosting
    return func.replace(body=Hoister(out_of_threads).stmt(func.body))
