"""Structural equality and interning of expressions: within one analyzer, equal expressions are the same object.

Interning reduces every later equality test to an identity test, which keeps the rewrite rules fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import info
from ..error import TVMError
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    convert,
)
from ..ir.primop import literal

BINARY = frozenset({Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or})
DIVISIONS = frozenset({Div, Mod, FloorDiv, FloorMod})
COMPARISON = frozenset({EQ, NE, LT, LE, GT, GE})

# Fields, besides the children, that distinguish two nodes.
_DATA: dict[type[Any], Callable[[Any], tuple[Any, ...]]] = {
    Not: lambda n: (),
    Select: lambda n: (),
    Cast: lambda n: (n.dtype,),
    Ramp: lambda n: (n.lanes,),
    Broadcast: lambda n: (n.lanes,),
    Shuffle: lambda n: (len(n.vectors),),
    Call: lambda n: (n.dtype, n.op),
    BufferLoad: lambda n: (n.buffer, n.dtype),
    ProducerLoad: lambda n: (n.producer, n.dtype),
}


def is_pure(call: Call) -> bool:
    """Return whether two equal calls have the same value inside one expression."""
    attrs = getattr(call.op, "attrs", None)
    effect = attrs.get("TCallEffectKind") if attrs else None
    return effect is not None and int(effect) <= 2


def _shape(node: Any) -> Any:
    """Return the data that must be equal for two nodes with equal children to be equal, or None if only identity
    counts."""
    cls = node.__class__
    if cls in BINARY:
        return (cls,)
    if cls is IntImm:
        return (IntImm, node.value, node.dtype)
    if cls is FloatImm:
        return (FloatImm, node.value.hex(), node.dtype)
    if cls is StringImm:
        return (StringImm, node.value)
    data = _DATA.get(cls)
    if data is None or (cls is Call and not is_pure(node)):
        return None
    return (cls, *data(node))


def expr_deep_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions have the same structure over the same variables.

    Parameters
    ----------
    a : PrimExpr
        An expression.
    b : PrimExpr
        Another.

    Returns
    -------
    bool
    """
    a, b = convert(a), convert(b)
    if a is b:
        return True
    stack = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        key = (id(x), id(y))
        if key in seen:
            continue
        seen.add(key)
        shape = _shape(x)
        if x.__class__ is not y.__class__ or shape is None or shape != _shape(y):
            return False
        left, right = x.children(), y.children()
        if len(left) != len(right):
            return False
        stack.extend(zip(left, right))
    return True


def _check_divisor(n: PrimExpr) -> None:
    """Reject a division by a literal zero. A divisor that only simplifies to zero is in unreachable code and is
    accepted."""
    if literal(n.b) == 0 and not info(n.dtype).is_float:
        raise TVMError(f"{n.__class__.__name__}: division by zero; the divisor is the literal 0")


class Interner:
    """Tables that map structurally equal expressions to one object.

    ``known`` maps every interned expression to its representative and keeps both alive, so that their ids stay unique.
    ``nodes`` maps the type, data and children of a node to its representative.
    """

    __slots__ = ("known", "nodes")

    def __init__(self):
        self.known: dict[PrimExpr, PrimExpr] = {}
        self.nodes: dict[tuple[Any, ...], PrimExpr] = {}

    def literal(self, value: int, dtype: str) -> PrimExpr:
        key = (IntImm, value, dtype)
        got = self.nodes.get(key)
        if got is None:
            got = self.nodes[key] = IntImm(dtype, value)
            self.known[got] = got
        return got

    def binary(self, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Return the interned node ``cls(a, b)`` of two interned operands."""
        key = (cls, a, b)
        got = self.nodes.get(key)
        if got is None:
            got = self.nodes[key] = cls(a, b)
            self.known[got] = got
        return got

    def add(self, node: PrimExpr) -> PrimExpr:
        """Return the representative of a node whose children are interned."""
        shape = _shape(node)
        if shape is None:
            self.known[node] = node
            return node
        key = (*shape, *node.children())
        got = self.nodes.get(key)
        if got is None:
            got = self.nodes[key] = node
            self.known[node] = node
        return got

    def intern(self, root: PrimExpr) -> PrimExpr:
        known, nodes = self.known, self.nodes
        got = known.get(root)
        if got is not None:
            return got
        stack: list[Any] = [root]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            cls = node.__class__
            if cls in BINARY:
                a, b = known.get(node.a), known.get(node.b)
                if a is None or b is None:
                    if b is None:
                        stack.append(node.b)
                    if a is None:
                        stack.append(node.a)
                    continue
                key = (cls, a, b)
                got = nodes.get(key)
                if got is None:
                    if cls in DIVISIONS:
                        _check_divisor(node)
                    got = node if a is node.a and b is node.b else cls(a, b)
                    nodes[key] = got
                    known[got] = got
            elif cls is IterVar:
                # Other parts of the compiler identify an axis by its object, so keep the object with its domain.
                got = node
            else:
                missing = [c for c in node.children() if c not in known]
                if missing:
                    missing.reverse()
                    stack.extend(missing)
                    continue
                got = node if isinstance(node, Var) else self.add(node.map_children(known.__getitem__))
            known[node] = got
            stack.pop()
        return known[root]
