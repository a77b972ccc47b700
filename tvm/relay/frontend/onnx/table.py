"""The table of ONNX converters, and the interface to the node that is being converted.

A converter is ``f(ctx, inputs, attrs)``: inputs are expressions (None for omitted ones), attrs is a dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...expr import RelayExpr
from ..common.context import MOST_STEPS, NodeContext, axis_of, check_steps
from ..common.converters import Converters
from .load import tensor_array
from .small_types import SmallType

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("ONNX")
op = CONVERTERS.op


class Context(NodeContext):
    """The node that is being converted."""

    __slots__ = ("attributes", "inputs", "integers", "made_small", "node", "sums", "version")

    importer: Importer

    def __init__(self, importer: Importer, node, version: int, where: str):
        super().__init__(importer, where)
        self.node = node
        self.version = version
        self.attributes: dict[str, Any] = {}
        self.inputs: list = []
        # Set by converters whose first output is integers times a scale; see quantize.py.
        self.integers: Any = None
        # Set by converters whose first output is integer sums times a scale; see quantize.py.
        self.sums: Any = None
        # Set by converters whose outputs have a small type; see small_types.py.
        self.made_small: SmallType | None = None

    @property
    def opset(self) -> int:
        return self.version

    def small(self, e: RelayExpr | None) -> SmallType | None:
        """Return the small type of the stored values of an expression, or None."""
        kept = self.importer.small.get(id(e))
        return kept[1] if kept else None

    def tensor(self, proto):
        """Return the array of a tensor attribute."""
        return tensor_array(proto, self.importer.folder)

    def declared(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape that the model declares for an output, or None."""
        return self.importer.declared.get(self.node.output[index]) if self.wants(index) else None

    def wants(self, index: int) -> bool:
        """Return whether the output with this index is used."""
        return len(self.node.output) > index and bool(self.node.output[index])

    def convert(self, name: str, *inputs: RelayExpr, **attrs: Any):
        """Convert another operator of the same operator set, as a part of this one."""
        converter = CONVERTERS.find(name, self.version)
        assert converter is not None, name
        return converter(self, list(inputs), attrs)


def argument(inputs: list, index: int):
    """Return an optional input, or None."""
    return inputs[index] if len(inputs) > index else None


def attribute_values(node) -> dict[str, Any]:
    """Return the attributes of a node as Python values."""
    return {a.name: _READERS[a.type](a) if a.type in _READERS else a for a in node.attribute}


# Functions that read an attribute value, by AttributeProto.type.
_READERS = {
    1: lambda a: a.f,
    2: lambda a: a.i,
    3: lambda a: a.s.decode("utf-8", "replace"),
    4: lambda a: a.t,
    5: lambda a: a.g,
    6: lambda a: list(a.floats),
    7: lambda a: list(a.ints),
    8: lambda a: [s.decode("utf-8", "replace") for s in a.strings],
    11: lambda a: a.sparse_tensor,
    13: lambda a: a.tp,
}

__all__ = ["CONVERTERS", "MOST_STEPS", "Context", "argument", "attribute_values", "axis_of", "check_steps", "op"]
