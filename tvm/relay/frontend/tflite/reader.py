"""Import of TFLite models: all operators are checked first, then converted in order."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ....ir.structural import structural_equal
from ....runtime import ndarray
from ...expr import Constant, RelayExpr, TupleWrapper, Var
from ..common.context import check_count
from ..common.importer import GraphImporter, UnknownInput
from .control import Resource
from .hybrid import HYBRID
from .load import Graph, Node, Tensor, load
from .operator_converter import OperatorConverter, converter_key
from .quantization import RANGES, looked_up, to_integers, to_real
from .table import CONVERTERS, MOVING, QUANTIZED, TABLED, Context, is_quantized

# Maximum number of operators of all graphs, counted for each call.
MOST_NODES = 1 << 17


def model_bytes(model):
    """Return the bytes of a model, which is given as bytes, as the path of a file, or as an object of the ``tflite``
    package.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return model
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            return file.read()
    found = getattr(getattr(model, "_tab", None), "Bytes", None)
    if found is None:
        raise TypeError(f"from_tflite: model must be a tflite.Model, bytes or a path, got {type(model).__name__}")
    return found


class Importer(GraphImporter):
    """Converts one model. Values are stored by the index of their tensor in the graph that is being converted.

    ``variables`` are the values of the model's state. The key is the handle of a variable, or the indices of the graph
    and the tensor for the state of an operator.
    """

    def __init__(
        self, graphs: list[Graph], shapes: Mapping | None, dtypes: Mapping | None, converter: type, hybrid: str
    ):  # fmt: skip
        super().__init__()
        # How float activations are quantized for integer weights; see hybrid.py.
        self.hybrid = hybrid
        self.graphs = graphs
        self.graph = graphs[0]
        self.converters = {g.index: converter(graphs, g, self) for g in called_graphs(graphs)}
        self.shapes, self.dtypes = dict(shapes or {}), dict(dtypes or {})
        self.values: dict[int, Any] = {}
        self.variables: dict[Any, RelayExpr] = {}
        # State inputs by key, and the initial value of each by name of the input.
        self.states: dict[Any, Var] = {}
        self.initial: dict[str, Any] = {}
        # The stack of graphs that are being converted, and the remaining number of operators.
        self.active: list[int] = []
        self.budget = MOST_NODES

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        graph = self.graph
        self.check_operators()
        self.check_names()
        inputs = [self.input(graph.tensors[i]) for i in graph.inputs]
        self.add_operator_states()
        outputs = self.call(0, inputs)
        if not outputs:
            raise TVMError("the TFLite graph has no outputs")
        module, _ = self.finish([*outputs, *(self.next_state(key) for key in self.states)])
        return module, self.initial

    def call(self, index: int, inputs: list) -> list:
        """Inline a graph for the given inputs and return its outputs."""
        if not 0 <= index < len(self.graphs) or index in self.active:
            raise TVMError(
                f"cannot call graph {index}: the model has {len(self.graphs)} graphs, which must not be recursive"
            )
        graph, outer = self.graphs[index], (self.graph, self.values)
        if len(inputs) != len(graph.inputs):
            raise TVMError(f"the graph '{graph.name}' has {len(graph.inputs)} inputs, but is called with {len(inputs)}")
        self.budget -= len(graph.nodes) + 1
        if self.budget < 0:
            raise TVMError(f"branches and loops have more than {MOST_NODES} operators")
        self.graph, self.values = graph, dict(zip(graph.inputs, inputs))
        self.active.append(index)
        try:
            for node in graph.nodes:
                self.node(node)
            return [self.tensor_value(graph.tensors[i], "the graph's outputs") for i in graph.outputs]
        finally:
            self.active.pop()
            self.graph, self.values = outer

    def check_operators(self) -> None:
        used = [(n.operator, self.node_name(n, g), n.version, "") for g in called_graphs(self.graphs) for n in g.nodes]
        CONVERTERS.check_all(used, self.is_known)

    def is_known(self, name: str, version: int, domain: str) -> bool:
        """Return whether an operator without a converter in the table is supported in another way."""
        return QUANTIZED.find(name, version) is not None or converter_key(name) in self.converters[0].convert_map

    def node_name(self, node: Node, graph: Graph | None = None) -> str:
        """Return a name of an operator: that of its first output, because operators of the format have no names."""
        tensors = (graph or self.graph).tensors
        return next((tensors[i].name for i in node.outputs if i >= 0), f"operator {node.index}")

    # -- state ----------------------------------------------------------------------------------------------------

    def add_operator_states(self) -> None:
        """Create the states of operators before any graph is converted: states of nested graphs are inputs of the
        model.
        """
        for graph in called_graphs(self.graphs):
            used = {i for n in graph.nodes for i in n.inputs if i >= 0 and graph.tensors[i].is_variable}
            for index in sorted(used):
                tensor = graph.tensors[index]
                check_count(f"the state '{tensor.name}'", tensor.shape)
                zero = int(tensor.quantization.zero_point[0]) if tensor.dtype == "int8" and tensor.quantization else 0
                self.add_state((graph.index, index), tensor.name, np.full(tensor.shape, zero, tensor.dtype))

    def add_state(self, key, name: str, first: np.ndarray) -> None:
        """Add state of the model: an input, and an output after those of the model."""
        taken = {v.name_hint for v in self.inputs}
        name = name or "variable"
        free = next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(taken) + 2))) if n not in taken)
        self.states[key] = self.variables[key] = self.add_input(free, first.shape, str(first.dtype))
        self.initial[free] = ndarray.array(first)

    def next_state(self, key) -> RelayExpr:
        before, after = self.states[key], self.variables[key]
        if not structural_equal(self.typer.typed(after).checked_type_, before.type_annotation):
            raise TVMError(
                f"the state '{before.name_hint}' has type {before.type_annotation} before a run and "
                f"{after.checked_type_} after it; the types must be equal"
            )
        return after

    # -- values ---------------------------------------------------------------------------------------------------

    def check_names(self) -> None:
        names = [self.graph.tensors[i].name for i in self.graph.inputs]
        for given in (self.shapes, self.dtypes):
            unknown = [n for n in given if n not in names]
            if unknown:
                raise UnknownInput(
                    f"the model has no input '{unknown[0]}'; its inputs are {', '.join(sorted(names))}"
                    + did_you_mean(unknown[0], names, "; ")
                )
        doubled = {n for n in names if names.count(n) > 1} if len(names) < 1000 else set()
        if doubled or len(set(names)) < len(names):
            raise TVMError(f"two inputs of the model have the name '{min(doubled, default='')}'; names must be unique")

    def input(self, tensor: Tensor):
        dims = list(tensor.shape)
        if tensor.name in self.shapes:
            given = self.shapes[tensor.name]
            try:
                dims = [d if isinstance(d, Any_) else operator.index(d) for d in given]
            except TypeError as problem:
                words = f"the shape of input '{tensor.name}' must be a list of integers, got {given!r}"
                raise TVMError(words) from problem
            if any(isinstance(d, int) and d < 0 for d in dims):
                raise TVMError(f"the shape {dims} of input '{tensor.name}' has a negative dimension")
            if tensor.shape and len(dims) != len(tensor.shape):
                raise TVMError(
                    f"the shape of input '{tensor.name}' has {len(dims)} dimensions, but the model declares "
                    f"{len(tensor.shape)}"
                )
        dtype = tensor.dtype
        if self.dtypes.get(tensor.name, dtype) != dtype:
            raise TVMError(
                f"input '{tensor.name}' has type {dtype}, but dtype_dict contains {self.dtypes[tensor.name]}"
            )
        return self.add_input(tensor.name, dims, dtype)

    def tensor_value(self, tensor: Tensor, where: str) -> RelayExpr:
        """Return the value of a tensor: the output of an operator, a constant, or the state of an operator."""
        if tensor.is_variable and (self.graph.index, tensor.index) in self.variables:
            return self.variables[self.graph.index, tensor.index]
        if tensor.index not in self.values:
            if tensor.data is not None:
                found = tensor.array()
            elif 0 in tensor.shape:
                found = np.zeros(tensor.shape, tensor.dtype)
            else:
                raise TVMError(
                    f"{where} uses '{tensor.name}', which is neither an input, a constant nor the output of an operator"
                )
            self.values[tensor.index] = self.typer.infer(Constant(found))
        return self.values[tensor.index]

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        name = self.node_name(node)
        where = self.where(node)
        with self.at_node(where, name, lambda problem: in_words(node, problem)):
            got = self.converters[self.graph.index].convert_map[converter_key(node.operator)](node)
            results = [got] if isinstance(got, (RelayExpr, Resource)) else list(got)
            if len(results) < len(node.outputs):
                raise TVMError(f"the node has {len(node.outputs)} outputs; only {len(results)} are supported")
            for index, value in zip(node.outputs, results):
                if index >= 0:
                    if index in self.values:
                        raise TVMError(f"tensor '{self.graph.tensors[index].name}' is the output of two operators")
                    self.values[index] = value if isinstance(value, Resource) else self.typer.infer(value)

    def where(self, node: Node) -> str:
        """Return the description of an operator in errors."""
        return f"{node.operator} '{self.node_name(node)}'"

    def convert(self, node: Node):
        """Convert an operator by the tables and return its outputs."""
        where = self.where(node)
        context = Context(self, node, self.graph.tensors, where)
        inputs = [None if t is None else self.tensor_value(t, where) for t in context.tensors]
        plain = CONVERTERS.find(node.operator, node.version)
        if not context.is_quantized:
            if plain is None:
                raise TVMError("the operator is supported only for quantized tensors")
            return plain(context, inputs, node.options)
        exact = QUANTIZED.find(node.operator, node.version)
        if exact is not None:
            return exact(context, inputs, node.options)
        if node.operator in MOVING and _same_parameters(context):
            return plain(context, inputs, node.options)
        if node.operator in TABLED and context.tensor(0).dtype in ("int8", "uint8"):
            return self.table(context, plain, inputs)
        return self.through_reals(context, plain, inputs)

    def table(self, context: Context, convert, inputs: list) -> RelayExpr:
        """Convert an operator on single 8-bit elements to a table of its 256 outputs."""
        tensor = context.tensor(0)
        low, high = RANGES[tensor.dtype]
        every = to_real(Constant(np.arange(low, high + 1).astype(tensor.dtype)), tensor, 1)
        reals = convert(context, [every, *inputs[1:]], context.node.options)
        entries = to_integers(reals, context.result(), inverse=True)
        return looked_up(inputs[0], context.array(entries, "the table"), tensor.dtype)

    def through_reals(self, context: Context, convert, inputs: list) -> list:
        """Convert an operator by dequantizing its inputs and quantizing its outputs."""
        reals = [
            to_real(x, t, context.rank(x)) if x is not None and is_quantized(t) else x
            for x, t in zip(inputs, context.tensors)
        ]
        got = convert(context, reals, context.node.options)
        results = list(got) if isinstance(got, (list, tuple, TupleWrapper)) else [got]
        return [
            to_integers(x, t) if is_quantized(t) and context.is_float(self.typer.infer(x)) else x
            for x, t in zip(results, context.results)
        ]


