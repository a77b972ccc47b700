"""The base class for custom operator converters in scripts."""

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
    """Return the name of an operator in ``convert_map``; custom operators have their own name."""
    return operator.removeprefix("CUSTOM ")


class OperatorConverter:
    """Converts the operators of a graph. A script can derive from it to add operators or to replace converters.

    ``convert_map`` maps the name of an operator to a function that converts it to its output; a custom operator has its
    own name.

    Parameters
    ----------
    model : list of Graph
        All graphs of the model.
    subgraph : Graph
        The graph that is converted.
    exp_tab : Importer
        The expressions of the tensors.

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
        """Convert an operator by the importer's own converter and return its outputs.

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
        """Return the name of an operator in ``convert_map``."""
        return converter_key(op.operator)

    def get_input_tensors(self, op: Node) -> list[Tensor]:
        """Return the input tensors of an operator, without omitted ones."""
        return [self.subgraph.tensors[i] for i in op.inputs if i >= 0]

    def get_output_tensors(self, op: Node) -> list[Tensor]:
        """Return the output tensors of an operator."""
        return [self.subgraph.tensors[i] for i in op.outputs if i >= 0]

    def get_tensor_expr(self, tensor: Tensor) -> RelayExpr:
        """Return the expression of a tensor."""
        return self.exp_tab.tensor_value(tensor, "a converter")

    def get_expr(self, input_tensor_idx: int) -> RelayExpr:
        """Return the expression of the tensor with this index."""
        return self.get_tensor_expr(self.subgraph.tensors[input_tensor_idx])

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Return whether the tensor with this index is an input or has been computed."""
        return input_tensor_idx in self.exp_tab.values

    def get_tensor_value(self, tensor: Tensor):
        """Return the array of a constant tensor."""
        return tensor.array()

    def get_tensor_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the shape of a tensor in the file."""
        return tensor.shape

    def get_tensor_type_str(self, tensor: Tensor) -> str:
        """Return the element type of a tensor."""
        return tensor.dtype

    def is_quantized(self, op: Node) -> bool:
        """Return whether the first input of an operator is quantized."""
        tensors = self.get_input_tensors(op)
        return bool(tensors) and is_quantized(tensors[0])

    def dequantize(self, expr: RelayExpr, tensor: Tensor) -> RelayExpr:
        """Dequantize the integers of a tensor to float.

        Raises
        ------
        TVMError
            The tensor has no scale.
        """
        if tensor.quantization is None:
            raise TVMError(f"tensor '{tensor.name}' has no quantization scale")
        return to_real(expr, tensor, len(tensor.shape))

    def quantize(self, expr: RelayExpr, tensor_to_quantize: Tensor) -> RelayExpr:
        """Quantize floats by the parameters of a tensor.

        Raises
        ------
        TVMError
            The tensor has no scale.
        """
        if tensor_to_quantize.quantization is None:
            raise TVMError(f"tensor '{tensor_to_quantize.name}' has no quantization scale")
        return to_integers(expr, tensor_to_quantize)


__all__ = ["OperatorConverter", "converter_key"]
