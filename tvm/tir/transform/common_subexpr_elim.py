"""CommonSubexprElimTIR: store the value of repeated expressions in variables.

A variable is defined in the outermost scope where all variables of its value are defined, but inside the branch of a
condition if only that branch uses it. All passes preserve shared nodes inside one expression; this pass also merges
equal expressions that are separate nodes. Loads, calls with effects and divisions that may fail are not moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...arith import Analyzer
from ...dtype import info
from ...ir import primop
from ...ir.prim import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CmpExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import Allocate, AttrStmt, Block, For, IfThenElse, LetStmt, Stmt
from .statement import StmtRewriter, is_call

_PLAIN = (Add, Sub, Mul, Min, Max, And, Or, Not, Cast, Select)
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class Keys:
    """Numbers for expressions: equal expressions have the same number. With ``equivalent``, expressions with the same
    canonical form have the same number."""

    def __init__(self, equivalent: bool = False):
        self.analyzer = Analyzer() if equivalent else None
        self.sizes: dict[int, int] = {}
        # Canonical forms by number. A canonical form may have fewer variables than its expression, because terms can
        # cancel.
        self.forms: dict[int, PrimExpr] = {}
        self.numbers: dict[tuple, int] = {}
        self.known: dict[int, tuple[Any, int]] = {}
        self.nameable: dict[int, bool] = {}
        self.variables: dict[int, frozenset[Var]] = {}

    def of(self, root: PrimExpr) -> int:
        for node in post_order(root):
            if id(node) in self.known:
                continue
            below = tuple(self.known[id(c)][1] for c in node.children())
            data = tuple(
                id(v) if not isinstance(v, (str, int, float)) else v
                for v in (getattr(node, f) for f in node._fields)
                if not isinstance(v, (PrimExpr, tuple))
            )
            if isinstance(node, Var):
                data = (id(node),)
            number = self.numbers.setdefault((type(node), getattr(node, "dtype", ""), data, below), len(self.numbers))
            if self.analyzer is not None and below and isinstance(node, PrimExpr) and info(node.dtype).is_integer:
                number = self.canonical(node, number)
            self.known[id(node)] = (node, number)
            self.sizes.setdefault(number, 1 + sum(self.sizes[n] for n in below))
            self.nameable.setdefault(number, self.may_move(node) and all(self.movable(c) for c in node.children()))
            own = {node} if isinstance(node, Var) else set()
            own.update(*[self.variables[self.known[id(c)][1]] for c in node.children()])
            self.variables.setdefault(number, frozenset(own))
        return self.known[id(root)][1]

    def canonical(self, node: PrimExpr, number: int) -> int:
        """Return the number of the canonical form of an expression."""
        assert self.analyzer is not None
        form = self.analyzer.simplify(node)
        if form is node:
            return number
        plain, self.analyzer = self.analyzer, None
        form_number = self.of(form)
        self.analyzer = plain
        self.forms[form_number] = form
        return form_number

    def movable(self, node: Any) -> bool:
        return isinstance(node, (Var, IntImm, FloatImm)) or self.nameable[self.known[id(node)][1]]

    def may_move(self, node: Any) -> bool:
        if isinstance(node, (Ramp, Broadcast, Let)):
            return False
        if isinstance(node, _DIVISIONS):
            return primop.literal(node.b) not in (None, 0)
        if isinstance(node, Call):
            return effect_of(node) <= CallEffectKind.Pure and not is_call(node, "tir.if_then_else", "tir.likely")
        return isinstance(node, _PLAIN) or isinstance(node, CmpExpr)


@dataclass
class Scope:
    """A scope for new variables: the function, the body of a statement that binds a variable, or a branch of a
    condition."""

    depth: int
    outer: Scope | None = None
    binds: tuple[Var, ...] = ()
    is_case: bool = False
    shadows: bool = False  # Whether an enclosing scope also binds a variable of this name
    # The expressions to define here, largest first: number and one of the equal nodes.
    named: list[tuple[int, PrimExpr]] = field(default_factory=list)


@dataclass
class Uses:
    """The uses of equal expressions whose variables are bound by the same statements."""

    sample: PrimExpr
    scope: Scope  # The innermost scope that contains all uses
    count: int = 0


def binding(node: Stmt) -> tuple[Var, ...]:
    """Return the variables that a statement binds for its body."""
    if isinstance(node, For):
        return (node.loop_var,)
    if isinstance(node, LetStmt):
        return (node.var,)
    if isinstance(node, Allocate):
        return (node.buffer_var,)
    if isinstance(node, AttrStmt) and node.attr_key in ("thread_extent", "virtual_thread"):
        return (node.node.var,)
    return tuple(axis.var for axis in node.iter_vars) if isinstance(node, Block) else ()


def common_scope(a: Scope, b: Scope) -> Scope:
    """Return the innermost scope that contains both scopes."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.outer is not None
            a = a.outer
        else:
            assert b.outer is not None
            b = b.outer
    return a


