"""The tables of TFLite converters and what a converter can ask.

A converter is ``f(ctx, inputs, options)``: inputs are expressions (None where left out), options the fields of the
operator's options. For operators on quantized tensors there are four ways, tried in this order:

- a converter of ``QUANTIZED``, written for the integers;
- operators that only move elements (``MOVING``) take the integers as they are, if the results have the same parameters;
- operators on single elements (``TABLED``) become a table of the 256 results;
- for all others the inputs are made real numbers, and the results integers again.
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
    """As ``op``, of operators that only move elements."""
    MOVING.update(names)
    return op(*names)


def tabled(*names: str):
    """As ``op``, of operators each element of whose result depends on one element of the input."""
    TABLED.update(names)
    return op(*names)


class Context(NodeContext):
    """The node being converted."""

    __slots__ = ("between", "node", "results", "tensors")

    importer: Importer

    def __init__(self, importer: Importer, node: Node, tensors: list, where: str):
        super().__init__(importer, where)
        self.node = node
        self.tensors: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.inputs]
        self.results: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.outputs]
        self.between: list[Tensor | None] = [tensors[i] if i >= 0 else None for i in node.intermediates]

    def tensor(self, index: int) -> Tensor:
        """The record of an input that must be there."""
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
        """The record of a value inside the operator."""
        found = self.between[index] if index < len(self.between) else None
        if found is None:
            raise TVMError(f"the scale of value {index} inside the operator is missing")
        return found

    def keep(self, index: int, value: RelayExpr) -> None:
        """The next run finds a value in an input that is the operator's state."""
        if self.tensor(index).is_variable:
            self.importer.variables[self.importer.graph.index, self.tensor(index).index] = self.made(value)

    @property
    def is_quantized(self) -> bool:
        """Whether the operator works on integers that stand for real numbers."""
        return any(is_quantized(t) for t in (*self.tensors[:1], *self.results[:1]))

    def quantization(self, tensor: Tensor) -> Quantization:
        """The parameters of a tensor of narrow integers with one scale."""
        found = tensor.quantization
        if tensor.type not in INTEGERS:
            raise TVMError(f"tensor '{tensor.name}' is of {tensor.type}; one of {', '.join(INTEGERS)} is wanted")
        if found is None or not found.is_single:
            count = "no scale" if found is None else f"{found.scale.size} scales"
            raise TVMError(f"tensor '{tensor.name}' has {count}; one is wanted")
        return found

    def activation(self, number: int) -> str:
        if not 0 <= number < len(ACTIVATIONS) or ACTIVATIONS[number] == "SIGN_BIT":
            raise TVMError(f"the activation number {number} is not supported")
        return ACTIVATIONS[number]


def is_quantized(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.type in INTEGERS and tensor.quantization is not None


def argument(inputs: list, index: int) -> RelayExpr | None:
    """An optional input."""
    return inputs[index] if len(inputs) > index else None


__all__ = [
    "CONVERTERS", "INTEGERS", "MOVING", "QUANTIZED", "TABLED", "Context", "argument", "axis_of", "check_steps",
    "is_quantized", "moving", "op", "quantized", "tabled",
]  # fmt: skip
