"""``tvm.parser``: text of graphs, under TVM's older path."""

from __future__ import annotations

from .relay.parser import fromtext, parse, parse_expr

__all__ = ["fromtext", "parse", "parse_expr"]
