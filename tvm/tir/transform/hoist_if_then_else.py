"""HoistIfThenElse: test loop-invariant conditions before the loop.

Only a condition around the whole body of a loop moves, so no statement is copied. With dynamic shapes, the pass also
moves other conditions on CPUs: the unrolled statements of a tile have the same guard, which is then tested once for all
of them. This is not done on GPUs, where threads may synchronize between two statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...ir import primop
from ...ir.prim import BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, PrimExpr, SizeVar, Var
from ...ir.structural import structural_equal
from ...ir.visit import pre_order
from ..function import PrimFunc
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import Allocate, AttrStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from .loop_partition import conjuncts
from .statement import StmtRewriter, is_call, uses_any

# Maximum number of nodes of a condition that moves out of a loop. In a chain of if_then_else, each condition may
# contain all earlier ones.
LARGEST = 256


class Hoister(StmtRewriter):
    def __init__(self, out_of_threads: bool):
        self.out_of_threads = out_of_threads
        # The extents of the enclosing loops. Inside the loops none of their factors is zero.
        self.factors: list[PrimExpr] = []
        self.threads = 0

    def on_For(self, node: For) -> Stmt:
        known = len(self.factors)
        self.factors += factors(node.extent)
        new = self.keep(node)
        del self.factors[known:]
        return new if node.kind is ForKind.THREAD_BINDING else self.hoisted_from(new)

    def hoisted_from(self, loop: For) -> Stmt:
        """Return the loop after its invariant conditions are moved out. Nested conditions around the whole body move
        too."""
        body = loop.body
        if not isinstance(body, IfThenElse):
            return loop
        if not invariant(body.condition, loop.loop_var, self.not_zero(loop)):
            return loop if self.threads else self.hoisted_terms(loop, body)
        then_case = self.hoisted_from(loop.replace(body=body.then_case))
        else_case = None if body.else_case is None else self.hoisted_from(loop.replace(body=body.else_case))
        return IfThenElse(body.condition, then_case, else_case)

    def not_zero(self, loop: For) -> list[PrimExpr] | None:
        """Return the divisors that are not zero before a loop, or None if an earlier statement evaluates the same
        divisions."""
        if self.threads:
            return []
        return None if isinstance(loop.extent, IntImm) and loop.extent.value > 0 else self.factors

    def hoisted_terms(self, loop: For, body: IfThenElse) -> Stmt:
        """Move the invariant terms of a conjunction out of the loop."""
        parts = conjuncts(body.condition)
        if body.else_case is not None or len(parts) < 2 or not has_dynamic_dimension(body.condition):
            return loop
        outside: list[PrimExpr] = []
        for number, part in enumerate(parts):
            # A term after one that stays may only be evaluated where the term that stays is true.
            not_zero = self.not_zero(loop) if len(outside) == number else self.factors
            outside += [part] if invariant(part, loop.loop_var, not_zero) else []
        if not outside:
            return loop
        inside = [p for p in parts if not any(p is o for o in outside)]
        kept = loop.replace(body=body.replace(condition=reduce(primop.logical_and, inside)))
        return IfThenElse(reduce(primop.logical_and, outside), kept)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        """Merge a condition with the condition directly inside it; one part may move out of a loop although the other
        stays."""
        new = self.keep(node)
        body = new.then_case
        is_one = isinstance(body, IfThenElse) and new.else_case is None and body.else_case is None
        if self.threads or not is_one or not has_dynamic_dimension(body.condition):
            return new
        if not invariant(body.condition, None, self.factors):
            return new
        return IfThenElse(primop.logical_and(new.condition, body.condition), body.then_case)

    def on_SeqStmt(self, node: SeqStmt) -> Stmt:
        new = super().on_SeqStmt(node)
        return new if self.threads or not isinstance(new, SeqStmt) else merged_conditions(new)

    def on_Allocate(self, node: Allocate) -> Stmt:
        new = self.keep(node)
        body = new.body
        moves = isinstance(body, IfThenElse) and body.else_case is None and has_dynamic_dimension(body.condition)
        if not moves or uses_any(body.condition, [node.buffer_var]) or self.threads:
            return new
        return body.replace(then_case=new.replace(body=body.then_case))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        self.threads += node.attr_key == "thread_extent"
        new = self.keep(node)
        self.threads -= node.attr_key == "thread_extent"
        body = new.body
        moves = isinstance(body, IfThenElse) and body.else_case is None and self.may_move_out_of(node, body.condition)
        return IfThenElse(body.condition, new.replace(body=body.then_case)) if moves else new

    def may_move_out_of(self, node: AttrStmt, condition: PrimExpr) -> bool:
        """Return whether a condition may be tested outside an attribute statement."""
        if node.attr_key == "thread_extent":
            return self.out_of_threads and invariant(condition, node.node.var)
        return node.attr_key.startswith("pragma_")

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        return self.keep(node)


def invariant(condition: PrimExpr, variable: Var | None, not_zero: Sequence[PrimExpr] | None = ()) -> bool:
    """Return whether a condition does not depend on a loop variable and is safe to evaluate before the loop: it has no
    loads and no division that may fail. ``not_zero`` are divisors known to be non-zero; None means all divisors."""
    for number, n in enumerate(pre_order(condition)):
        if number == LARGEST or n is variable or isinstance(n, BufferLoad):
            return False
        if type(n) is Call and effect_of(n) > CallEffectKind.ReadState:
            return False
        if isinstance(n, (Div, Mod, FloorDiv, FloorMod)) and primop.literal(n.b) in (None, 0):
            if not_zero is None:
                continue
            if primop.literal(n.b) == 0 or not any(structural_equal(n.b, factor) for factor in not_zero):
                return False
    return True


def factors(extent: PrimExpr) -> list[PrimExpr]:
    """Return the factors of an extent."""
    return factors(extent.a) + factors(extent.b) if isinstance(extent, Mul) else [extent]


def has_dynamic_dimension(condition: PrimExpr) -> bool:
    return any(isinstance(n, SizeVar) for n in pre_order(condition))


def merged_conditions(node: SeqStmt) -> Stmt:
    """Merge adjacent statements with the same condition under one condition, with the prefetches between them."""
    runs: list[list[Any]] = []
    for one in node.seq:
        hints = runs.pop() if runs and is_hint(runs[-1][0]) else []
        if hints and isinstance(one, IfThenElse) and have_same_condition(one, one):
            one = one.replace(then_case=seq(*hints, one.then_case))
            runs += [] if runs and have_same_condition(runs[-1][0], one) else [[]]
            runs[-1].append(one)
        elif not hints and runs and have_same_condition(runs[-1][0], one):
            runs[-1].append(one)
        else:
            runs += [hints, [one]] if hints else [[one]]
    if len(runs) == len(node.seq):
        return node
    return seq(*[_joined(run) if len(run) > 1 else run[0] for run in runs])


def is_hint(stmt: Stmt) -> bool:
    """Return whether a statement only prefetches."""
    body = stmt
    while isinstance(body, For):
        body = body.body
    return isinstance(body, Evaluate) and is_call(body.value, "tir.prefetch")


def _joined(run: list[Any]) -> Stmt:
    body = seq(*[one.then_case for one in run])
    return run[0].replace(then_case=merged_conditions(body) if isinstance(body, SeqStmt) else body)


def have_same_condition(first: Stmt, second: Stmt) -> bool:
    """Return whether two statements have the same condition and the first statement cannot change it."""
    if not isinstance(first, IfThenElse) or not isinstance(second, IfThenElse):
        return False
    if first.else_case is not None or second.else_case is not None or not has_dynamic_dimension(first.condition):
        return False
    if any(
        isinstance(n, BufferLoad) or type(n) is Call and effect_of(n) >= CallEffectKind.ReadState
        for n in pre_order(first.condition)
    ):
        return False
    return structural_equal(first.condition, second.condition)


def hoist_if_then_else(func: PrimFunc, config: Any = None) -> PrimFunc:
    out_of_threads = config is not None and config.support_block_scope_hosting
    return func.replace(body=Hoister(out_of_threads).stmt(func.body))
