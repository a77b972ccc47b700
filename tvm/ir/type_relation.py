"""``tvm.ir.type_relation``: alias module of Apache TVM for type calls and relations."""

from __future__ import annotations

from .type import TypeCall, TypeRelation

__all__ = [
    "TypeCall",
    "TypeRelation",
]
