"""LoopPartition: a loop whose ``likely`` conditions hold in its interior is divided, and the interior loses the
conditions.

    for i in n: if likely(i * 4 + 3 < m): a  ->  for i in the interior: a
                                                 for i in the rest: if likely(...): a

Loops of unknown length are divided; of the others only those whose condition stands in the way of a vector, unless
``partition_const_loop`` asks for all.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...arith.bound_deducer import deduce_bound
from ...arith.intset import IntSet, as_set, intersect
from ...ir import primop
from ...ir.pass_config import LoopPartitionConfig
from ...ir.prim import (
    And,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    PrimExpr,
    ProducerLoad,
    Range,
    Var,
    const,
)
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..stmt import AttrStmt, For, ForKind, LetStmt, Stmt, seq
from .facts import analyzer_of
from .statement import StmtRewriter, int_value, is_call
from .unroll_loop import rename_bound

HINT = "pragma_loop_partition_hint"


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    out, stack = [], [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, And):
            stack.extend((node.b, node.a))
        else:
            out.append(node)
    return out


def inner_ranges(body: Stmt) -> dict[Var, Range]:
    """Ranges of the loops inside a statement."""
    out = {}
    for n in post_order(body):
        if isinstance(n, For):
            out[n.loop_var] = Range.from_min_extent(n.min, n.extent)
        elif isinstance(n, AttrStmt) and n.attr_key in ("thread_extent", "virtual_thread"):
            var = n.node.var
            out[var] = Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, n.value))
    return out


class Partitioner(StmtRewriter):
    def __init__(self, config: LoopPartitionConfig, func: PrimFunc):
        self.func = func
        self.config = config
        self.outer: dict[Var, IntSet] = {}
        self.hinted = False

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == HINT:
            self.hinted = True
            return self.stmt(node.body)
        if node.attr_key in ("thread_extent", "virtual_thread"):
            var = node.node.var
            extent = primop.cast(var.dtype, node.value)
            self.outer[var] = as_set(Range.from_min_extent(const(0, var.dtype), extent))
        return self.keep(node)

    def on_For(self, node: For) -> Stmt:
        hinted, self.hinted = self.hinted, False
        # Lanes and threads belong together: such a loop stays whole.
        whole = node.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING)
        got = None if whole else self.partition(node, hinted)
        if got is not None:
            return got
        self.outer[node.loop_var] = as_set(Range.from_min_extent(node.min, node.extent))
        new = self.keep(node)
        del self.outer[node.loop_var]
        return new

    def wanted(self, node: For, conditions: list[PrimExpr], hinted: bool) -> list[PrimExpr]:
        """The conditions worth dividing this loop for."""
        if hinted or self.config.partition_const_loop or int_value(node.extent) is None:
            return conditions
        vectors = {n.loop_var for n in post_order(node.body) if isinstance(n, For) and n.kind is ForKind.VECTORIZED}
        if not vectors:
            return []
        return [c for c in conditions if any(v in vectors for v in post_order(c) if isinstance(v, Var))]

    def partition(self, node: For, hinted: bool) -> Stmt | None:
        conditions = likely_conditions(node.body, node.loop_var)
        if not conditions:
            return None
        inner = inner_ranges(node.body)
        conditions = self.wanted(node, conditions, hinted)
        interval, certain = self.interior(node, inner, conditions)
        if interval is None:
            return None
        return self.divide(node, interval, certain)

    def interior(self, node: For, inner: dict[Var, Range], conditions: list[PrimExpr]):
        """The interval of the loop variable in which conditions hold, and which ones."""
        relax = {v: as_set(r) for v, r in inner.items()}
        bound_inside = {n.var for n in post_order(node.body) if isinstance(n, (LetStmt, Let))}
        certain: list[PrimExpr] = []
        interval: IntSet | None = None
        for condition in conditions:
            if not same_before_the_loop(condition, bound_inside):
                continue
            where = deduce_bound(node.loop_var, condition, self.outer, relax)
            hidden = bound_inside.union(relax, [node.loop_var])
            if where.is_nothing() or not all(same_before_the_loop(end, hidden) for end in finite_ends(where)):
                continue
            both = where if interval is None else intersect([interval, where])
            if both.is_nothing():
                continue
            interval = both
            certain.append(condition)
        return interval, certain

    def divide(self, node: For, interval: IntSet, certain: list[PrimExpr]) -> Stmt | None:
        analyzer = analyzer_of(self.func)
        for var, values in self.outer.items():
            if values.has_lower_bound() and values.has_upper_bound():
                analyzer.bind(var, values.range())
        dtype = node.loop_var.dtype
        begin, end = node.min, analyzer.simplify(node.min + node.extent)
        # The parts never overlap and cover the loop, whatever the symbolic values are.
        middle, after = begin, end
        if interval.has_lower_bound():
            middle = clamp(analyzer, primop.cast(dtype, interval.min_value), begin, end)
        if interval.has_upper_bound():
            after = clamp(analyzer, primop.cast(dtype, interval.max_value + 1), middle, end)
        size = analyzer.simplify(after - middle)
        if isinstance(size, IntImm) and size.value <= 0:
            return None
        gone = {id(c) for c in certain}
        body = rewrite(node.body, lambda n: None, lambda n: const(True, "bool") if id(n) in gone else None)
        body = drop_empty_likely(body)
        before = self.piece(node, analyzer, begin, middle, node.body, fresh=True)
        rest = self.piece(node, analyzer, after, end, node.body, fresh=True)
        if (
            before is None
            and rest is None
            and int_value(size) == int_value(node.extent)
            and int_value(size) is not None
        ):
            return self.stmt(node.replace(body=body))
        main = self.piece(node, analyzer, middle, after, body, fresh=False)
        return seq(*[s for s in (before, main, rest) if s is not None])

    def piece(
        self, node: For, analyzer: Analyzer, low: PrimExpr, high: PrimExpr, body: Stmt, fresh: bool
    ) -> Stmt | None:
        extent = analyzer.simplify(high - low)
        count = int_value(extent)
        if count is not None and count <= 0:
            return None
        var = node.loop_var
        shifted = body
        if int_value(low) != 0 or fresh:
            new = Var(var.name, var.dtype)
            shifted = substitute(body, {var: new + low})
            var = new
        zero = const(0, var.dtype)
        if fresh:
            shifted = rename_bound(shifted)
        loop = For(var, zero, extent, node.kind, shifted, node.thread_binding, node.annotations)
        if count == 1 and not self.config.no_unroll_loop_with_extent_one:
            loop = None
            shifted = substitute(shifted, {var: zero})
        if fresh:
            return shifted if loop is None else loop
        self.outer[var] = as_set(Range.from_min_extent(zero, extent))
        done = self.stmt(shifted)
        del self.outer[var]
        return done if loop is None else loop.replace(body=done)


def clamp(analyzer: Analyzer, value: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """``value`` kept between ``low`` and ``high``, the comparisons left out that are known."""
    value = analyzer.simplify(value)
    if not analyzer.can_prove(primop.greater_equal(value, low)):
        value = primop.maximum(value, low)
    if not analyzer.can_prove(primop.less_equal(value, high)):
        value = primop.minimum(value, high)
    return analyzer.simplify(value)


def likely_conditions(body: Stmt, var: Var) -> list[PrimExpr]:
    """What stands in ``likely`` anywhere in the body and mentions ``var``."""
    out = []
    for n in post_order(body):
        if is_call(n, "tir.likely"):
            out.extend(c for c in conjuncts(n.args[0]) if any(v is var for v in post_order(c)))
    return out


def same_before_the_loop(expr: PrimExpr, hidden: set[Var]) -> bool:
    """Whether ``expr`` may be computed before the loop, where the ``hidden`` variables are not defined.

    Memory may be written by the loop, and a load or a division may be safe only under another condition of the loop.
    """
    for node in post_order(expr):
        if isinstance(node, (BufferLoad, ProducerLoad, Call)) or node in hidden:
            return False
        if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and not isinstance(node.b, IntImm):
            return False
    return True


def finite_ends(values: IntSet) -> list[PrimExpr]:
    low = [values.min_value] if values.has_lower_bound() else []
    return low + ([values.max_value] if values.has_upper_bound() else [])


def drop_empty_likely(body: Stmt) -> Stmt:
    def post(node: Any):
        if is_call(node, "tir.likely") and isinstance(node.args[0], IntImm):
            return node.args[0]
        if isinstance(node, And):
            return primop.logical_and(node.a, node.b)
        return None

    return rewrite(body, post)


def loop_partition(func: PrimFunc, config: LoopPartitionConfig | None = None) -> PrimFunc:
    if not any(is_call(n, "tir.likely") for n in post_order(func.body)):
        return func
    return func.replace(body=Partitioner(config or LoopPartitionConfig(), func).stmt(func.body))

