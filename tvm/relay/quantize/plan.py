"""Select the values of a float graph to quantize to integers.

A layer (``SUMS``) multiplies 8-bit integers and accumulates in 32 bits. Operators after a layer either operate on the
accumulators (``FOLLOWS``), only move elements (``MOVES``), or compute with 8-bit inputs and outputs (``COMPUTES``). A
*point* is a value that is quantized to 8 bits: an operand of a layer or of a ``COMPUTES`` operator, before any
``MOVES``. Accumulators that float operators read are dequantized directly, without quantization to 8 bits (``wide``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...error import TVMError
from ...ir.attrs import near_matches
from ...ir.op import OPS
from ...ir.tensor_type import TensorType
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, const
from ..infer import dims
from ..qnn.op import qnn
from ..transform.fake_quantization_rules import MOVED
from ..transform.function_pass import is_call
from ..transform.fuse_ops import own_nodes
from .config import QConfig
from .prepare import SUMS, channel_axis
from .ranges import Integers, power_of_two, symmetric

FOLLOWS = ("nn.bias_add", "nn.relu", "clip")
MOVES = (*MOVED, "nn.pad")
COMPUTES = ("add", "subtract", "multiply", "maximum", "minimum", "concatenate", "nn.avg_pool2d",
            "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "mean", "sigmoid", "tanh", "nn.leaky_relu")  # fmt: skip
SUM, FOLLOW, MOVE, COMPUTE = "sum", "follow", "move", "compute"


def _is_float(e: RelayExpr) -> bool:
    return isinstance(e.checked_type_, TensorType) and e.checked_type_.dtype == "float32"


def _operands(e: RelayExpr) -> list[RelayExpr]:
    """Return the tensor operands of an expression; a tuple operand contributes its fields."""
    if isinstance(e, TupleGetItem):
        return [e.tuple_value]
    if not isinstance(e, Call):
        return []
    return [f for a in e.args for f in (a.fields if isinstance(a, Tuple) else (a,))]


def name_of(e: RelayExpr) -> str:
    """Return the name of a value for reports and errors: its node name in the model, else its operator."""
    span = e.span
    if span is not None and getattr(span, "source_name", None) is not None:
        return str(span.source_name.name)
    op = getattr(e, "op", None)
    return getattr(e, "name_hint", None) or (op.name if op is not None and hasattr(op, "name") else type(e).__name__)


def check_skipped(names: Collection[str], layers: Collection[str]) -> None:
    """Check the names of layers to leave in float, so that a misspelled name is reported.

    Parameters
    ----------
    names : collection of str
        Names of layers or of operators.
    layers : collection of str
        The names of all layers.

    Raises
    ------
    TVMError
        A name is neither a layer nor an operator.
    """
    unknown = [n for n in names if n not in layers and OPS.get(n) is None]
    if unknown:
        near = near_matches(unknown[0], layers)
        raise TVMError(f"quantize: layer to skip not found: there is no layer '{unknown[0]}'; {near}")


class Plan:
    """The points of a function, and the function with quantization inserted at them.

    Parameters
    ----------
    function : Function
        A typed float function, as ``prerequisite_optimize`` returns it.
    config : QConfig

    Raises
    ------
    TVMError
        The configuration skips a layer that the function does not have.
    """

    def __init__(self, function: Function, config: QConfig):
        self.function, self.config = function, config
        self.nodes = own_nodes(function.body)
        check_skipped(config.skip_layers or (), {name_of(e) for e in self.nodes if self.is_layer(e)})
        self.readers = self._find_readers()
        self.kinds = self._choose()
        self._drop_idle()
        self.points: list[RelayExpr] = self._find_points()
        taken = {id(p) for p in self.points}
        self.layers = [e for e in self.nodes if self.kinds.get(id(e)) == SUM]
        self.wide = [e for e in self.nodes if id(e) not in taken and self.layer_of(e) is not None
                     and not self.read_by_integers_alone(e)]  # fmt: skip

    # Selection of integer values --------------------------------------------------------------------------------------
    def _find_readers(self) -> dict[int, list[RelayExpr | None]]:
        """Return the readers of each value, by id.

        None represents the function's output and readers that are not operators.
        """
        readers: dict[int, list[RelayExpr | None]] = {}
        for node in self.nodes:
            if isinstance(node, (Call, TupleGetItem)):
                for operand in _operands(node):
                    readers.setdefault(id(operand), []).append(node)
            elif not isinstance(node, Tuple):
                for child in node.children():
                    readers.setdefault(id(child), []).append(None)
        result = self.function.body
        for e in result.fields if isinstance(result, Tuple) else (result,):
            readers.setdefault(id(e), []).append(None)
        return readers

    def _choose(self) -> dict[int, str]:
        kinds: dict[int, str] = {}
        convolutions = 0
        for node in self.nodes:
            kind = None
            if isinstance(node, TupleGetItem):
                kind = MOVE if id(node.tuple_value) in kinds else None
            elif is_call(node, *SUMS):
                wanted = self.config.guard(node.op.name, convolutions, name_of(node))
                kind = SUM if wanted and self._can_sum(node) else None
                convolutions += node.op.name.startswith("nn.conv")
            elif isinstance(node, Call) and node.args:
                kind = self._kind_after(node, kinds)
            if kind is not None:
                kinds[id(node)] = kind
        return kinds

    def _kind_after(self, node: Call, kinds: Mapping[int, str]) -> str | None:
        operands = _operands(node)
        if id(operands[0]) in kinds and is_call(node, *FOLLOWS):
            return FOLLOW if all(isinstance(e, Constant) for e in operands[1:]) else None
        if id(operands[0]) in kinds and is_call(node, *MOVES):
            return MOVE
        if is_call(node, *COMPUTES) and any(id(e) in kinds for e in operands):
            return COMPUTE if all(_is_float(e) and not isinstance(e, Constant) for e in operands) else None
        return None

    def is_layer(self, e: RelayExpr) -> bool:
        """Return whether an expression is a layer, quantized or not."""
        return is_call(e, *SUMS)

    def _can_sum(self, node: Call) -> bool:
        """Return whether a layer can be computed with integers: its weights are constant and its layout is
        supported."""
        if not all(_is_float(e) for e in (node, *node.args)):
            return False
        if is_call(node, "nn.batch_matmul"):
            return not node.attrs.transpose_a and bool(node.attrs.transpose_b)
        return isinstance(node.args[1], Constant) and not node.attrs.get("out_layout")

    def _drop_idle(self) -> None:
        """Leave operators in float that no integer operator reads, unless they belong to a layer."""
        for node in reversed(self.nodes):
            kind = self.kinds.get(id(node))
            idle = not any(r is not None and id(r) in self.kinds for r in self.readers.get(id(node), []))
            if kind is not None and kind != SUM and idle and self.layer_of(node) is None:
                del self.kinds[id(node)]

    def layer_of(self, e: RelayExpr) -> Call | None:
        """Return the layer whose accumulators a value contains, after an optional bias and activation, or None."""
        while self.kinds.get(id(e)) == FOLLOW:
            e = e.args[0]  # type: ignore[attr-defined]
        return e if self.kinds.get(id(e)) == SUM else None  # type: ignore[return-value]

    def _find_points(self) -> list[RelayExpr]:
        found: dict[int, RelayExpr] = {}
        for node in self.nodes:
            if self.kinds.get(id(node)) in (SUM, COMPUTE):
                for operand in _operands(node):
                    if not isinstance(operand, Constant):
                        e = self.source(operand)
                        found[id(e)] = e
        return [e for e in self.nodes if id(e) in found]

    def source(self, e: RelayExpr) -> RelayExpr:
        """Return the value before operators that only move elements."""
        while self.kinds.get(id(e)) == MOVE:
            e = _operands(e)[0]
        return e

    def read_by_integers_alone(self, e: RelayExpr) -> bool:
        """Return whether only a bias or an activation of the same layer reads a value."""
        return all(r is not None and self.kinds.get(id(r)) == FOLLOW for r in self.readers.get(id(e), []))

    # The quantized function -------------------------------------------------------------------------------------------
    def weights(self, layer: Call, weight: Constant) -> Integers:
        """Return the scale and type of a layer's quantized weights."""
        array, scale = np.abs(weight.data.numpy()), self.config.weight_scale
        axis = self.weight_axis(layer)
        if scale == "channel" and axis is not None:
            reach = array.max(axis=tuple(i for i in range(array.ndim) if i != axis))
        else:
            reach = float(array.max(initial=0))
            reach = power_of_two(reach) if scale == "power2" else reach
        if scale == "power2":
            return Integers(np.float32(reach / 2 ** (self.config.nbit_weight - 1)), 0, "int8")
        return symmetric(reach, self.config.nbit_weight)

    def weight_axis(self, layer: Call) -> int | None:
        """Return the axis of the weights that corresponds to the output channels, or None."""
        if is_call(layer, "nn.batch_matmul"):
            return None
        if is_call(layer, "nn.dense"):
            return 0
        axis = layer.attrs.kernel_layout.find("O")
        channels = dims(layer.checked_type_)[channel_axis(layer)]
        return axis if axis >= 0 and dims(layer.args[1].checked_type_)[axis] == channels else None

    def quantized(self, integers: Mapping[int, Integers]) -> dict[int, RelayExpr]:
        """Return the expressions of the simulated graph, in which all points are quantized and dequantized, by old
        id."""
        made: dict[int, RelayExpr] = {}
        wide = {id(e) for e in self.wide}

        def lookup(e: Any) -> Any:
            return made.get(id(e), e)

        for node in self.nodes:
            new = node.map_children(lookup)
            if self.kinds.get(id(node)) == SUM:
                new = self._with_weights(node, new)
            if id(node) in integers:
                new = through(new, integers[id(node)])
            elif id(node) in wide:
                layer = self.layer_of(node)
                assert layer is not None
                new = through(new, self._accumulators(layer, integers), channel_axis(layer))
            made[id(node)] = new
        return made

    def _with_weights(self, layer: Call, new: Call) -> Call:
        args = []
        for operand in new.args:
            if isinstance(operand, Constant):
                meant = self.weights(layer, operand)
                axis = self.weight_axis(layer) if meant.scale.ndim else None
                operand = _dequantized(
                    Constant(_quantize_weights(operand.data.numpy(), meant, axis, self.config)), meant, axis
                )
            args.append(operand)
        return Call(new.op, tuple(args), new.attrs, (), new.span)

    def _accumulators(self, layer: Call, integers: Mapping[int, Integers]) -> Integers:
        """Return the scale of a layer's accumulators: the product of the scales of its operands."""
        scale = np.float32(1)
        for operand in layer.args:
            known = isinstance(operand, Constant)
            scale = scale * (self.weights(layer, operand) if known else integers[id(self.source(operand))]).scale
        return Integers(np.asarray(scale, "float32"), 0, "int32")


def _quantize_weights(array: np.ndarray, meant: Integers, axis: int | None, config: QConfig) -> np.ndarray:
    """Quantize weights. The most negative integer is not used, so that the range is symmetric around zero."""
    shape = [-1 if i == axis else 1 for i in range(array.ndim)]
    scale = meant.scale.reshape(shape) if axis is not None else meant.scale
    last = 2 ** (config.nbit_weight - 1) - 1
    return np.clip(np.round(array / scale), -last, last).astype("int8")


def _dequantized(e: RelayExpr, meant: Integers, axis: int | None) -> RelayExpr:
    options = {"axis": axis} if axis is not None and meant.scale.ndim else {}
    return qnn.dequantize(e, const(meant.scale, "float32"), const(meant.zero, "int32"), **options)


def through(e: RelayExpr, meant: Integers, axis: int | None = None) -> RelayExpr:
    """Quantize and dequantize a value."""
    options = {"axis": axis} if axis is not None and meant.scale.ndim else {}
    whole = qnn.quantize(e, const(meant.scale, "float32"), const(meant.zero, "int32"), out_dtype=meant.dtype, **options)
    return _dequantized(whole, meant, axis)


__all__ = ["Plan", "name_of", "through"]
