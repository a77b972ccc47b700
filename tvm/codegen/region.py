"""What every back end needs to know of a parallel region before its body becomes a function of its own."""

from __future__ import annotations

import math

from ..ir.prim import BufferLoad, Call, IntImm, Let, PrimExpr, Var
from ..ir.visit import post_order, pre_order, rewrite
from ..tir.stmt import Allocate, AllocateConst, BufferStore, For, ForKind, LetStmt, Stmt, While

# A loop that tasks share is cut into even ranges, one per task (several tasks share one where there are more than
# RANGES). A task begins with the first half of its own range: always the same iterations, so that it finds in its cache
# what it left there. The rest of each range is cut into pieces, handed out by a count of its own; a task takes those of
# its own range, then those the others have left, so that one on a slower core does less.
RANGES = 16
PIECES = 8
# Bytes from one count to the next: a cache line each, or tasks would wait for each other's counts.
APART = 64
# Fewer stores than this take a few microseconds: handing out pieces would cost more than an uneven end.
_FEWEST_STORES = 4096


def is_worth_sharing(loop: For) -> bool:
    """Whether a parallel loop may run long enough for its tasks to take pieces of it as they become free."""
    return _stores(loop) >= _FEWEST_STORES


def _stores(stmt: Stmt) -> float:
    """How many stores a statement does, without end where that is not known."""
    if isinstance(stmt, For):
        return stmt.extent.value * _stores(stmt.body) if isinstance(stmt.extent, IntImm) else math.inf
    if isinstance(stmt, While):
        return math.inf
    here = 0
    for child in stmt.children():
        if isinstance(child, Stmt):
            here += _stores(child)
        elif isinstance(child, PrimExpr) and any(_is_unknown_call(node) for node in post_order(child)):
            return math.inf
    return here + isinstance(stmt, BufferStore)


def _is_unknown_call(node) -> bool:
    """Functions of other languages, of the user, and of this module."""
    if not isinstance(node, Call):
        return False
    name = getattr(node.op, "name", "")
    return name in ("", "tir.call_extern", "tir.call_pure_extern") or name.startswith("tir.tvm_call_")


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
