"""Convert an ONNX model to a module: check the whole graph, then convert it node by node."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ...expr import ORIGIN, RelayExpr, Tuple, TupleWrapper, Var
from ...op import reshape
from ..common.context import NodeContext
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from ..common.incremental import as_tensor
from .check import (
    MOST_NODES,
    check_functions,
    check_operators,
    check_text,
    full_name,
    in_order,
    node_name,
    opset_table,
    signature_fault,
    version_of,
    where_of,
)
from .declared import declared_rank, declared_shapes
from .dynamic_dims import named_sizes, sizes_of
from .external import Folder
from .functions import function_body, resolved
from .lists import Lists
from .load import ModelFile, load_file, onnx_dtype, sparse_array, tensor_array
from .loops import convert_both_sides, first_choice, of_rank, ranks_of
from .quantize import MOVES_ELEMENTS, applied_to_integers
from .rename import save_renamed
from .sequence_ops import TAKE_SEQUENCES
from .small_types import KNOWING, MOVING, STRING, WITH_STRINGS, SmallType, small_type
from .table import CONVERTERS, Context, attribute_values
from .values import Choice, Nothing, Sequence, is_list, is_tensor, mapped

# The operator set that the importer was written for; newer models are imported if all of their operators are supported.
NEWEST_OPSET = 28
# Maximum nesting of function calls; each call is a recursive conversion.
DEEPEST = 100


def from_onnx(
    model,
    shape=None,
    dtype="float32",
    opset=None,
    freeze_params=True,
    convert_config=None,
    export_node_renamed_model_path=None,
) -> tuple[IRModule, dict[str, Any]]:
    """Convert an ONNX model (a ModelProto, or the path of a file) to a module and its parameters.

    ``shape`` gives the shapes of inputs with dynamic dimensions by name. With ``freeze_params`` (the default), weights
    become constants; otherwise they are inputs, and the second return value contains their values. ``convert_config``
    can contain ``use_nt_batch_matmul``: whether the right operand of a batched matmul is transposed first.
    ``export_node_renamed_model_path`` is a folder, or a file name ending in .onnx, where the model is written with a
    name for each node.

    Parameters
    ----------
    model : ModelProto or str
        The model.
    shape : dict of str to tuple, optional
        Shapes of inputs by name.
    dtype : str or dict of str to str, optional
        The type of inputs for which the model declares none.
    opset : int, optional
        The operator set version, instead of the one in the model.
    freeze_params : bool, optional
        Whether weights become constants.
    convert_config : dict, optional
        Options of converters.
    export_node_renamed_model_path : str, optional
        The file or folder to which the model with names for all nodes is written.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and the values of its parameters by name.

    Raises
    ------
    TypeError
        ``model`` is neither a ModelProto nor a path, or ``shape`` is not a dictionary.
    TVMError
        The model has no graph.
    OpNotImplemented
        The model contains operators without a converter; the message lists all of them.

    Examples
    --------
    >>> info = onnx.helper.make_tensor_value_info
    >>> x, y = info("x", 1, [2]), info("y", 1, [2])
    >>> graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    >>> mod, params = relay.frontend.from_onnx(onnx.helper.make_model(graph))
    >>> mod["main"].body.op.name
    'nn.relu'
    """
    import onnx

    if isinstance(model, (str, os.PathLike)):
        model = load_file(model)
    model, folder = model if isinstance(model, ModelFile) else (model, None)
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"from_onnx: model must be a ModelProto or a path, got {type(model).__name__}")
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_onnx: shape must be a dictionary from input names to shapes, got {type(shape).__name__}")
    if not model.HasField("graph") or not model.graph.node and not model.graph.output:
        raise TVMError("from_onnx: the model has no graph")
    check_text(model)
    importer = Importer(model, folder, shape, dtype, opset, freeze_params, convert_config or {})
    result = importer.run()
    if export_node_renamed_model_path:
        save_renamed(model, folder, export_node_renamed_model_path)
    return result


def _dims(name: str, dims) -> list:
    """Check a shape that the caller passed and return it as a list."""
    try:
        return [d if isinstance(d, Any_) else operator.index(d) for d in dims]
    except TypeError as problem:
        raise TVMError(f"the shape of input '{name}' must be a list of integers, got {dims!r}") from problem


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(
        self, model, folder: Folder | None, shape: Mapping | None, dtype, opset, freeze: bool, config: Mapping
    ):
        super().__init__(freeze)
        self.model = model
        self.folder = folder
        self.shape = {name: _dims(name, dims) for name, dims in (shape or {}).items()}
        # Sizes of named dynamic dimensions, from the given shapes.
        self.sizes: dict[str, int] = {}
        self.dtype = dtype
        unknown = sorted(set(config) - {"use_nt_batch_matmul"})
        if unknown:
            raise TVMError(
                f"from_onnx: unknown key '{unknown[0]}' in convert_config; the valid key is use_nt_batch_matmul"
            )
        self.config = config
        self.opsets = opset_table(model.opset_import)
        if opset is not None:
            self.opsets[""] = int(opset)
        self.functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        self.depth = 0
        # Number of converted nodes of functions, branches and loops.
        self.written_out = 0
        # Dequantized values, by id, with the integers from which they were computed.
        self.integers: dict[int, tuple[Any, Any]] = {}
        # Scaled integer sums, by id, with the sums and their scale.
        self.sums: dict[int, tuple[Any, Any]] = {}
        # Values of a small type stored in a wider type, by id; see small_types.py.
        self.small: dict[int, tuple[Any, SmallType]] = {}
        # Iteration numbers of loops; they are never negative.
        self.counters: set[Var] = set()
        # Data types and functions of sequences whose length is known at run time.
        self.lists = Lists(self)
        # Shapes that the model declares for values; see declared.py.
        self.declared: dict[str, tuple[int, ...]] = {}

    @property
    def opset(self) -> int:
        return self.opsets.get("", 1)

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        graph = self.model.graph
        check_operators(graph, self.functions, self.opsets, self.local_function)
        check_functions(graph, self.functions, self.local_function)
        values = self.scopes[0]
        self.weights(graph)
        given = {v.name for v in graph.input if v.name not in values}
        unknown = [n for n in self.shape if n not in given and n not in values]
        if unknown:
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(sorted(given))}"
                + did_you_mean(unknown[0], given, "; ")
            )
        inputs = [v for v in graph.input if v.name not in values]
        self.sizes = named_sizes(inputs, self.shape)
        for value in inputs:
            self.input(value)
        self.declared = declared_shapes(graph)
        self.nodes(graph.node)
        outputs = [self.result(o) for o in graph.output]
        if not outputs:
            raise TVMError("from_onnx: the graph has no outputs")
        return self.finish(outputs)

    def result(self, output) -> RelayExpr:
        """Return an output of the model; a sequence of static length becomes a tuple of its tensors."""
        value = self.value(output.name, "the graph's outputs")
        if isinstance(value, Choice):
            context, rank = NodeContext(self, f"output '{output.name}'"), declared_rank(output)
            ranks = ranks_of(context, value)
            value = of_rank(context, value, min(ranks) if rank < 0 and len(ranks) == 1 else rank)
        if isinstance(value, Choice):
            raise TVMError(
                f"output '{output.name}': its number of dimensions is known only at run time; this is not supported"
            )
        if isinstance(value, Nothing):
            return self.lists.expression(value, self.lists.settled(self.lists.type_of(value)))
        return Tuple([*value.items]) if isinstance(value, Sequence) else as_tensor(value)

    def local_function(self, node):
        return self.functions.get((node.domain, node.op_type, getattr(node, "overload", "")))

    # -- values ---------------------------------------------------------------------------------------------------

    def weights(self, graph) -> None:
        for tensor in graph.initializer:
            self.weight(tensor.name, tensor_array(tensor, self.folder))
            self.carried(tensor.name, small_type(tensor.data_type))
        for sparse in graph.sparse_initializer:
            self.weight(sparse.values.name, sparse_array(sparse, self.folder))

    def carried(self, name: str, kind: SmallType | None) -> None:
        """Record that a value has a small type stored in a wider type."""
        if kind is not None:
            made = self.scopes[-1][name]
            self.small[id(made)] = (made, kind)

    def input(self, value) -> None:
        if not value.type.HasField("tensor_type"):
            t = self.lists.declared(value.type, self.shape.get(value.name), value.name)
            self.scopes[-1][value.name] = self.add_typed_input(value.name, t)
            return
        t = value.type.tensor_type
        by_name = isinstance(self.dtype, Mapping)
        dtype = self.dtype.get(value.name) if by_name else None
        dtype = dtype or (onnx_dtype(t.elem_type) if t.elem_type else "float32" if by_name else self.dtype)
        scalar = t.HasField("shape") and not t.shape.dim
        if value.name in self.shape:
            dims = list(self.shape[value.name])
            if not (scalar and dims == [1]):
                self.check_shape(value, dims)
        elif not t.HasField("shape"):
            raise MissingShape(f"the model declares no shape for input '{value.name}'", value.name)
        else:
            dims = [self.sizes.get(d, Any_(d)) if isinstance(d, str) else d for d in sizes_of(value)]
            dims = [Any_("any") if d is None else d for d in dims]
        variable = self.add_input(value.name, dims, dtype)
        # A scalar input can be passed as a vector of one element.
        self.scopes[-1][value.name] = self.typer.infer(reshape(variable, ())) if scalar and dims else variable
        self.carried(value.name, small_type(t.elem_type))

    def check_shape(self, value, dims: list) -> None:
        t = value.type.tensor_type
        if t.HasField("shape") and len(t.shape.dim) != len(dims):
            raise TVMError(
                f"the shape of input '{value.name}' has {len(dims)} dimensions, but the model declares "
                f"{len(t.shape.dim)}"
            )
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise TVMError(f"the shape {dims} of input '{value.name}' has a negative dimension")

    # -- nodes ----------------------------------------------------------------------------------------------------

    def nodes(self, nodes) -> None:
        """Convert nodes in topological order.

        The span of the converted expressions has the name of the node; inside a function body it is prefixed by the
        name of the call.
        """
        outer = ORIGIN.get()
        inside = f"{outer.source_name}/" if self.depth and outer is not None else ""
        if self.depth or len(self.scopes) > 1:
            self.written_out += len(nodes)
            if self.written_out > MOST_NODES:
                raise TVMError(f"functions, branches and loops have more than {MOST_NODES} nodes after inlining")
        for node in in_order(nodes):
            where = where_of(node)
            inputs = [None if not i else self.value(i, where) for i in node.input]
            while inputs and inputs[-1] is None:
                inputs.pop()
            context = Context(self, node, version_of(node, self.opsets), where)
            with self.at_node(where, inside + node_name(node), partial(in_words, context)):
                context.attributes, context.inputs = attribute_values(node), inputs
                self.node(context, inputs)

    def node(self, context: Context, inputs: list) -> None:
        node = context.node
        self.outputs(node, self.results(context, inputs))
        for name in filter(None, node.output):
            self.carried(name, context.made_small)
        for known, found in ((self.integers, context.integers), (self.sums, context.sums)):
            if found is not None:
                made = self.scopes[-1][node.output[0]]
                known[id(made)] = (made, found)

    def results(self, context: Context, inputs: list) -> list:
        """Convert a node; if the rank of an input is known at run time, convert it for each possible rank."""
        choice = first_choice(inputs)
        if choice is not None:
            results = convert_both_sides(context, choice, inputs, partial(self.results, context))
            # The properties that converters recorded about outputs apply to one side only.
            context.integers = context.sums = context.made_small = None
            return results
        node = context.node
        other = next((i for i in inputs if i is not None and not is_tensor(i)), None)
        if other is not None and node.op_type not in TAKE_SEQUENCES and self.local_function(node) is None:
            kind = "a sequence" if isinstance(other, Sequence) or is_list(other) else "an optional"
            raise TVMError(f"an input is {kind}; the operator supports only tensors")
        self.check_small(context, inputs)
        context.inputs = inputs
        got = self.convert(context, inputs)
        many = isinstance(got, (list, TupleWrapper)) or type(got) is tuple
        return [v if v is None else self.inferred(v) for v in (got if many else [got])]

    def check_small(self, context: Context, inputs: list) -> None:
        """Reject small types in operators that compute; operators that only move elements pass the type on."""
        kinds = {k for k in map(context.small, inputs) if k is not None}
        if not kinds:
            return
        node = context.node
        if STRING in kinds and node.op_type not in WITH_STRINGS and self.local_function(node) is None:
            raise TVMError(
                "the operator does not support strings, which can only be moved, compared and looked up in tables"
            )
        if STRING in kinds and node.op_type == "Equal" and any(context.small(i) is not STRING for i in inputs):
            raise TVMError("strings can be compared only with strings")
        if node.op_type in MOVING:
            context.made_small = context.small(inputs[0])
        elif STRING not in kinds and node.op_type not in KNOWING and self.local_function(node) is None:
            name = min(kinds).name
            raise TVMError(f"the operator does not support {name} tensors; cast them to another type first")

    def convert(self, context: Context, inputs: list):
        node = context.node
        local = self.local_function(node)
        if local is not None:
            return self.function(local, inputs, node.attribute)
        convert = CONVERTERS.find(full_name(node), context.version)
        if convert is not None:
            full = partial(convert, context, attrs=context.attributes)
            moved = applied_to_integers(context, inputs, full) if node.op_type in MOVES_ELEMENTS else None
            return full(inputs) if moved is None else moved
        body = function_body(node, context.version, inputs)
        if body is None:
            raise TVMError("the operator is not supported with these inputs")
        return self.function(body, inputs, node.attribute)

    def outputs(self, node, results: list) -> None:
        if len(results) < len([o for o in node.output if o]):
            raise TVMError(f"the node has {len(node.output)} outputs; only {len(results)} are supported")
        for name, value in zip(node.output, results):
            if name:
                if value is None:
                    raise TVMError(f"output '{name}' is not supported")
                self.scopes[-1][name] = value

    def inferred(self, value):
        return mapped(value, self.typer.infer)

    def captured(self, scope, value):
        if isinstance(value, Choice):
            raise TVMError(
                "a loop uses a tensor whose number of dimensions is known only at run time; this is not supported"
            )
        kept = self.small.get(id(value))
        found = mapped(value, partial(super().captured, scope))
        if kept is not None:
            self.small[id(found)] = (found, kept[1])
        return found

    # -- nested graphs ----------------------------------------------------------------------------------------------

    def subgraph(self, graph, inputs: list) -> list:
        """Convert a graph that is an attribute, for the given inputs, and return its outputs."""
        declared, self.declared = self.declared, declared_shapes(graph)
        try:
            with self.inner_scope() as values:
                self.weights(graph)
                for value, given in zip(graph.input, inputs):
                    values[value.name] = given
                self.nodes(graph.node)
                found = [self.value(o.name, "the nested graph's outputs") for o in graph.output]
            inner = NodeContext(self, "the nested graph")
            return [of_rank(inner, v, declared_rank(o)) for v, o in zip(found, graph.output)]
        finally:
            self.declared = declared

    def function(self, body, inputs: list, attributes) -> list:
        """Convert a function's body and return its outputs; only its inputs and the attributes of its call are in
        scope.
        """
        outer, sets, declared = self.scopes, self.opsets, self.declared
        self.depth += 1
        if self.depth > DEEPEST:
            raise TVMError(f"function calls are nested more than {DEEPEST} levels deep")
        self.scopes, self.declared = [{}], {}
        self.opsets = {**sets, **opset_table(body.opset_import)}
        try:
            for i, name in enumerate(body.input):
                self.scopes[-1][name] = inputs[i] if i < len(inputs) else None
            given = {a.name: a for a in (*body.attribute_proto, *attributes)}
            self.nodes([resolved(n, given) for n in body.node])
            # A body can omit outputs that the call does not use.
            return [self.scopes[-1].get(o) for o in body.output]
        finally:
            self.scopes, self.opsets, self.declared = outer, sets, declared
            self.depth -= 1


def in_words(context: Context, problem: Exception) -> str:
    """Return a message for an error in a converter."""
    if isinstance(problem, MemoryError):
        return "not enough memory"
    if isinstance(problem, RecursionError):
        return "nested graphs are too deep"
    fault = signature_fault(context.node, context.version)
    if fault:
        return fault
    if isinstance(problem, KeyError):
        return f"attribute {problem} is missing or has an unknown value"
    given = len([i for i in context.node.input if i])
    return f"with {given} inputs and attributes {sorted(context.attributes)}: {problem or type(problem).__name__}"


__all__ = ["Importer", "from_onnx", "load_file"]
