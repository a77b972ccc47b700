"""The table of TensorFlow converters, and the interface to the node that is being converted.

A converter is ``f(ctx, inputs, attrs)``: inputs are expressions, attrs is a dictionary of Python values, which can lack
attributes with the operator's default. Operators registered with ``host`` also have inputs and outputs that are not
tensors: lists, handles, strings.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ....error import TVMError
from ...expr import RelayExpr
from ..common.context import MOST_STEPS, NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters
from .graph import Node
from .tensors import plain_dtype

if TYPE_CHECKING:
    from .reader import Importer, Scope

CONVERTERS = Converters("TensorFlow")
op = partial(CONVERTERS.op, since=0)
HOST: set[str] = set()


def host(*names: str):
    """Register a converter, like ``op``, of operators whose inputs can be values other than tensors."""
    HOST.update(names)
    return op(*names)


class Handle:
    """A variable or a table: ``node`` creates it, and ``kind`` distinguishes the two."""

    def __init__(self, kind: str, node: Node, shared_name: str):
        self.kind, self.node, self.shared_name = kind, node, shared_name


class Context(NodeContext):
    """The node that is being converted."""

    __slots__ = ("node", "scope")

    importer: Importer

    def __init__(self, importer: Importer, node: Node, scope: Scope, where: str):
        super().__init__(importer, where)
        self.node, self.scope = node, scope

    def kind(self, attrs: dict[str, Any], name: str, default: str) -> str:
        """Return the element type in an attribute."""
        return plain_dtype(attrs.get(name, default))

    def single(self, e: RelayExpr, what: str) -> int:
        """Return a scalar that must be constant at compile time."""
        values = self.ints(e, what)
        if values is None or len(values) != 1:
            raise TVMError(f"{what} must be a scalar, got {values}")
        return values[0]


__all__ = [
    "CONVERTERS", "HOST", "MOST_STEPS", "Context", "Handle", "axis_of", "check_count", "check_steps", "host",
    "op",
]  # fmt: skip
