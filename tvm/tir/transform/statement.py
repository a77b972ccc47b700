"""What the passes share: a statement rewriter with a method per statement type, and sums with integer coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...dtype import info, int_range
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import Add, Call, IntImm, Mul, PrimExpr, Sub, Var, const
from ...ir.visit import post_order, rewrite
from .. import stmt as stmt_module
from ..intrinsics import CallEffectKind, effect_of
from ..stmt import SeqStmt, Stmt, seq


class StmtRewriter:
    """Rebuilds a statement, the same object where nothing changed.

    A subclass writes ``on_For(self, node)`` and the like for the statements it changes, and ``expr`` for expressions
    (ranges, axes and regions reach ``expr`` too). ``keep(node)`` rebuilds a node from its rewritten children.
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


def op_name(node: Any) -> str:
    """The name of the intrinsic a call is of; the empty text for anything else."""
    return getattr(node.op, "name", "") if type(node) is Call else ""


def is_call(node: Any, *names: str) -> bool:
    return type(node) is Call and getattr(node.op, "name", "") in names


def int_value(node: Any) -> int | None:
    return node.value if type(node) is IntImm else None


class Sum:
    """``constant + sum(coefficient * atom)``; atoms are told apart by identity and kept in order of appearance."""

    __slots__ = ("terms", "constant", "dtype")

    def __init__(self, terms: dict[int, tuple[PrimExpr, int]], constant: int, dtype: str):
        self.terms = terms
        self.constant = constant
        self.dtype = dtype

    def coefficient(self, atom: PrimExpr) -> int:
        return self.terms.get(id(atom), (atom, 0))[1]

    def without(self, atom: PrimExpr) -> Sum:
        return Sum({k: t for k, t in self.terms.items() if t[0] is not atom}, self.constant, self.dtype)

    def only_variables(self) -> bool:
        return all(isinstance(atom, Var) for atom, _ in self.terms.values())

    def build(self, order: Callable[[PrimExpr], Any] | None = None) -> PrimExpr:
        """The expression, terms sorted by ``order``, the constant last."""
        items = [t for t in self.terms.values() if t[1]]
        if order is not None:
            items.sort(key=lambda t: order(t[0]))
        # A leading negative term would need a multiplication by -1: start from a positive one where there is one.
        if items and items[0][1] < 0:
            first = next((i for i, t in enumerate(items) if t[1] > 0), None)
            if first is not None:
                items.insert(0, items.pop(first))
        total: PrimExpr | None = None
        constant = self.constant
        if items and items[0][1] < 0 and constant > 0:
            total, constant = const(constant, self.dtype), 0
        for atom, coefficient in items:
            if total is None:
                total = primop.multiply(atom, const(coefficient, self.dtype))
            elif coefficient > 0:
                total = Add(total, primop.multiply(atom, const(coefficient, self.dtype)))
            else:
                total = Sub(total, primop.multiply(atom, const(-coefficient, self.dtype)))
        if total is None:
            return const(constant, self.dtype)
        if constant > 0:
            return Add(total, const(constant, self.dtype))
        return Sub(total, const(-constant, self.dtype)) if constant else total


# Sums of more nodes than this are left alone: a chain of shared additions doubles at every level when flattened.
_SUM_LIMIT = 400


def as_sum(e: PrimExpr) -> Sum | None:
    """``e`` as a sum over its non-linear parts, or None when it is not a scalar integer or is too large."""
    kind = info(e.dtype)
    if kind.lanes != 1 or kind.code not in ("int", "uint"):
        return None
    terms: dict[int, tuple[PrimExpr, int]] = {}
    constant = 0
    stack: list[tuple[PrimExpr, int]] = [(e, 1)]
    budget = _SUM_LIMIT
    while stack:
        node, factor = stack.pop()
        budget -= 1
        if not budget:
            return None
        cls = type(node)
        if cls is IntImm:
            constant += factor * node.value
        elif cls is Add:
            stack.append((node.b, factor))
            stack.append((node.a, factor))
        elif cls is Sub:
            stack.append((node.b, -factor))
            stack.append((node.a, factor))
        elif cls is Mul and type(node.b) is IntImm:
            stack.append((node.a, factor * node.b.value))
        elif cls is Mul and type(node.a) is IntImm:
            stack.append((node.b, factor * node.a.value))
        else:
            old = terms.get(id(node))
            terms[id(node)] = (node, factor + (old[1] if old else 0))
    low, high = int_range(e.dtype)
    if not all(low <= c <= high and -high <= c for _, c in terms.values()) or not low < constant <= high:
        return None
    return Sum(terms, constant, e.dtype)


def uses_any(node: Node, variables: Iterable[Var]) -> bool:
    """Whether any of the variables occurs in ``node``; the buffers it accesses are not looked into."""
    wanted = {id(v) for v in variables}
    return any(id(n) in wanted for n in post_order(node))


def has_effect(e: PrimExpr) -> bool:
    """Whether evaluating ``e`` may change something."""
    return any(type(n) is Call and effect_of(n) > CallEffectKind.ReadState for n in post_order(e))


def substitute_folding(node: Node, values: dict[Var, PrimExpr]) -> Any:
    """``node`` with variables replaced, and arithmetic done where numbers meet."""

    def post(n: Any):
        if isinstance(n, Var):
            return values.get(n)
        build = primop.BUILD.get(type(n))
        if build is not None and (type(n.a) is IntImm or type(n.b) is IntImm):
            return build(n.a, n.b)
        return None

    return rewrite(node, post)


def has_blocks(node: Stmt) -> bool:
    """Whether a statement has blocks; expressions are not looked into."""
    stack: list[Any] = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, stmt_module.BlockRealize):
            return True
        stack.extend(c for c in here.children() if isinstance(c, Stmt))
    return False
