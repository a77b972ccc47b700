"""CommonSubexprElimTIR: expressions that occur more than once get a name where all their variables are known.

Sharing inside one expression is kept by every pass already; this one finds equal expressions that were built apart.
Loads, calls with effects and divisions that may fail stay where they are: naming them would move them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from ..stmt import Allocate, AttrStmt, For, LetStmt, Stmt
from .statement import StmtRewriter, is_call

_PLAIN = (Add, Sub, Mul, Min, Max, And, Or, Not, Cast, Select)
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class Keys:
    """A number per expression, the same for equal ones."""

    def __init__(self):
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
            self.known[id(node)] = (node, number)
            self.nameable.setdefault(number, self.may_move(node) and all(self.movable(c) for c in node.children()))
            own = {node} if isinstance(node, Var) else set()
            own.update(*[self.variables[self.known[id(c)][1]] for c in node.children()])
            self.variables.setdefault(number, frozenset(own))
        return self.known[id(root)][1]

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


def expressions(node: Stmt) -> Iterator[PrimExpr]:
    """The expressions of a statement and of all statements inside it."""
    stack: list[Any] = [node]
    while stack:
        here = stack.pop()
        for child in here.children():
            if isinstance(child, Stmt):
                stack.append(child)
            elif isinstance(child, PrimExpr):
                yield child
            else:
                stack.append(child)


def bound_inside(node: Stmt) -> set[Var]:
    out: set[Var] = set()
    for n in post_order(node):
        if isinstance(n, For):
            out.add(n.loop_var)
        elif isinstance(n, (LetStmt, Let)):
            out.add(n.var)
        elif isinstance(n, Allocate):
            out.add(n.buffer_var)
        elif isinstance(n, AttrStmt) and n.attr_key in ("thread_extent", "virtual_thread"):
            out.add(n.node.var)
    return out


class Eliminator(StmtRewriter):
    def __init__(self):
        self.count = 0

    def level(self, body: Stmt) -> Stmt:
        """Name what occurs twice in ``body`` and depends on nothing bound in it, largest first."""
        keys = Keys()
        uses: dict[int, int] = {}
        sample: dict[int, PrimExpr] = {}
        seen: set[int] = set()
        for root in expressions(body):
            keys.of(root)
            self.count_uses(root, keys, uses, sample, seen)
        inside = bound_inside(body)
        chosen = [n for n, times in uses.items() if times > 1 and not keys.variables[n] & inside]
        chosen = self.maximal(chosen, keys, uses, sample)
        if not chosen:
            return self.stmt(body)
        names: dict[int, Var] = {}
        for number in chosen:
            self.count += 1
            names[number] = Var(f"cse_var_{self.count}", sample[number].dtype)

        def replace(node: Any):
            known = keys.known.get(id(node))
            return names.get(known[1]) if known is not None and isinstance(node, PrimExpr) else None

        new = self.stmt(rewrite(body, None, replace))
        for number in reversed(chosen):
            new = LetStmt(names[number], sample[number], new)
        return new

    def count_uses(self, root: PrimExpr, keys: Keys, uses: dict, sample: dict, seen: set[int]) -> None:
        for node in post_order(root):
            if not isinstance(node, PrimExpr) or id(node) in seen:
                continue
            seen.add(id(node))
            number = keys.known[id(node)][1]
            if keys.nameable[number] and info(node.dtype).lanes == 1:
                uses[number] = uses.get(number, 0) + 1
                sample.setdefault(number, node)

    def maximal(self, chosen: list[int], keys: Keys, uses: dict, sample: dict) -> list[int]:
        """Without those that only occur inside others that are named anyway."""
        within: dict[int, int] = {}
        for number in chosen:
            for child in post_order(sample[number]):
                inner = keys.known[id(child)][1]
                if inner != number:
                    within[inner] = max(within.get(inner, 0), uses[number])
        return [n for n in chosen if within.get(n, 0) < uses[n]]

    def on_For(self, node: For) -> Stmt:
        body = self.level(node.body)
        return node if body is node.body else node.replace(body=body)


def common_subexpr_elim(func: PrimFunc, enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> PrimFunc:
    if not enable_cse_tir:
        return func
    return func.replace(body=Eliminator().level(func.body))
