"""What every back end needs to know of a parallel region before its body becomes a function of its own."""

from __future__ import annotations

from ..ir.prim import BufferLoad, Let, PrimExpr, Var
from ..ir.visit import pre_order, rewrite
from ..tir.stmt import Allocate, AllocateConst, BufferStore, For, ForKind, LetStmt, Stmt

# A loop that tasks share: each begins with half of an even share, always the same iterations, so that it finds what it
# left in its cache; the rest is cut into this many pieces per task, and whoever is free takes the next piece.
PIECES = 8


def outer_variables(stmt: Stmt) -> list[Var]:
    """Variables that ``stmt`` uses and does not define, in order of first use."""
    used: dict[Var, None] = {}
    own: set[Var] = set()
    for node in pre_order(stmt):
        if isinstance(node, Var):
            used.setdefault(node)
        elif isinstance(node, (BufferLoad, BufferStore)):
            used.setdefault(node.buffer.data)
        elif isinstance(node, (LetStmt, Let)):
            own.add(node.var)
        elif isinstance(node, For):
            own.add(node.loop_var)
        elif isinstance(node, (Allocate, AllocateConst)):
            own.add(node.buffer_var)
    return [var for var in used if var not in own]


def without_allocations(stmt: Stmt) -> tuple[Stmt, list[Allocate]]:
    """Memory the tasks of a region share is allocated before they start; inside a parallel loop it is a task's own."""
    found: list[Allocate] = []

    def lift(node):
        if isinstance(node, Allocate):
            found.append(node)
            return node.body
        return None

    def stop(node):
        return node if isinstance(node, PrimExpr) or (isinstance(node, For) and node.kind is ForKind.PARALLEL) else None

    return rewrite(stmt, lift, stop), found
