"""Analyses of parallel regions, which all back ends use before the body becomes a separate function."""

from __future__ import annotations

import math

from ..ir.prim import BufferLoad, Call, IntImm, Let, PrimExpr, Var
from ..ir.visit import post_order, pre_order, rewrite
from ..tir.stmt import Allocate, AllocateConst, BufferStore, For, ForKind, LetStmt, Stmt, While

# A shared loop is split into even ranges, one per task (with more than RANGES tasks, several share a range). A task
# begins with the first half of its own range: it always gets the same iterations, whose data may still be in its cache.
# The rest of each range is split into chunks with a counter per range. A task takes chunks of its own range, then
# chunks of other ranges, so that a task on a slower core executes fewer of them.
RANGES = 16
PIECES = 8
# Bytes between counters: one cache line each, to avoid false sharing.
APART = 64
# A loop with fewer stores takes a few microseconds, so that distributing chunks would cost more than load imbalance.
_FEWEST_STORES = 4096


def is_worth_sharing(loop: For) -> bool:
    """Return whether a parallel loop may run long enough to distribute its iterations in chunks."""
    return _stores(loop) >= _FEWEST_STORES


def _stores(stmt: Stmt) -> float:
    """Return the number of stores that a statement executes; infinite if it is unknown."""
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
    """Return whether a node calls an external function, a packed function or a function of this module."""
    if not isinstance(node, Call):
        return False
    name = getattr(node.op, "name", "")
    return name in ("", "tir.call_extern", "tir.call_pure_extern") or name.startswith("tir.tvm_call_")


def outer_variables(stmt: Stmt) -> list[Var]:
    """Return the variables that ``stmt`` uses but does not define, in order of first use."""
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
    """Remove the allocations that tasks share, which are allocated before the tasks start. Allocations inside a
    parallel loop are private to a task."""
    found: list[Allocate] = []

    def lift(node):
        if isinstance(node, Allocate):
            found.append(node)
            return node.body
        return None

    def stop(node):
        return node if isinstance(node, PrimExpr) or (isinstance(node, For) and node.kind is ForKind.PARALLEL) else None

    return rewrite(stmt, lift, stop), found
