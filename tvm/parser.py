"""``tvm.parser``: the parser of Relay text, under its old name."""

from __future__ import annotations

from .relay.parser import fromtext, parse, parse_expr
from .relay.transform.span_check import SpanCheck

__all__ = ["SpanCheck", "fromtext", "parse", "parse_expr"]
