"""EndLoops: replace the condition in an unrolled loop by loop bounds, if the loop only stores outputs or only
accumulates.

    unroll i in 14: if likely(x + i < n): out[x + i] = f(tile[i])  ->  for i in min(14, n - x): out[x + i] = f(tile[i])

Examples are the stores of a partial tile at the end of a dynamic axis, and of overlapping tiles. Unrolled, each store
has its own basic block and address computation, which is more code than the tile itself for few elements. The last
steps of a reduction over a dynamic axis are another example.

The pass does not change loops over constant extents. It does not change loops of GPU threads, because the tiles stay in
registers only if all indices are constant. It also keeps a loop with stores whose condition never holds up to the last
iteration (``x`` is ``n // 14 * 14``): elements that are not stored are then not computed either. Unrolled loops are
short, so that the transformation affects code size more than time.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from ...arith import Analyzer
from ...arith.linear import linear_form
from ...ir import primop
from ...ir.prim import GE, GT, LE, LT, BufferLoad, PrimExpr, SizeVar, Var
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from .facts import analyzer_of
from .loop_partition import THREADS, conjuncts
from .statement import RangeRewriter, int_value, is_call


class LoopBounder(RangeRewriter):
    def __init__(self, analyzer: Analyzer):
        self.analyzer = analyzer
        self.unrolled = 0

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node if node.attr_key in THREADS else self.keep(node)

    def on_For(self, node: For) -> Stmt:
        body = node.body
        if (
            node.kind is ForKind.UNROLLED
            and not self.unrolled
            and int_value(node.min) == 0
            and isinstance(body, IfThenElse)
            and body.else_case is None
        ):
            found = [bound(c, node.loop_var) for c in conjuncts(body.condition)]
            ends = [e for e in found if e is not None]
            stores = only_stores_results(body.then_case) and not any(self.is_short(e, node) for e in ends)
            if len(ends) == len(found) and (stores or only_accumulates(body.then_case, node.loop_var)):
                first = reduce(primop.maximum, [e for is_first, e in ends if is_first], node.min)
                extent = reduce(primop.minimum, [e for is_first, e in ends if not is_first], node.extent) - first
                return node.replace(kind=ForKind.SERIAL, min=first, extent=extent, body=body.then_case)
        self.unrolled += node.kind is ForKind.UNROLLED
        new = super().on_For(node)
        self.unrolled -= node.kind is ForKind.UNROLLED
        return new

    def is_short(self, end: tuple[bool, PrimExpr], node: For) -> bool:
        """Return whether a loop always ends before its last iteration."""
        return not end[0] and self.analyzer.can_prove(end[1] < node.extent)


def bound(condition: PrimExpr, var: Var) -> tuple[bool, PrimExpr] | None:
    """Return the first value of ``var`` for which a condition on a dynamic dimension becomes true or false, and which
    of the two it is."""
    condition = condition.args[0] if is_call(condition, "tir.likely") else condition
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    low, high = (condition.a, condition.b) if isinstance(condition, (LT, LE)) else (condition.b, condition.a)
    form = linear_form(high - low, [var])
    factor = None if form is None else int_value(form[0].get(var))
    if form is None or factor not in (-1, 1) or not any(isinstance(node, SizeVar) for node in post_order(form[1])):
        return None
    room = form[1] + 1 if isinstance(condition, (LE, GE)) else form[1]
    return factor == 1, 1 - room if factor == 1 else room


def only_stores_results(body: Stmt) -> bool:
    """Return whether a body only stores values to global memory that it does not read."""
    stored, loaded = set(), set()
    for node in post_order(body):
        if isinstance(node, Stmt) and not isinstance(node, (BufferStore, For, SeqStmt)):
            return False
        if isinstance(node, BufferStore):
            if node.buffer.scope() != "global":
                return False
            stored.add(node.buffer.data)
        elif isinstance(node, BufferLoad):
            loaded.add(node.buffer.data)
    return not stored & loaded


def only_accumulates(body: Stmt, var: Var) -> bool:
    """Return whether a body only updates a tile whose indices do not depend on the loop variable."""
    for node in post_order(body):
        if isinstance(node, Stmt) and not isinstance(node, (BufferStore, For, SeqStmt)):
            return False
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.scope() == "local":
            if any(n is var for index in node.indices for n in post_order(index)):
                return False
        elif isinstance(node, BufferStore):
            return False
    return True


def end_loops(func: PrimFunc, config: Any = None) -> PrimFunc:
    return func.replace(body=LoopBounder(analyzer_of(func)).stmt(func.body))
