"""UnswitchLoops: move a loop-invariant choice between values out of the loop.

    for i: a[i] = f(if_then_else(c and d(i), x, y))  ->  if c: for i: a[i] = f(if_then_else(d(i), x, y))
                                                         else: for i: a[i] = f(y)

Concatenated and padded tensors contain such choices: the loop over the padding is separate, and each concatenated part
is copied by its own loop.
"""

from __future__ import annotations

from typing import Any

from ...ir import primop
from ...ir.prim import Call, Let, PrimExpr, Var
from ...ir.visit import pre_order, rewrite
from ..function import PrimFunc
from ..stmt import BufferStore, For, ForKind, IfThenElse, Stmt
from .hoist_if_then_else import invariant
from .loop_partition import conjuncts
from .statement import StmtRewriter, is_call, uses_any

# Maximum number of copies of one loop; the copies for independent choices multiply.
COPIES = 64


class Unswitcher(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        if node.kind is ForKind.THREAD_BINDING:
            return new
        body = new.body
        if isinstance(body, BufferStore):
            return unswitch(new, [COPIES])
        if isinstance(body, IfThenElse) and invariant(body.condition, new.loop_var):
            return self.lift(new, body)
        return new

    def lift(self, loop: For, body: IfThenElse) -> Stmt:
        """Move the choice in a loop out of this loop too; chains of choices move together."""
        cases = []
        for case in (body.then_case, body.else_case):
            if isinstance(case, IfThenElse) and invariant(case.condition, loop.loop_var):
                cases.append(self.lift(loop, case))
            else:
                made = None if case is None else loop.replace(body=case)
                cases.append(unswitch(made, [COPIES]) if isinstance(case, BufferStore) else made)
        return IfThenElse(body.condition, *cases)


def unswitch(loop: For, copies: list[int]) -> Stmt:
    store = loop.body
    found = choice(store.value, loop)
    if found is None or copies[0] < 2:
        return loop
    copies[0] -= 1
    call, outside, inside = found
    yes, no = call.args[1], call.args[2]
    if inside:
        yes = call.replace(args=(every(inside), yes, no))
    then_case, else_case = (loop.replace(body=store.replace(value=replaced(store.value, call, v))) for v in (yes, no))
    return IfThenElse(every(outside), unswitch(then_case, copies), unswitch(else_case, copies))


def every(conditions: list[PrimExpr]) -> PrimExpr:
    out = conditions[0]
    for c in conditions[1:]:
        out = primop.logical_and(out, c)
    return out


def choice(value: PrimExpr, loop: For) -> tuple[Call, list[PrimExpr], list[PrimExpr]] | None:
    """Return a conditional value whose condition has terms that are loop-invariant, and these terms."""
    bound: set[Var] = set()  # Variables bound by a Let; its body is visited after it
    for node in pre_order(value):
        if isinstance(node, Let):
            bound.add(node.var)
        if is_call(node, "tir.if_then_else"):
            parts = conjuncts(node.args[0])
            outside = [p for p in parts if invariant(p, loop.loop_var) and not (bound and uses_any(p, bound))]
            if outside:
                return node, outside, [p for p in parts if not any(p is o for o in outside)]
    return None


def replaced(value: PrimExpr, old: PrimExpr, new: PrimExpr) -> PrimExpr:
    # In a chain of choices, as in concatenated tensors, only the first one is replaced, without traversing the rest
    # again.
    return new if value is old else rewrite(value, lambda n: new if n is old else None)


def unswitch_loops(func: PrimFunc, config: Any = None) -> PrimFunc:
    return func.replace(body=Unswitcher().stmt(func.body))
