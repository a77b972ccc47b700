"""Helpers for passes: a statement rewriter with a method per statement type, and tests on nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...arith import Analyzer
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import Call, IntImm, PrimExpr, Range, Var, const
from ...ir.visit import post_order, rewrite
from .. import stmt as stmt_module
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import AttrStmt, For, SeqStmt, Stmt, seq

# Annotation of a loop of one iteration that must not be removed.
KEPT = "single_iteration_is_kept"


class StmtRewriter:
    """A rewriter of statements that returns the same object if nothing changes.

    A subclass defines ``on_For(self, node)`` and similar methods for the statements it changes, and ``expr`` for
    expressions (``expr`` also receives ranges, axes and regions). ``keep(node)`` rebuilds a node from its rewritten
    children.
    """

    _handlers: dict[type, Callable] = {}

    def __init_subclass__(cls) -> None:
        table = dict(cls._handlers)
        for name, method in vars(cls).items():
            if name.startswith("on_"):
                table[getattr(stmt_module, name[3:])] = method
        cls._handlers = table

    def stmt(self, node: Stmt) -> Stmt:
        handler = self._handlers.get(type(node))
        return node.map_children(self.child) if handler is None else handler(self, node)

    def keep(self, node: Stmt) -> Stmt:
        return node.map_children(self.child)

    def child(self, node: Node) -> Any:
        return self.stmt(node) if isinstance(node, Stmt) else self.expr(node)

    def expr(self, node: Any) -> Any:
        return node

    def on_SeqStmt(self, node: SeqStmt) -> Stmt:
        new = [self.stmt(s) for s in node.seq]
        return node if all(a is b for a, b in zip(new, node.seq)) else seq(*new)


StmtRewriter._handlers = {SeqStmt: StmtRewriter.on_SeqStmt}


class RangeRewriter(StmtRewriter):
    """A rewriter with an analyzer that contains the ranges of the enclosing loops and threads."""

    analyzer: Analyzer

    def on_For(self, node: For) -> Stmt:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        return self.keep(node)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            var = node.node.var
            self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, node.value)))
        return self.keep(node)


def op_name(node: Any) -> str:
    """Return the name of the intrinsic that a call calls; the empty string for any other node."""
    return getattr(node.op, "name", "") if type(node) is Call else ""


def is_call(node: Any, *names: str) -> bool:
    return type(node) is Call and getattr(node.op, "name", "") in names


def int_value(node: Any) -> int | None:
    return node.value if type(node) is IntImm else None


def uses_any(node: Node, variables: Iterable[Var]) -> bool:
    """Return whether ``node`` uses one of the variables, without searching the fields of accessed buffers."""
    wanted = {id(v) for v in variables}
    return any(id(n) in wanted for n in post_order(node))


def has_effect(e: PrimExpr) -> bool:
    """Return whether evaluating ``e`` may have a side effect."""
    return any(type(n) is Call and effect_of(n) > CallEffectKind.ReadState for n in post_order(e))


def substitute_folding(node: Node, values: dict[Var, PrimExpr]) -> Any:
    """Replace variables in ``node`` and fold arithmetic on constants."""

    def post(n: Any):
        if isinstance(n, Var):
            return values.get(n)
        build = primop.BUILD.get(type(n))
        if build is not None and (type(n.a) is IntImm or type(n.b) is IntImm):
            return build(n.a, n.b)
        return None

    return rewrite(node, post)


def statements_in(root: Stmt) -> Iterator[Any]:
    """Return a statement and the statements inside it, inner ones first; expressions are not traversed."""
    return post_order(root, operands=lambda node: [c for c in node.children() if isinstance(c, Stmt)])


def has_blocks(node: Stmt) -> bool:
    return any(isinstance(n, stmt_module.BlockRealize) for n in statements_in(node))
