"""Tests for occurrences of a variable."""

from __future__ import annotations

from ...ir.node import Node
from ...ir.prim import BufferLoad, Var
from ...ir.visit import post_order
from ..stmt import AttrStmt, BufferStore


def mentions(node: Node, var: Var) -> bool:
    """Return whether ``var`` occurs in ``node``: as a value, as the pointer of a buffer, or as the node of an
    attribute."""
    for n in post_order(node):
        if n is var:
            return True
        if isinstance(n, (BufferLoad, BufferStore)) and uses_in_buffer(n.buffer, var):
            return True
        if isinstance(n, AttrStmt) and n.node is var:
            return True
    return False


def uses_in_buffer(buffer, var: Var) -> bool:
    if buffer.data is var:
        return True
    fields = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return any(m is var for f in fields for m in post_order(f))
