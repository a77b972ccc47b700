"""LoopPartition: split a loop so that ``likely`` conditions are always true in its main part, and remove them there.

    for i in n: if likely(i * 4 + 3 < m): a  ->  for i in the main part: a
    for i in the rest: if likely(...): a

The pass splits loops of dynamic extent. It splits a loop of constant extent only if the condition prevents
vectorization, or if ``partition_const_loop`` is set. The hint ``pragma_loop_partition_hint`` requests splitting, or
with the value False prevents it: for a long body, a condition costs less than a second copy.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...arith.bound_deducer import deduce_bound
from ...arith.compare import is_pure
from ...arith.interval_set import IntervalSet, as_set, intersect
from ...ir import primop
from ...ir.pass_config import LoopPartitionConfig
from ...ir.prim import (
    GE,
    GT,
    LE,
    LT,
    And,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    PrimExpr,
    ProducerLoad,
    Range,
    Select,
    Var,
    const,
)
from ...ir.structural import structural_equal
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    seq,
)
from .facts import analyzer_of
from .statement import KEPT, StmtRewriter, int_value, is_call, statements_in
from .unroll_loop import rename_bound

HINT = "pragma_loop_partition_hint"
THREADS = ("thread_extent", "virtual_thread")
OPPOSITE = {LT: GE, LE: GT, GT: LE, GE: LT}


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
    """Return the ranges of the loops inside a statement."""
    out = {}
    for n in post_order(body):
        if isinstance(n, For):
            out[n.loop_var] = Range.from_min_extent(n.min, n.extent)
        elif isinstance(n, AttrStmt) and n.attr_key in THREADS:
            var = n.node.var
            out[var] = Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, n.value))
    return out


class Partitioner(StmtRewriter):
    def __init__(self, config: LoopPartitionConfig, func: PrimFunc):
        self.func = func
        self.config = config
        self.outer: dict[Var, IntervalSet] = {}
        # The hint that applies to the next loop, if there is one.
        self.hint: bool | None = None
        # Variables of loops that are not split: parts of a loop of dynamic extent, and loops with the hint False.
        self.done: set[Var] = set()
        # Variables that differ between the threads of a block.
        self.threads: set[Var] = set()
        # Factors of the extents of the enclosing loops; none is zero inside the loops.
        self.counts: list[PrimExpr] = []
        # Whether an enclosing loop contains no condition.
        self.bare = False

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == HINT:
            self.hint = int_value(node.value) != 0
            return self.stmt(node.body)
        if node.attr_key not in THREADS:
            return self.keep(node)
        var = node.node.var
        extent = primop.cast(var.dtype, node.value)
        if node.node.thread_tag.startswith("threadIdx"):
            self.threads.add(var)
        self.outer[var] = as_set(Range.from_min_extent(const(0, var.dtype), extent))
        return self.partition_thread(node, var) or self.keep(node)

    def on_For(self, node: For) -> Stmt:
        hint, self.hint = self.hint, None
        if HINT in node.annotations:
            hint = bool(node.annotations[HINT])
            node = node.replace(annotations={k: v for k, v in node.annotations.items() if k != HINT})
        if hint is False:
            self.done.add(node.loop_var)
        return self.loop(node, bool(hint), self.config.unroll_loop_with_partition_hint_no_interval)

    def loop(self, node: For, hinted: bool, unroll: bool) -> Stmt:
        """Return the loop, split if that is profitable. A loop with a hint that is not split may be marked for
        unrolling."""
        # Vectorized loops and thread-bound loops are not split. A parallel loop is not split either: its rest would
        # start only after the main part, and most threads would be idle.
        whole = node.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING) or node.loop_var in self.done
        whole = whole or node.kind is ForKind.PARALLEL and not hinted and not self.config.partition_const_loop
        outside_is_bare = self.bare
        got = None if whole or self.bare else self.partition(node, hinted)
        if got is not None:
            return got
        if hinted and unroll and node.kind is ForKind.SERIAL and int_value(node.extent) is not None:
            node = node.replace(kind=ForKind.UNROLLED)
        self.outer[node.loop_var] = as_set(Range.from_min_extent(node.min, node.extent))
        outside, self.counts = self.counts, self.counts + factors(node.extent)
        new = self.keep(node)
        self.counts, self.bare = outside, outside_is_bare
        del self.outer[node.loop_var]
        return new

    def wanted(self, node: For, hinted: bool) -> list[PrimExpr]:
        """Return the conditions for which splitting this loop is profitable."""
        inside = Conditions(node.body)
        self.bare = inside.is_empty()
        if hinted:
            return inside.on(node.loop_var, True)
        # A condition that differs between lanes prevents a vector load or store.
        every = inside.in_vectorized_loops(node.loop_var, True)
        if self.config.partition_const_loop or int_value(node.extent) is None:
            return list(dict.fromkeys(inside.on(node.loop_var, False) + every))
        return list(dict.fromkeys(inside.in_vectorized_loops(node.loop_var, False) + every))

    def partition(self, node: For, hinted: bool) -> Stmt | None:
        conditions = self.wanted(node, hinted)
        if not conditions:
            return None
        span = None
        if int_value(node.min) is not None and int_value(node.extent) is not None:
            span = as_set(Range.from_min_extent(node.min, node.extent))
        interval, certain = self.interior(node.body, node.loop_var, span, conditions)
        if interval is None or not certain:
            return None
        if node.kind is ForKind.UNROLLED and not all(isinstance(end, IntImm) for end in finite_bounds(interval)):
            # The parts of such a loop must have constant extents too.
            return None
        if self.threads and self.differs_between_threads(interval) and waits_for_other_threads(node.body):
            # All threads of a block must execute the same number of iterations up to each barrier.
            return None
        return self.divide(node, interval, certain, hinted)

    def differs_between_threads(self, interval: IntervalSet) -> bool:
        return any(n in self.threads for end in finite_bounds(interval) for n in post_order(end) if isinstance(n, Var))

    def interior(self, body: Stmt, var: Var, interval: IntervalSet | None, conditions: list[PrimExpr]):
        """Return the part of ``interval`` in which conditions have a constant value, and these values.

        In a known interval, a condition that is always false is as useful as one that is always true.
        """
        relax = {v: as_set(r) for v, r in inner_ranges(body).items()}
        bound_inside = {n.var for n in post_order(body) if isinstance(n, (LetStmt, Let))}
        hidden = bound_inside.union(relax, [var])
        certain: dict[PrimExpr, bool] = {}
        tries = [(c, c, True) for c in conditions]
        if interval is not None:
            tries += [(c, OPPOSITE[type(c)](c.a, c.b), False) for c in conditions if type(c) in OPPOSITE]
        for condition, said, value in tries:
            if condition in certain or not same_before_the_loop(condition, bound_inside, self.counts):
                continue
            where = deduce_bound(var, said, self.outer, relax)
            ends = finite_bounds(where)
            if where.is_nothing() or not all(same_before_the_loop(end, hidden, self.counts) for end in ends):
                continue
            both = where if interval is None else intersect([interval, where])
            if both.is_nothing():
                continue
            interval = both
            certain[condition] = value
        return interval, certain

    def analyzer(self) -> Analyzer:
        analyzer = analyzer_of(self.func)
        for var, values in self.outer.items():
            if values.has_lower_bound() and values.has_upper_bound():
                analyzer.bind(var, values.range())
        return analyzer

    def divide(self, node: For, interval: IntervalSet, certain: dict[PrimExpr, bool], hinted: bool) -> Stmt | None:
        analyzer = self.analyzer()
        dtype = node.loop_var.dtype
        begin, end = node.min, analyzer.simplify(node.min + node.extent)
        # The parts are disjoint and cover the loop for all values of the symbolic bounds.
        middle, after = begin, end
        if interval.has_lower_bound():
            middle = clamp(analyzer, primop.cast(dtype, interval.min_value), begin, end)
        if interval.has_upper_bound():
            after = clamp(analyzer, primop.cast(dtype, interval.max_value + 1), middle, end)
        size = analyzer.simplify(after - middle)
        if isinstance(size, IntImm) and size.value <= 0:
            return None
        body = without(node.body, certain)
        if int_value(size) is not None and int_value(size) == int_value(node.extent):
            return self.loop(node.replace(body=body), hinted, unroll=False)
        stop = self.stop(node, analyzer, certain, after, end)
        parts = (
            self.piece(node, analyzer, begin, middle, node.body, hinted, fresh=True),
            self.piece(node, analyzer, middle, after, body, hinted, fresh=False),
            self.piece(node, analyzer, after, stop, self.beyond(node, analyzer, interval, certain), hinted, fresh=True),
        )
        return seq(*[part for part in parts if part is not None])

    def false_from(self, node: For, certain: dict[PrimExpr, bool]) -> dict[PrimExpr, PrimExpr]:
        """Return for each condition of the main part the first iteration from which it is false for all inner
        iterations."""
        relax = {v: as_set(r) for v, r in inner_ranges(node.body).items()}
        found: dict[PrimExpr, PrimExpr] = {}
        for condition in (c for c, value in certain.items() if value and type(c) in OPPOSITE):
            opposite = OPPOSITE[type(condition)](condition.a, condition.b)
            where = deduce_bound(node.loop_var, opposite, self.outer, relax)
            if where.has_lower_bound() and not where.has_upper_bound():
                found[condition] = where.min_value
        return found

    def stop(
        self, node: For, analyzer: Analyzer, certain: dict[PrimExpr, bool], after: PrimExpr, end: PrimExpr
    ) -> PrimExpr:  # fmt: skip
        """Return the end of the iterations that start at ``after``: from there on, all conditions that guard stores are
        false. For example, the last block of rows has fewer tiles than the others."""
        inside = inner_ranges(node.body)
        hidden = {n.var for n in post_order(node.body) if isinstance(n, (LetStmt, Let))}.union(inside, [node.loop_var])
        never = {c: first for c, first in self.false_from(node, certain).items()
                 if same_before_the_loop(first, hidden, self.counts)}  # fmt: skip
        if not never:
            return end
        first = next(iter(never.values()))
        same = {c for c, value in never.items() if structural_equal(value, first)}
        if not acts_only_under(node.body, same):
            return end
        if self.threads.intersection(post_order(first)) and waits_for_other_threads(node.body):
            return end
        return clamp(analyzer, primop.cast(node.loop_var.dtype, first), after, end)

    def beyond(
        self, node: For, analyzer: Analyzer, interval: IntervalSet, certain: dict[PrimExpr, bool]
    ) -> Stmt:  # fmt: skip
        """Return the body after a main part of dynamic end, without the conditions that are false there."""
        if not interval.has_upper_bound() or int_value(interval.max_value) is not None:
            return node.body
        never = {c: False for c, first in self.false_from(node, certain).items()
                 if analyzer.can_prove(first <= interval.max_value + 1)}  # fmt: skip
        return without(node.body, never) if never else node.body

    def piece(
        self, node: For, analyzer: Analyzer, low: PrimExpr, high: PrimExpr, body: Stmt, hinted: bool, fresh: bool
    ) -> Stmt | None:
        """Return the iterations from ``low`` to ``high`` as a loop that starts at zero. ``fresh`` renames the variables
        of a body that is also used elsewhere."""
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
        if count == 1 and not self.config.no_unroll_loop_with_extent_one:
            return self.stmt(substitute(shifted, {var: zero}))
        if count is None:
            self.done.add(var)
        annotations = node.annotations if count != 1 else {**(node.annotations or {}), KEPT: 1}
        loop = For(var, zero, extent, node.kind, shifted, node.thread_binding, annotations)
        return self.loop(loop, hinted, fresh and self.config.unroll_loop_with_partition_hint_no_interval)

    def partition_thread(self, node: AttrStmt, var: Var) -> Stmt | None:
        """Give threads whose vectors are complete a separate branch without the conditions on lanes."""
        if any(isinstance(n, AttrStmt) and n.attr_key in THREADS for n in statements_in(node.body)):
            return None
        conditions = Conditions(node.body).in_vectorized_loops(var, False)
        if not conditions or has_thread_cooperation(node.body):
            return None
        interval, certain = self.interior(node.body, var, None, conditions)
        if interval is None:
            return None
        analyzer = self.analyzer()
        test: PrimExpr = const(True, "bool")
        if interval.has_lower_bound():
            test = primop.logical_and(test, analyzer.simplify(var >= primop.cast(var.dtype, interval.min_value)))
        if interval.has_upper_bound():
            test = primop.logical_and(test, analyzer.simplify(var <= primop.cast(var.dtype, interval.max_value)))
        if isinstance(test, IntImm) and not test.value:
            return None
        complete = self.stmt(without(node.body, certain))
        if isinstance(test, IntImm):
            return node.replace(body=complete)
        return node.replace(body=IfThenElse(test, complete, self.stmt(rename_bound(node.body))))


def acts_only_under(body: Stmt, conditions: set[PrimExpr]) -> bool:
    """Return whether all effects of ``body`` that are visible outside it happen under one of the conditions."""
    own: set[Any] = set()
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, IfThenElse):
            if has_effects(node.condition):
                return False
            said = (c.args[0] if is_call(c, "tir.likely") else c for c in conjuncts(node.condition))
            if conditions.isdisjoint(part for c in said for part in conjuncts(c)):
                stack.append(node.then_case)
            if node.else_case is not None:
                stack.append(node.else_case)
        elif isinstance(node, BufferStore):
            if node.buffer not in own and node.buffer.data not in own or has_effects(node.value):
                return False
        elif isinstance(node, Evaluate):
            if has_effects(node.value):
                return False
        elif isinstance(node, (AttrStmt, Allocate, BufferRealize, For, LetStmt)):
            if isinstance(node, LetStmt) and has_effects(node.value):
                return False
            if isinstance(node, BufferRealize):
                own.add(node.buffer)
            elif isinstance(node, Allocate):
                own.add(node.buffer_var)
            elif isinstance(node, AttrStmt) and node.attr_key == "buffer_bind_scope" and node.node[1] in own:
                own.add(node.node[0])
            stack.append(node.body)
        elif isinstance(node, SeqStmt):
            stack.extend(node.seq)
        elif not isinstance(node, Prefetch):
            return False
    return True


def has_effects(expr: PrimExpr) -> bool:
    """Return whether ``expr`` contains a call with a side effect."""
    return any(isinstance(n, Call) and is_action(n) for n in post_order(expr))


def is_action(call: Call) -> bool:
    return not is_call(call, "tir.likely", "tir.if_then_else") and not is_pure(call)


class Conditions:
    """The conditions in a body, collected in one traversal: the arguments of ``likely``, with a hint also all other
    conditions, and the variables of vectorized loops."""

    def __init__(self, body: Stmt):
        self.vectors: set[Var] = set()
        likely, every = [], []
        for n in post_order(body):
            if isinstance(n, For):
                if n.kind is ForKind.VECTORIZED:
                    self.vectors.add(n.loop_var)
            elif is_call(n, "tir.likely"):
                likely.append(n.args[0])
                every.append(n.args[0])
            elif is_call(n, "tir.if_then_else"):
                every.append(n.args[0])
            elif isinstance(n, (IfThenElse, Select)):
                every.append(n.condition)
        self._found = {False: likely, True: every}

    def is_empty(self) -> bool:
        return not self._found[True]

    def on(self, var: Var, hinted: bool) -> list[PrimExpr]:
        """Return the conditions that contain a variable and do not read memory; only these can be decided before the
        loop."""
        parts = [c for condition in self._found[hinted] for c in conjuncts(condition)]
        # id -> whether a node contains the variable, and whether it reads memory or calls a function.
        known: dict[int, tuple[bool, bool]] = {}
        for n in (n for c in parts for n in post_order(c, known)):
            below = [known[id(k)] for k in n.children()]
            reads = isinstance(n, (BufferLoad, ProducerLoad, Call)) or any(r for _, r in below)
            known[id(n)] = n is var or any(m for m, _ in below), reads
        return list(dict.fromkeys(c for c in parts if known[id(c)] == (True, False)))

    def in_vectorized_loops(self, var: Var, hinted: bool) -> list[PrimExpr]:
        """Return the conditions that also contain the variable of a vectorized loop."""
        if not self.vectors:
            return []
        return [c for c in self.on(var, hinted) if any(v in self.vectors for v in post_order(c) if isinstance(v, Var))]


def has_thread_cooperation(body: Stmt) -> bool:
    """Return whether threads cooperate in ``body``; it must then not be in a branch that only some of them execute."""
    for n in post_order(body):
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer.scope() not in ("global", "local", ""):
            return True
        if isinstance(n, (Allocate, BufferRealize)) or isinstance(n, Call) and is_action(n):
            return True
    return False


def waits_for_other_threads(body: Stmt) -> bool:
    """Return whether threads read in ``body`` what other threads store there, so that it contains barriers."""
    stored = loaded = False
    for n in post_order(body):
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer.scope().startswith("shared"):
            stored, loaded = stored or isinstance(n, BufferStore), loaded or isinstance(n, BufferLoad)
        if is_call(n, "tir.tvm_storage_sync", "tir.tvm_thread_allreduce") or stored and loaded:
            return True
    return False


def without(body: Stmt, certain: dict[PrimExpr, bool]) -> Stmt:
    """Return ``body`` with the conditions replaced by their values."""
    known = {c: const(value, "bool") for c, value in certain.items()}
    return drop_empty_likely(rewrite(body, None, known.get))


def clamp(analyzer: Analyzer, value: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Return ``value`` limited to ``low`` and ``high``, without the comparisons that are provably unnecessary."""
    value = analyzer.simplify(value)
    if not analyzer.can_prove(primop.greater_equal(value, low)):
        value = primop.maximum(value, low)
    if not analyzer.can_prove(primop.less_equal(value, high)):
        value = primop.minimum(value, high)
    return analyzer.simplify(value)


