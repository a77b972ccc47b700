"""Simplify: a traversal of statements with an analyzer that contains the bounds and conditions of each expression.

Arithmetic on loop variables and dimensions is simplified under the assumption that indices do not overflow. Arithmetic
on data (values from loads or calls) can wrap around and is only folded if the operands are constants. Indices are
written as sums with the terms of the outermost loop first, so that the loop-invariant part is a prefix of the sum and
unrolling only adds constants.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from ...arith import Analyzer
from ...arith.sums import Sum, integer_sum, written
from ...dtype import info
from ...ir import primop
from ...ir.prim import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Var,
    const,
)
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..stmt import (
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    is_no_op,
    no_op,
)
from .facts import analyzer_of
from .statement import KEPT, StmtRewriter, has_effect, int_value, is_call

# Conditions of if_then_else are assumed in their branches up to this depth. At a greater depth a shared operand would
# be simplified once per branch and level.
_BRANCH_DEPTH = 3


class Simplifier(StmtRewriter):
    def __init__(self, analyzer: Analyzer | None = None):
        self.analyzer = analyzer if analyzer is not None else Analyzer()
        self.values: dict[Var, PrimExpr] = {}
        self.depth: dict[Var, int] = {}  # Position of each loop variable in the loop nest
        # By id, the position of the innermost loop variable of a term
        self.depths: dict[int, tuple[PrimExpr, int]] = {}
        self.level = 0
        self.branch_depth = 0
        self.memo: dict = {}
        self.pure: dict[int, tuple[PrimExpr, bool]] = {}

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        if type(node) is IntImm:
            return node
        if isinstance(node, PrimExpr):
            self.find_pure(node)
        return rewrite(node, self.after, self.before, self.memo)

    def find_pure(self, root: PrimExpr) -> None:
        """Collect the subexpressions that consist of variables and constants; only these are passed to the analyzer."""
        pure = self.pure
        for node in post_order(root, pure):
            if isinstance(node, Var):
                good = info(node.dtype).code in ("int", "uint", "bool")
            elif type(node) in (BufferLoad, Let) or not isinstance(node, PrimExpr):
                good = False
            elif type(node) is Call and not is_call(node, "tir.likely", "tir.if_then_else"):
                good = False
            elif type(node) is Cast and not info(node.dtype).is_integer:
                good = False
            else:
                kind = info(node.dtype)
                good = kind.is_integer and all(pure[id(c)][1] for c in node.children())
            pure[id(node)] = (node, good)

    def is_pure(self, node: PrimExpr) -> bool:
        self.find_pure(node)
        return self.pure[id(node)][1]

    def before(self, node: Any):
        if not isinstance(node, PrimExpr):
            return None
        if type(node) in (Ramp, Broadcast):
            return None
        got = self.pure.get(id(node))
        if got is not None and got[1]:
            return self.integer(node)
        if type(node) is Select or is_call(node, "tir.if_then_else"):
            return self.choice(node)
        return None

    def after(self, node: Any):
        kind = type(node)
        if kind is BufferLoad:
            return self.ordered_load(node)
        if isinstance(node, Var):
            return self.values.get(node)
        build = primop.BUILD.get(kind)
        if build is not None and info(node.dtype).lanes == 1:
            return build(node.a, node.b)
        if kind is Cast:
            return primop.cast(node.dtype, node.value)
        if kind is Select and type(node.condition) is IntImm:
            return node.true_value if node.condition.value else node.false_value
        if is_call(node, "tir.if_then_else") and type(node.args[0]) is IntImm:
            return node.args[1] if node.args[0].value else node.args[2]
        if kind is Let and type(node.value) in (IntImm, Var):
            # The body was rewritten before the value turned out to be a constant or variable.
            value = node.value
            return rewrite(node.body, lambda n: value if n is node.var else None)
        return None

    def integer(self, node: PrimExpr) -> PrimExpr:
        """Simplify a scalar or vector expression of loop variables and dimensions."""
        kind = type(node)
        if kind is IntImm:
            return node
        if isinstance(node, Var):
            return self.values.get(node, node)
        cancelled: list[PrimExpr] = []
        total = integer_sum(node, cancelled)
        # A sum of variables needs no rewrite rules. If other terms cancel, the rules also merge common factors of the
        # rest.
        if total is not None and all(isinstance(a, Var) and a not in self.values for a in (*total.terms, *cancelled)):
            return self.ordered(node, total)
        if self.values:
            node = rewrite(node, lambda n: self.values.get(n) if isinstance(n, Var) else None)
        if is_call(node, "tir.likely"):
            got = self.analyzer.simplify(node.args[0])
            if type(got) is IntImm or is_call(got, "tir.likely"):
                return got
            return node if got is node.args[0] else Call(node.dtype, node.op, (got,))
        got = self.analyzer.simplify(node)
        if got.dtype != node.dtype:
            got = primop.cast(node.dtype, got)
        total = integer_sum(got)
        return got if total is None else self.ordered(got, total)

    def ordered(self, node: PrimExpr, total: Sum) -> PrimExpr:
        """Return the sum with its terms ordered from the outermost loop to the innermost."""
        new = written(total, node.dtype, self.term_depth)
        return node if _same(node, new) else new

    def term_depth(self, atom: PrimExpr) -> int:
        if isinstance(atom, Var):
            return self.depth.get(atom, 0)
        known = self.depths.get(id(atom))
        if known is None:
            found = max([self.depth.get(n, 0) for n in post_order(atom) if isinstance(n, Var)], default=0)
            known = self.depths[id(atom)] = (atom, found)
        return known[1]

    def set_depth(self, var: Var) -> None:
        self.depth[var] = self.level
        self.depths.clear()

    def ordered_load(self, node: BufferLoad) -> PrimExpr | None:
        """Order the terms of indices that contain loads; these were not ordered with their sum."""
        new = tuple(self.index(i) for i in node.indices)
        return None if all(a is b for a, b in zip(new, node.indices)) else BufferLoad(node.buffer, new)

    def index(self, index: PrimExpr) -> PrimExpr:
        if type(index) is Ramp:
            base = self.index(index.base)
            return index if base is index.base else Ramp(base, index.stride, index.lanes)
        cancelled: list[PrimExpr] = []
        total = integer_sum(index, cancelled)
        return index if total is None or len(total.terms) + len(cancelled) < 2 else self.ordered(index, total)

    def choice(self, node: PrimExpr):
        """Simplify a Select or if_then_else: each value is simplified under its condition."""
        if type(node) is Select:
            condition, yes, no = node.condition, node.true_value, node.false_value
        else:
            condition, yes, no = node.args
        if not self.is_pure(condition):
            # Nested conditions may form long chains; the iterative traversal continues into the operands instead of a
            # recursion.
            return None
        condition = self.expr(condition)
        if type(condition) is IntImm:
            return self.expr(yes if condition.value else no)
        if not self.is_pure(condition) or self.branch_depth >= _BRANCH_DEPTH or info(condition.dtype).lanes != 1:
            return None
        self.branch_depth += 1
        with self.assume(condition):
            yes = self.expr(yes)
        with self.assume(primop.logical_not(plain(condition))):
            no = self.expr(no)
        self.branch_depth -= 1
        if type(node) is Select:
            return node.replace(condition=condition, true_value=yes, false_value=no)
        return Call(node.dtype, node.op, (condition, yes, no))

    @contextmanager
    def assume(self, condition: PrimExpr):
        """Assume a condition in a block; expressions simplified under it are not reused outside."""
        outer = self.memo
        self.memo = {}
        try:
            with self.analyzer.constraint_scope(plain(condition)):
                yield
        finally:
            self.memo = outer

    # Statements -----------------------------------------------------------------------------------------------
    def on_For(self, node: For) -> Stmt:
        low, extent = self.expr(node.min), self.expr(node.extent)
        var = node.loop_var
        known = int_value(extent)
        if known is not None and known <= 0 and node.kind is not ForKind.THREAD_BINDING:
            return no_op()
        if known == 1 and node.kind is not ForKind.THREAD_BINDING and KEPT not in node.annotations:
            self.values[var] = low
            return self.stmt(node.body)
        self.analyzer.bind(var, Range.from_min_extent(low, extent))
        self.level += 1
        self.set_depth(var)
        body = self.stmt(node.body)
        self.level -= 1
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return node.replace(min=low, extent=extent, body=body)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.expr(node.value)
            var = node.node.var
            if var not in self.depth:
                self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, extent)))
                self.set_depth(var)
            body = self.stmt(node.body)
            return node if body is node.body and extent is node.value else node.replace(value=extent, body=body)
        return self.keep(node)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.expr(node.condition)
        if type(condition) is IntImm:
            if condition.value:
                return self.stmt(node.then_case)
            return no_op() if node.else_case is None else self.stmt(node.else_case)
        with self.assume(condition):
            yes = self.stmt(node.then_case)
        no = None
        if node.else_case is not None:
            with self.assume(primop.logical_not(plain(condition))):
                no = self.stmt(node.else_case)
            if is_no_op(no):
                no = None
        if is_no_op(yes):
            if no is None:
                return self.keep_effect(condition)
            return IfThenElse(primop.logical_not(plain(condition)), no)
        if condition is node.condition and yes is node.then_case and no is node.else_case:
            return node
        return IfThenElse(condition, yes, no)

    def keep_effect(self, value: PrimExpr) -> Stmt:
        return Evaluate(value) if has_effect(value) else no_op()

    def on_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.expr(node.condition)
        if type(condition) is IntImm and condition.value:
            return self.stmt(node.body)
        with self.assume(condition):
            body = self.stmt(node.body)
        if condition is node.condition and body is node.body:
            return node
        return AssertStmt(condition, node.message, body)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.expr(node.value)
        if type(value) is IntImm or isinstance(value, Var):
            self.values[node.var] = value
            return self.stmt(node.body)
        self.set_depth(node.var)
        if self.is_pure(value) and info(value.dtype).lanes == 1:
            self.analyzer.bind(node.var, value)
        body = self.stmt(node.body)
        return node if value is node.value and body is node.body else LetStmt(node.var, value, body)

    def on_While(self, node: While) -> Stmt:
        # The condition is not assumed in the body, because the body may change the memory that the condition reads.
        return self.keep(node)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        indices = tuple(self.index(self.expr(i)) for i in node.indices)
        value = self.expr(node.value)
        if type(value) is BufferLoad and value.buffer is node.buffer and _same_indices(value.indices, indices):
            return no_op()
        if value is node.value and all(a is b for a, b in zip(indices, node.indices)):
            return node
        return BufferStore(node.buffer, value, indices)


def plain(condition: PrimExpr) -> PrimExpr:
    """Return a condition without the ``likely`` around it or around its terms."""

    def inside(n: Any) -> PrimExpr | None:
        return n.args[0] if is_call(n, "tir.likely") else None

    return rewrite(condition, inside)


def _same_indices(a, b) -> bool:
    return all(x is y or (int_value(x) is not None and int_value(x) == int_value(y)) for x, y in zip(a, b))


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two sums have the same terms (variables and atoms are compared by identity)."""
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y):
            return False
        if type(x) is IntImm:
            if x.value != y.value or x.dtype != y.dtype:
                return False
        elif type(x) in primop.BUILD:
            stack.append((x.a, y.a))
            stack.append((x.b, y.b))
        else:
            return False
    return True


def simplify(func: PrimFunc) -> PrimFunc:
    return func.replace(body=Simplifier(analyzer_of(func)).stmt(func.body))
