"""``tvm.relay.base``: source spans and text output under the module path of Apache TVM."""

from ..ir.base import SourceName, Span
from .printer import astext, pretty_print

__all__ = ["SourceName", "Span", "astext", "pretty_print"]
