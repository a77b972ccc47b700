"""``tvm.relay.base``: places in sources, and text, under TVM's path."""

from ..ir.base import SourceName, Span
from .printer import astext, pretty_print

__all__ = ["SourceName", "Span", "astext", "pretty_print"]
