"""Where a variable occurs."""

from __future__ import annotations

from ...ir.node import Node
from ...ir.prim import BufferLoad, Var
from ...ir.visit import post_order
from ..stmt import AttrStmt, BufferStore


def mentions(node: Node, var: Var) -> bool:
    """Whether ``var`` occurs in ``node`` at all: as a value, the pointer of a buffer, or what an attribute is about."""
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