def same_before_the_loop(expr: PrimExpr, hidden: set[Var], counts: list[PrimExpr]) -> bool:
    """Return whether ``expr`` can be computed before the loop, where the ``hidden`` variables are not defined.

    The loop may write memory that ``expr`` reads, and a load or division may be safe only under another condition of
    the loop. Divisors in ``counts`` are not zero.
    """
    for node in post_order(expr):
        if isinstance(node, (BufferLoad, ProducerLoad, Call)) or node in hidden:
            return False
        if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and not isinstance(node.b, IntImm):
            if not any(structural_equal(node.b, count) for count in counts):
                return False
    return True


def factors(extent: PrimExpr) -> list[PrimExpr]:
    """Return the factors of a product without its constants."""
    out, stack = [], [extent]
    while stack:
        node = stack.pop()
        if isinstance(node, Mul):
            stack += (node.a, node.b)
        elif not isinstance(node, IntImm):
            out.append(node)
    return out


def finite_bounds(values: IntervalSet) -> list[PrimExpr]:
    low = [values.min_value] if values.has_lower_bound() else []
    return low + ([values.max_value] if values.has_upper_bound() else [])


def drop_empty_likely(body: Stmt) -> Stmt:
    def post(node: Any):
        if is_call(node, "tir.likely") and isinstance(node.args[0], IntImm):
            return node.args[0]
        if isinstance(node, And):
            return primop.logical_and(node.a, node.b)
        if is_call(node, "tir.if_then_else") and isinstance(node.args[0], IntImm):
            return node.args[1] if node.args[0].value else node.args[2]
        if isinstance(node, Select) and isinstance(node.condition, IntImm):
            return node.true_value if node.condition.value else node.false_value
        return None

    return rewrite(body, post)


def loop_partition(func: PrimFunc, config: LoopPartitionConfig | None = None) -> PrimFunc:
    if not any(
        is_call(n, "tir.likely")
        or (isinstance(n, AttrStmt) and n.attr_key == HINT)
        or (isinstance(n, For) and (HINT in n.annotations or n.kind is ForKind.VECTORIZED))
        for n in post_order(func.body)
    ):
        return func
    return func.replace(body=Partitioner(config or LoopPartitionConfig(), func).stmt(func.body))
