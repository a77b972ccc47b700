"""The tables of TFLite converters, and the interface to the node that is being converted.

A converter is ``f(ctx, inputs, options)``: inputs are expressions (None for omitted ones), options are the fields of
the operator's options. Operators with quantized tensors are converted in one of four ways, tried in this order:

- a converter in ``QUANTIZED``, written for the integers;
- operators that only move elements (``MOVING``) are applied to the integers if all tensors have the same parameters;
- operators on single elements (``TABLED``) become a table of the 256 outputs;
- for all others, the inputs are dequantized and the outputs quantized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....error import TVMError
from ...expr import RelayExpr
from ..common.context import NodeContext, axis_of, check_steps
from ..common.converters import Converters
from .load import Node, Quantization, Tensor
from .schema import ACTIVATIONS

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("TFLite", "version")
QUANTIZED = Converters("TFLite", "version")
op = CONVERTERS.op
quantized = QUANTIZED.op
MOVING: set[str] = set()
TABLED: set[str] = set()
INTEGERS = ("int8", "uint8", "int16")


def moving(*names: str):
    """Register a converter, like ``op``, of operators that only move elements."""
    MOVING.update(names)
    return op(*names)


def tabled(*names: str):
    """Register a converter, like ``op``, of operators whose output elements depend on one input element each."""
    TABLED.update(names)
    return op(*names)


class Context(NodeContext):
    """The node that is being converted."""

    __slots__ = ("between", "node", "results", "tensors")

    importer: Importer

    def __init__(self, importer: Importer, node: Node, tensors: list, where: str):
        super().__init__(importer, where)
        self.node = node
        self.tensors: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.inputs]
        self.results: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.outputs]
        self.between: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.intermediates]

    def tensor(self, index: int) -> Tensor:
        """Return the record of a required input."""
        found = self.tensors[index] if index < len(self.tensors) else None
        if found is None:
            raise TVMError(f"input {index} is missing")
        return found

    def result(self, index: int = 0) -> Tensor:
        found = self.results[index] if index < len(self.results) else None
        if found is None:
            raise TVMError(f"output {index} is missing")
        return found

    def intermediate(self, index: int) -> Tensor:
        """Return the record of an internal tensor of the operator."""
        found = self.between[index] if index < len(self.between) else None
        if found is None:
            raise TVMError(f"the scale of the intermediate tensor {index} is missing")
        return found

    def keep(self, index: int, value: RelayExpr) -> None:
        """Store a value for the next run in an input that is the operator's state."""
        if self.tensor(index).is_variable:
            self.importer.variables[self.importer.graph.index, self.tensor(index).index] = self.made(value)

    @property
    def is_quantized(self) -> bool:
        """Return whether the operator has quantized tensors."""
        return any(is_quantized(t) for t in (*self.tensors[:1], *self.results[:1]))

    def quantization(self, tensor: Tensor) -> Quantization:
        """Return the quantization parameters of a tensor of narrow integers with a single scale."""
        found = tensor.quantization
        if tensor.type not in INTEGERS:
            raise TVMError(f"tensor '{tensor.name}' has type {tensor.type}; it must be one of {', '.join(INTEGERS)}")
        if found is None or not found.is_single:
            count = "no scale" if found is None else f"{found.scale.size} scales"
            raise TVMError(f"tensor '{tensor.name}' has {count}; it must have one")
        return found

    def activation(self, number: int) -> str:
        if not 0 <= number < len(ACTIVATIONS) or ACTIVATIONS[number] == "SIGN_BIT":
            raise TVMError(f"activation code {number} is not supported")
        return ACTIVATIONS[number]


def is_quantized(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.type in INTEGERS and tensor.quantization is not None


def argument(inputs: list, index: int) -> RelayExpr | None:
    """Return an optional input, or None."""
    return inputs[index] if len(inputs) > index else None


__all__ = [
    "CONVERTERS", "INTEGERS", "MOVING", "QUANTIZED", "TABLED", "Context", "argument", "axis_of", "check_steps",
    "is_quantized", "moving", "op", "quantized", "tabled",
]  # fmt: skip
