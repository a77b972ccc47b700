"""The table of MXNet converters and the context that converters use.

A converter is ``f(ctx, inputs, attrs)``: ``inputs`` are expressions, ``attrs`` has every attribute that the operator's
registration declares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import MOST_STEPS, NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters
from .graph import Node
from .schema import Attributes, Values

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("MXNet")


class Row:
    """A converter and the signature of its operator.

    ``takes`` is the number of used inputs (labels of a loss are ignored), ``shapes`` infers the shapes of weights, and
    ``each`` is the number of inputs that ``num_args`` counts as one.
    """

    def __init__(self, convert: Callable[..., Any], attributes: Attributes, takes: int | None, shapes, each: int):
        self.convert, self.attributes, self.takes, self.shapes = convert, attributes, takes, shapes
        self.each = each

    def __call__(self, ctx: Context, inputs: list, attrs: Values):
        return self.convert(ctx, inputs, attrs)


def op(
    names: str, attributes: str = "", takes: int | None = None, shapes: Callable[..., dict] | None = None, each: int = 1
):
    """Register a converter for operators.

    ``shapes(ctx, inputs, attrs)`` returns the shapes of weights, by position, inferred from the other inputs; unknown
    inputs are None.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CONVERTERS.op(*names.split(), since=0)(Row(function, Attributes(attributes), takes, shapes, each))
        return function

    return add


class Context(NodeContext):
    """The node that is being converted."""

    __slots__ = ("node",)

    importer: Importer

    def __init__(self, importer: Importer, node: Node, where: str):
        super().__init__(importer, where)
        self.node = node

    def cast(self, e: RelayExpr, dtype: str) -> RelayExpr:
        return e if self.dtype(e) == dtype else relay.cast(e, dtype)

    def call(self, name: str, inputs: list, **texts: str):
        """Return the output of another operator's converter; attributes are strings, as in files."""
        row = CONVERTERS.find(name, 0)
        assert row is not None, name
        return row(self, [self.made(e) for e in inputs], row.attributes.read(texts))


def one_of(value, what: str, *wanted):
    """Check that an attribute has a supported value."""
    if value not in wanted:
        raise TVMError(f"the attribute {what}={value} is not supported; supported are {' and '.join(map(str, wanted))}")
    return value


__all__ = ["CONVERTERS", "MOST_STEPS", "Context", "Row", "axis_of", "check_count", "check_steps", "one_of", "op"]
