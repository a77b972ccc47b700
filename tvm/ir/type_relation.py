"""``tvm.ir.type_relation``: calls and relations of types, under TVM's path."""

from __future__ import annotations

from .type import TypeCall, TypeRelation

__all__ = [
    "TypeCall",
    "TypeRelation",
]
