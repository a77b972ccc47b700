"""Operators that a script converts itself: the class it derives from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....error import TVMError
from ...expr import RelayExpr
from .load import Graph, Node, Tensor
from .quantization import to_integers, to_real
from .table import CONVERTERS, QUANTIZED, is_quantized

if TYPE_CHECKING:
    from .reader import Importer


def converter_key(operator: str) -> str:
    """The name of an operator in ``convert_map``; that of a custom one is its own."""
    return operator.removeprefix("CUSTOM ")


class OperatorConverter:
    """Converts the operators of a graph. A script derives from it to add operators, or to convert some another way:
    ``convert_map`` has for each name a function from an operator to its result; a custom operator has its own name.

    Parameters
    ----------
    model : list of Graph
        All graphs of the model.
    subgraph : Graph
        The graph that is converted.
    exp_tab : Importer
        The expressions of its tensors.

    Examples
    --------
    >>> class Mine(relay.frontend.tflite.OperatorConverter):
    ...     def __init__(self, model, subgraph, exp_tab):
    ...         super().__init__(model, subgraph, exp_tab)
    ...         self.convert_map["Twice"] = self.convert_twice
    ...
    ...     def convert_twice(self, op):
    ...         x = self.get_tensor_expr(self.get_input_tensors(op)[0])
    ...         return relay.add(x, x)
    """

    def __init__(self, model: list[Graph], subgraph: Graph, exp_tab: Importer):
        self.model, self.subgraph, self.exp_tab = model, subgraph, exp_tab
        names = {*CONVERTERS.names(), *QUANTIZED.names()}
        self.convert_map: dict[str, Any] = {converter_key(name): self.convert_op for name in names}

    def convert_op(self, op: Node):
        """The results of an operator by the importer's own converter.

        Parameters
        ----------
        op : Node
            The operator.

        Returns
        -------
        Expr or list of Expr
        """
        return self.exp_tab.convert(op)

    def get_op_code_str(self, op: Node) -> str:
        """The name of an operator, as ``convert_map`` has it."""
        return converter_key(op.operator)

    def get_input_tensors(self, op: Node) -> list[Tensor]:
        """The tensors that an operator reads, without those that are left out."""
        return [self.subgraph.tensors[i] for i in op.inputs if i >= 0]

    def get_output_tensors(self, op: Node) -> list[Tensor]:
        """The tensors that an operator makes."""
        return [self.subgraph.tensors[i] for i in op.outputs if i >= 0]

    def get_tensor_expr(self, tensor: Tensor) -> RelayExpr:
        """What a tensor holds."""
        return self.exp_tab.tensor_value(tensor, "a converter")

    def get_expr(self, input_tensor_idx: int) -> RelayExpr:
        """What the tensor of a number holds."""
        return self.get_tensor_expr(self.subgraph.tensors[input_tensor_idx])

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Whether the tensor of a number is an input or was made."""
        return input_tensor_idx in self.exp_tab.values

    def get_tensor_value(self, tensor: Tensor):
        """The array of a constant tensor."""
        return tensor.array()

    def get_tensor_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape that the file says."""
        return tensor.shape

    def get_tensor_type_str(self, tensor: Tensor) -> str:
        """The element type of a tensor."""
        return tensor.dtype

    def is_quantized(self, op: Node) -> bool:
        """Whether an operator's first input holds integers for real numbers."""
        tensors = self.get_input_tensors(op)
        return bool(tensors) and is_quantized(tensors[0])

    def dequantize(self, expr: RelayExpr, tensor: Tensor) -> RelayExpr:
        """The real numbers that the integers of a tensor stand for.

        Raises
        ------
        TVMError
            The tensor has no scale.
        """
        if tensor.quantization is None:
            raise TVMError(f"tensor '{tensor.name}' has no scale")
        return to_real(expr, tensor, len(tensor.shape))

    def quantize(self, expr: RelayExpr, tensor_to_quantize: Tensor) -> RelayExpr:
        """Real numbers as integers of a tensor.

        Raises
        ------
        TVMError
            The tensor has no scale.
        """
        if tensor_to_quantize.quantization is None:
            raise TVMError(f"tensor '{tensor_to_quantize.name}' has no scale")
        return to_integers(expr, tensor_to_quantize)


__all__ = ["OperatorConverter", "converter_key"]
