"""Evaluation of nodes: ``value(b, node)`` returns the operand with the value of a node. ``llvm_expr`` fills in the
table of handlers. This file also builds and splits vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dtype import element
from ...error import TVMError
from ...ir.prim import IntImm, PrimExpr
from ...ir.visit import post_order
from .builder import Builder

# Tables by node type: the handler, and the operands that are evaluated unconditionally (default: all children).
HANDLERS: dict[type, Callable[[Builder, Any], str]] = {}
OPERANDS: dict[type, Callable[[Builder, Any], list[PrimExpr]]] = {}

# Nesting depth at which recursion is replaced by a bottom-up traversal.
_DEEP = 48


def value(b: Builder, node: PrimExpr) -> str:
    got = b.memo.get(id(node))
    if got is not None:
        return got
    if b.depth >= _DEEP and type(node) is not IntImm:
        return _bottom_up(b, node)
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise TVMError(f"the llvm back end cannot emit {type(node).__name__}: {node}")
    b.depth += 1
    got = handler(b, node)
    b.depth -= 1
    if type(node) is not IntImm:
        b.remember(node, got)
    return got


def _bottom_up(b: Builder, root: PrimExpr) -> str:
    """Evaluate operands before their users without recursion, because expressions can be deep."""
    depth, b.depth = b.depth, 0

    def operands(node: PrimExpr) -> Any:
        given = OPERANDS.get(type(node))
        return node.children() if given is None else given(b, node)

    for node in post_order(root, b.memo, operands):
        value(b, node)
    b.depth = depth
    return value(b, root)


def splat(b: Builder, dtype: str, scalar: str, lanes: int) -> str:
    """Return a vector of ``lanes`` copies of a scalar of type ``dtype``."""
    text = b.types[dtype]
    if scalar[0] != "%" and text != "ptr":
        zero = scalar in ("0", "false") or scalar == "0x0000000000000000"
        return "zeroinitializer" if zero else f"splat ({text} {scalar})"
    vector = f"<{lanes} x {text}>"
    first = b.op(f"insertelement {vector} poison, {text} {scalar}, i64 0")
    return b.op(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")


def extract(b: Builder, dtype: str, vector: str, lane: int) -> str:
    return b.op(f"extractelement {b.types[dtype]} {vector}, i64 {lane}")


def build_vector(b: Builder, dtype: str, lanes: list[str]) -> str:
    """Return a vector of type ``dtype`` from its scalars."""
    vector, scalar = b.types[dtype], b.types[element(dtype)]
    got = "poison"
    for i, lane in enumerate(lanes):
        got = b.op(f"insertelement {vector} {got}, {scalar} {lane}, i64 {i}")
    return got


def choose(b: Builder, flag: str, flag_lanes: int, dtype: str, x: str, y: str) -> str:
    """Return x if the flag is set, else y."""
    if flag == "true":
        return x
    if flag == "false":
        return y
    text = b.types[dtype]
    flag_type = "i1" if flag_lanes == 1 else f"<{flag_lanes} x i1>"
    return b.op(f"select {flag_type} {flag}, {text} {x}, {text} {y}")
