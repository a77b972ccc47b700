"""Types of values and functions."""

from __future__ import annotations

from .node import Node


class Type(Node):
    """Base of all types. Types compare by content, unlike other nodes."""

    def _content(self):
        return tuple(getattr(self, f) for f in self._fields)

    def __eq__(self, other):
        return type(self) is type(other) and self._content() == other._content()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__name__, self._content()))


class PrimType(Type, key="PrimType"):
    """A scalar or vector: its dtype text."""

    dtype: str


class PointerType(Type, key="PointerType"):
    """A pointer to elements of a type, in a storage scope."""

    element_type: Type
    storage_scope: str = ""


class TupleType(Type, key="relay.TupleType"):
    fields: tuple


class FuncType(Type, key="relay.FuncType"):
    arg_types: tuple
    ret_type: Type
    type_params: tuple = ()
    type_constraints: tuple = ()


class VoidType:
    """``void`` is the empty tuple type."""

    def __new__(cls):
        return TupleType(())
