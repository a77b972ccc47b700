"""RewriteUnsafeSelect: replace a Select by ``if_then_else`` if one of its values is unsafe to evaluate.

A value is safe to evaluate if every load in it is provably in bounds. A Select with safe values is kept: it evaluates
both and selects one, which is suitable for vector code.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...arith import Analyzer
from ...dtype import info
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, Ramp, Select
from ...ir.visit import post_order, pre_order, rewrite
from ..function import PrimFunc
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import IfThenElse, Stmt
from .facts import analyzer_of
from .simplify import plain
from .statement import RangeRewriter, is_call

# Maximum number of nodes of a condition that are analyzed; in a chain of if_then_else each condition contains all
# earlier ones.
_MOST_OF_A_CONDITION = 1024
_DIVISIONS = ("Div", "Mod", "FloorDiv", "FloorMod")


class UnsafeSelects(RangeRewriter):
    def __init__(self, analyzer: Analyzer):
        self.analyzer = analyzer
        self.memo: dict = {}
        self.safe: dict[int, tuple[PrimExpr, bool]] = {}

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        outer = self.memo, self.safe
        condition = self.expr(node.condition)
        with self.analyzer.constraint_scope(plain(node.condition)):
            self.memo, self.safe = {}, {}
            then_case = self.stmt(node.then_case)
        self.memo, self.safe = outer
        else_case = None if node.else_case is None else self.stmt(node.else_case)
        if condition is node.condition and then_case is node.then_case and else_case is node.else_case:
            return node
        return IfThenElse(condition, then_case, else_case)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, None, self.memo)

    def after(self, node: Any):
        if type(node) is not Select or info(node.condition.dtype).lanes != 1:
            return None
        unsafe = [side for side in (node.true_value, node.false_value) if not self.is_safe(side)]
        if not unsafe or self.evaluated_anyway(node.condition, unsafe):
            return None
        return Call(node.dtype, Op.get("tir.if_then_else"), (node.condition, node.true_value, node.false_value))

    def evaluated_anyway(self, condition: PrimExpr, sides: list[PrimExpr]) -> bool:
        """Return whether the condition already evaluates the parts that may be unsafe, as in ``x < 0 ? 0 : x``."""
        part = islice(pre_order(condition, lambda n: is_call(n, "tir.if_then_else")), _MOST_OF_A_CONDITION)
        given = {id(n) for n in part}

        def is_given(n: Any) -> bool:
            return id(n) in given

        return all(is_given(n) or self.harmless(n) for side in sides for n in pre_order(side, is_given))

    def is_safe(self, root: PrimExpr) -> bool:
        known = self.safe
        for node in post_order(root, known):
            known[id(node)] = (node, self.harmless(node) and all(known[id(c)][1] for c in node.children()))
        return known[id(root)][1]

    def harmless(self, node: Any) -> bool:
        """Return whether the node is safe to evaluate anywhere, provided that its operands are safe."""
        if type(node) is BufferLoad:
            return self.inside(node)
        if is_call(node, "tir.if_then_else"):
            return False
        if type(node) is Call:
            return effect_of(node) <= CallEffectKind.Pure
        if type(node).__name__ in _DIVISIONS and info(node.dtype).is_integer:
            return primop.literal(node.b) not in (None, 0)
        return True

    def inside(self, node: BufferLoad) -> bool:
        for index, extent in zip(node.indices, node.buffer.shape):
            first = index.base if isinstance(index, Ramp) else index
            if info(first.dtype).lanes != 1:
                return False
            last = first + index.stride * (index.lanes - 1) if isinstance(index, Ramp) else first
            if not self.within(first, extent) or (last is not first and not self.within(last, extent)):
                return False
        return len(node.indices) == len(node.buffer.shape)

    def within(self, index: PrimExpr, extent: PrimExpr) -> bool:
        bound = self.analyzer.const_int_bound(index)
        if bound.min_value < 0:
            return False
        if isinstance(extent, IntImm):
            return bound.max_value < extent.value
        return self.analyzer.can_prove(primop.less(index, extent))


def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    if not any(type(n) is Select for n in post_order(func.body)):
        return func
    return func.replace(body=UnsafeSelects(analyzer_of(func)).stmt(func.body))
