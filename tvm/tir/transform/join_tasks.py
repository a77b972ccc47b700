"""JoinTasks: merge two parallel loops in the branches of a condition on a dynamic dimension into one parallel loop.

    if n < 14: parallel i in a: x(i)  else: parallel j in b: y(j)
        ->  parallel i in if_then_else(n < 14, a, b): if n < 14: x(i)  else: y(i)

Kernels with size classes contain such conditions. In a short kernel, the code that starts parallel tasks is a
considerable part of the code.
"""

from __future__ import annotations

from typing import Any

from ...ir.prim import BufferLoad, Call, SizeVar, Var
from ...ir.subst import substitute
from ...ir.visit import post_order
from ..function import PrimFunc
from ..op import if_then_else
from ..stmt import For, ForKind, IfThenElse, Stmt
from .statement import StmtRewriter, int_value


class Joiner(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        return node

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        new = self.keep(node)
        first, second = new.then_case, new.else_case
        if not is_task(first) or not is_task(second) or first.loop_var.dtype != second.loop_var.dtype:
            return new
        # The condition in the tasks is the condition before them, so its value must not change between both
        # evaluations.
        asked = [n for n in post_order(new.condition) if isinstance(n, (Var, BufferLoad, Call))]
        if not asked or not all(isinstance(n, SizeVar) for n in asked):
            return new
        other = substitute(second.body, {second.loop_var: first.loop_var})
        extent = if_then_else(new.condition, first.extent, second.extent)
        return first.replace(extent=extent, body=IfThenElse(new.condition, first.body, other))


def is_task(node: Any) -> bool:
    return isinstance(node, For) and node.kind is ForKind.PARALLEL and int_value(node.min) == 0 and not node.annotations


def join_tasks(func: PrimFunc) -> PrimFunc:
    return func.replace(body=Joiner().stmt(func.body))