class Collector:
    """An analysis of a function that finds repeated expressions and the scopes for their variables."""

    def __init__(self, table: Keys):
        self.table = table
        self.scopes: dict[tuple[int, int], Scope] = {}  # By the identities of a statement and its body
        self.bound: dict[Var, Scope] = {}
        self.uses: dict[tuple[int, int], Uses] = {}
        self.seen: set[tuple[int, int]] = set()

    def visit(self, node: Stmt, scope: Scope) -> None:
        variables = binding(node)
        for child in node.children():
            if not isinstance(child, Stmt):
                self.expression(child, scope)
            elif variables:
                self.body(node, child, scope, variables)
            elif isinstance(node, IfThenElse):
                inside = self.scopes[id(node), id(child)] = Scope(scope.depth + 1, scope, is_case=True)
                self.visit(child, inside)
            else:
                self.visit(child, scope)

    def body(self, node: Stmt, child: Stmt, scope: Scope, variables: tuple[Var, ...]) -> None:
        before = {v: self.bound[v] for v in variables if v in self.bound}
        inside = self.scopes[id(node), id(child)] = Scope(scope.depth + 1, scope, variables, shadows=bool(before))
        self.bound.update(dict.fromkeys(variables, inside))
        self.visit(child, inside)
        for v in variables:
            del self.bound[v]
        self.bound.update(before)

    def expression(self, root: Any, scope: Scope) -> None:
        if not isinstance(root, PrimExpr):
            for child in root.children():
                self.expression(child, scope)
            return
        self.table.of(root)
        # Variables that the expression itself defines are visible only in a part of it.
        own = {n.var for n in post_order(root) if isinstance(n, Let)}
        for node in post_order(root):
            number = self.table.known[id(node)][1] if isinstance(node, PrimExpr) else -1
            if not isinstance(node, PrimExpr) or not self.table.nameable[number] or info(node.dtype).lanes != 1:
                continue
            if own and not own.isdisjoint(self.table.variables[number]):
                continue
            anchor = self.anchor(number)
            depth = -1 if anchor is None else id(anchor)
            if (id(node), depth) in self.seen:
                continue
            self.seen.add((id(node), depth))
            known = self.uses.setdefault((number, depth), Uses(self.table.forms.get(number, node), scope))
            known.count += 1
            known.scope = common_scope(known.scope, scope)

    def anchor(self, number: int) -> Scope | None:
        """Return the innermost scope that binds a variable of the expression."""
        around = [self.bound[v] for v in self.table.variables[number] if v in self.bound]
        return max(around, key=lambda s: s.depth, default=None)

    def choose(self) -> None:
        """Add the expressions to define to the lists of their scopes."""
        repeated = {key: use for key, use in self.uses.items() if use.count > 1}
        within: dict[int, int] = {}
        for (number, _), use in repeated.items():
            for part in post_order(use.sample):
                inner = self.table.known[id(part)][1] if isinstance(part, PrimExpr) else number
                if inner != number:
                    within[inner] = max(within.get(inner, 0), use.count)
        for (number, _), use in repeated.items():
            # An expression that only occurs inside other defined expressions needs no variable.
            if within.get(number, 0) >= use.count:
                continue
            scope, variables = use.scope, self.table.variables[number]
            while scope.outer is not None and not scope.is_case and variables.isdisjoint(scope.binds):
                scope = scope.outer
            scope.named.append((number, use.sample))


class Eliminator(StmtRewriter):
    """A rewriter that inserts the variables. ``names`` contains the variables that are visible at the current node."""

    def __init__(self, table: Keys, scopes: dict[tuple[int, int], Scope]):
        self.table, self.scopes = table, scopes
        self.count = 0
        self.names: dict[int, Var] = {}

    def inside(self, scope: Scope, body: Stmt) -> Stmt:
        hidden = {}
        if scope.shadows:
            hidden = {n: v for n, v in self.names.items() if not self.table.variables[n].isdisjoint(scope.binds)}
        for number in hidden:
            del self.names[number]
        named = sorted(scope.named, key=lambda n: self.table.sizes[n[0]], reverse=True)
        for number, sample in named:
            self.count += 1
            self.names[number] = Var(f"cse_var_{self.count}", sample.dtype)
        new = self.stmt(body)
        # A large expression is defined after the smaller ones, because its value may use their variables.
        for number, sample in named:
            var = self.names.pop(number)
            new = LetStmt(var, self.expr(sample), new)
        self.names.update(hidden)
        return new

    def stmt(self, node: Stmt) -> Stmt:
        if not isinstance(node, IfThenElse) and not binding(node):
            return super().stmt(node)

        def child(part: Any) -> Any:
            return self.inside(self.scopes[id(node), id(part)], part) if isinstance(part, Stmt) else self.expr(part)

        return node.map_children(child)

    def expr(self, node: Any) -> Any:
        if not self.names:
            return node

        def replace(n: Any):
            known = self.table.known.get(id(n))
            return self.names.get(known[1]) if known is not None and isinstance(n, PrimExpr) else None

        return rewrite(node, None, replace)


def common_subexpr_elim(func: PrimFunc, enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> PrimFunc:
    if not enable_cse_tir:
        return func
    table, root = Keys(identify_equiv_terms), Scope(0)
    found = Collector(table)
    found.visit(func.body, root)
    found.choose()
    return func.replace(body=Eliminator(table, found.scopes).inside(root, func.body))