def called_graphs(graphs: list[Graph]) -> list[Graph]:
    """Return the main graph and the graphs that it calls."""
    found, seen = [graphs[0]], {0}
    for graph in found:
        for node in graph.nodes:
            for name, index in vars(node.options).items():
                if name.endswith("subgraph_index") and 0 <= index < len(graphs) and index not in seen:
                    seen.add(index)
                    found.append(graphs[index])
    return found


def _same_parameters(context: Context) -> bool:
    """Return whether all quantized inputs and outputs have the same scale and zero point."""
    found = [t.quantization for t in (*context.tensors, *context.results) if is_quantized(t)]
    return all(np.array_equal(q.scale, found[0].scale) for q in found) and all(
        np.array_equal(q.zero_point, found[0].zero_point) for q in found
    )


def in_words(node: Node, problem: Exception) -> str:
    """Return a message for an error in a converter."""
    if isinstance(problem, MemoryError):
        return "not enough memory"
    given = len([i for i in node.inputs if i >= 0])
    shown = ", ".join(f"{k}={v}" for k, v in vars(node.options).items())
    return f"with {given} inputs and options ({shown}): {problem or type(problem).__name__}"


def from_tflite(
    model, shape_dict=None, dtype_dict=None, op_converter=OperatorConverter, hybrid="litert"
) -> tuple[IRModule, dict[str, Any]]:
    """Convert a TFLite model to a module and the initial values of its state.

    Weights become constants. Neither TensorFlow nor the ``tflite`` package is needed. Data keeps the channels-last
    layout. Quantized operators are bit-exact with LiteRT's reference kernels. State that a model keeps between runs
    (variables, the state of recurrent layers) becomes an additional input of the module, and an output after those of
    the model; the parameters are its initial values. If the parameters are passed to ``relay.build``, every run begins
    with them.

    Parameters
    ----------
    model : tflite.Model, bytes or str
        The model: an object of the ``tflite`` package, the bytes of a file, or its path.
    shape_dict : dict of str to tuple, optional
        Shapes of inputs by name, instead of those in the model.
    dtype_dict : dict of str to str, optional
        Types of inputs by name; they must equal those of the model.
    op_converter : type, optional
        A class derived from OperatorConverter, with custom converters.
    hybrid : {"litert", "builtin", "float"}, optional
        How matmuls and convolutions of float activations with integer weights (dynamic-range quantization) are
        computed. ``litert`` quantizes the activations as LiteRT does with its default delegate XNNPACK; ``builtin``
        does so as LiteRT's built-in kernels do, symmetrically unless the model specifies otherwise; ``float`` does not
        quantize activations, which is closest to the model before the quantization of its weights.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and the initial values of its state by name.

    Raises
    ------
    TypeError
        ``model`` is none of these, or ``shape_dict`` or ``dtype_dict`` is not a dictionary.
    TVMError
        The file is damaged, an operator cannot be converted, or ``hybrid`` is none of these.
    OpNotImplemented
        The model contains operators without a converter; the message lists all of them.
    """
    for what, given in (("shape_dict", shape_dict), ("dtype_dict", dtype_dict)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"from_tflite: {what} must be a dictionary with input names as keys, got {type(given).__name__}"
            )
    if hybrid not in HYBRID:
        raise TVMError(f"from_tflite: hybrid must be one of {', '.join(HYBRID)}, got {hybrid!r}")
    # Scales in a damaged file can be any numbers; values computed from them are checked or clipped.
    with np.errstate(all="ignore"):
        return Importer(load(model_bytes(model)), shape_dict, dtype_dict, op_converter, hybrid).run()


__all__ = ["Importer", "from_tflite", "model_bytes"]
