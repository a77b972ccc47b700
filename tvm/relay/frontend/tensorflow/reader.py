"""Import of a TensorFlow graph: the nodes that the outputs need are collected, checked and converted in dependency
order.

Function calls are inlined.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ...expr import Constant, RelayExpr, TupleWrapper
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from ..common.input_shapes import dimensions, given_shape
from . import frames
from .graph import MOST_NODES, Body, Called, Library, Node, Ref, ref_of
from .load import DEFAULT, Loaded, load
from .table import CONVERTERS, HOST, Context
from .tensors import plain_dtype, shape_of
from .variables import Variables

# Maximum nesting of function calls.
_MOST_CALLS = 64
_INPUTS = ("Placeholder", "PlaceholderV2", "IteratorGetNext", "IteratorV2", "OneShotIterator")
_OPTIONS = ("use_dense", "use_nt_batch_matmul")
# Convolutions and the rank of their weights; the last axis but one of the weights is the input channels of one group.
_CONVOLUTIONS = {"Conv2D": 4, "DepthwiseConv2dNative": 4, "Conv3D": 5}


class Scope:
    """The values of a body that is being converted: for each node, a list of its outputs."""

    def __init__(self, body: Body, values: dict[str, list] | None = None, depth: int = 0):
        self.body, self.depth = body, depth
        self.values: dict[str, list] = {} if values is None else values


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(self, loaded: Loaded, shapes: Mapping | None, options: Mapping):
        super().__init__()
        self.main = Body("main", loaded.graph.node, [], [])
        self.library = Library(loaded.graph)
        self.variables = Variables(self.main, self.library, loaded.checkpoint, loaded.restore)
        self.entries = loaded.entries
        self.shapes = dict(shapes or {})
        self.config = options
        self.constants: dict[str, RelayExpr] = {}
        self.converted = 0
        # The names that users give to inputs of the model, by node and output.
        self.named: dict[tuple[str, int], tuple[str, Any]] = {}

    def run(self, outputs) -> tuple[IRModule, dict[str, Any]]:
        wanted = self.outputs(outputs)
        scope = Scope(self.main)
        self.check_operators([r.node for r in wanted])
        self.add_inputs(scope, self.reached(self.main, [r.node for r in wanted]))
        self.evaluate(scope, [r.node for r in wanted])
        found = [self.result(scope, r, "the outputs") for r in wanted]
        for ref, value in zip(wanted, found):
            if not isinstance(value, RelayExpr):
                raise TVMError(f"the output '{ref.node}' is not a tensor")
        return self.finish(found)

    # -- outputs --------------------------------------------------------------------------------------------------

    def outputs(self, given) -> list[Ref]:
        """Return the outputs of the model: those that the caller names, those of a signature, or the nodes without
        users.
        """
        names = [given] if isinstance(given, str) else list(given or [])
        if not names and self.entries:
            if DEFAULT not in self.entries and len(self.entries) > 1:
                raise TVMError(
                    f"the SavedModel has no signature '{DEFAULT}'; set outputs to one of {sorted(self.entries)}"
                )
            names = [DEFAULT if DEFAULT in self.entries else next(iter(self.entries))]
        if not names:
            return self.last_nodes()
        if len(names) == 1 and names[0] in self.entries:
            entry = self.entries[names[0]]
            self.name_inputs(entry)
            return [ref_of(p.value.name) for p in sorted(entry.outputs, key=lambda p: p.key)]
        if DEFAULT in self.entries:
            self.name_inputs(self.entries[DEFAULT])
            known = {p.key: p.value.name for p in self.entries[DEFAULT].outputs}
            names = [known.get(n, n) for n in names]
        refs = [ref_of(n) for n in names]
        for ref in refs:
            if ref.node not in self.main.nodes:
                hint = did_you_mean(ref.node, [*self.main.nodes, *self.entries], "; ")
                raise TVMError(f"the model has no output '{ref.node}'{hint}")
        return refs

    def name_inputs(self, entry) -> None:
        for pair in entry.inputs:
            ref = ref_of(pair.value.name)
            self.named[ref.node, ref.port] = (pair.key, pair.value)

    def last_nodes(self) -> list[Ref]:
        used = {r.node for n in self.main.nodes.values() for r in n.inputs}
        used.update(c for n in self.main.nodes.values() for c in n.controls)
        last = [n for n in self.main.nodes.values() if n.name not in used and n.op not in ("NoOp", "Const", "Assert")]
        if not last:
            raise TVMError("cannot infer the outputs: all nodes have users; pass the names of the outputs")
        return [Ref(n.name, 0) for n in last]

    # -- operators ------------------------------------------------------------------------------------------------

    def reached(self, body: Body, names: list[str]) -> dict[str, Node]:
        """Return the nodes that the given nodes depend on, in the order of the file."""
        found: dict[str, Node] = {}
        work = list(names)
        while work:
            name = work.pop()
            if name in found or name in body.arguments and name not in body.nodes:
                continue
            node = found[name] = body.node(name, f"the graph '{body.name}'")
            work += [r.node for r in node.inputs]
            work += [c for c in node.controls if c in body.nodes]
        return {n: found[n] for n in body.nodes if n in found}

    def check_operators(self, names: list[str]) -> None:
        used, seen, work = [], set(), [(self.main, names)]
        while work:
            body, wanted = work.pop()
            for node in self.reached(body, wanted).values():
                used.append((node.op, node.name, 0, ""))
                called = [node.op] if node.op in self.library.functions else []
                for value in node.attrs.values() if node.op not in ("Const", "Placeholder") else ():
                    for part in value if isinstance(value, list) else [value]:
                        called += [part.name] if isinstance(part, Called) else []
                for name in called:
                    if name not in seen:
                        seen.add(name)
                        inner = self.library.body(name)
                        work.append((inner, [r.node for r in inner.results]))
        known = {*self.library.functions, *_INPUTS, *frames.OPERATORS}
        CONVERTERS.check_all(used, lambda name, *rest: name in known)

    # -- inputs ---------------------------------------------------------------------------------------------------

    def add_inputs(self, scope: Scope, nodes: dict[str, Node]) -> None:
        known = []
        for node in nodes.values():
            asked = node.name in self.shapes or (node.name, 0) in self.named
            if node.op not in _INPUTS and not (node.op == "PlaceholderWithDefault" and asked):
                continue
            with self.at_node(f"{node.op} '{node.name}'", node.name, partial(_in_words, node)):
                scope.values[node.name] = self.node_inputs(node, known)
        unknown = [n for n in self.shapes if n not in known]
        if unknown:
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(sorted(known))}"
                + did_you_mean(unknown[0], known, "; ")
            )

    def node_inputs(self, node: Node, known: list[str]) -> list:
        """Return the model inputs that one node defines, and add their names to ``known``."""
        types = node.attrs.get("output_types") or [node.attrs.get("dtype")]
        shapes = node.attrs.get("output_shapes") or [node.attrs.get("shape")] * len(types)
        values = []
        for i, (dtype, dims) in enumerate(zip(types, shapes)):
            name, info = self.named.get((node.name, i), (f"{node.name}:{i}" if i else node.name, None))
            if info is not None and info.HasField("tensor_shape"):
                dims = shape_of(info.tensor_shape)
            if dims is None and name not in self.shapes:
                dims = _dims_of_weights(Ref(node.name, i), self.main.nodes)
            known.append(name)
            values.append(self.input(name, dims, dtype))
        return values

    def input(self, name: str, dims, dtype: str | None):
        if dtype is None:
            raise TVMError(f"input '{name}' has no element type")
        if name in self.shapes:
            dims = given_shape(name, self.shapes[name], dims or None)
        if dims is None:
            raise MissingShape(f"the model declares no shape for input '{name}'", name)
        return self.add_input(name, dimensions(name, dims), plain_dtype(dtype))

    # -- nodes ----------------------------------------------------------------------------------------------------

    def evaluate(self, scope: Scope, names: list[str]) -> None:
        """Convert the given nodes and their dependencies, each once."""
        work: list[tuple[str, bool]] = [(n, False) for n in reversed(names)]
        open_nodes: set[str] = set()
        while work:
            name, ready = work.pop()
            if name in scope.values:
                continue
            node = scope.body.node(name, f"the graph '{scope.body.name}'")
            if ready:
                open_nodes.discard(name)
                self.convert_node(scope, node)
                continue
            if name in open_nodes:
                raise TVMError(f"the graph has a cycle through '{name}'")
            open_nodes.add(name)
            work.append((name, True))
            work += [(n, False) for n in reversed(frames.needs(scope.body, node)) if n not in scope.values]

    def result(self, scope: Scope, ref: Ref, where: str):
        """Return the value of an output of a converted node."""
        node = scope.body.nodes.get(ref.node)
        number = ref.port if node is None else node.number(ref)
        values = scope.values[ref.node]
        if not 0 <= number < len(values):
            raise TVMError(f"'{ref.node}' has no output {number}, which {where} uses")
        return values[number]

    def convert_node(self, scope: Scope, node: Node) -> None:
        where = f"{node.op} '{node.name}'"
        self.converted += 1
        if self.converted > MOST_NODES:
            raise TVMError(f"the model has more than {MOST_NODES} nodes after inlining functions and unrolling loops")
        context = Context(self, node, scope, where)
        with self.at_node(where, node.name, partial(_in_words, node)):
            if frames.converts(node):
                results = frames.convert(context)
            else:
                results = self.converted_values(context)
            scope.values[node.name] = [self.typer.infer(v) if isinstance(v, RelayExpr) else v for v in results]

    def converted_values(self, ctx: Context) -> list:
        node = ctx.node
        inputs = [self.result(ctx.scope, r, ctx.where) for r in node.inputs]
        if node.op in self.library.functions:
            return self.call(node.op, inputs, ctx.scope.depth)
        others = [v for v in inputs if not isinstance(v, RelayExpr)]
        if others and node.op not in HOST:
            raise TVMError(f"an input is {in_words(others[0])}, which the operator does not support")
        convert = CONVERTERS.find(node.op, 0)
        if convert is None:
            raise TVMError("the operator is not supported in this place")
        got = convert(ctx, inputs, node.attrs)
        if isinstance(got, TupleWrapper):
            return list(got)
        return list(got) if isinstance(got, (list, tuple)) and not hasattr(got, "_fields") else [got]

    def call(self, name: str, arguments: list, depth: int) -> list:
        """Inline a function and return its outputs."""
        body = self.library.body(name)
        if len(arguments) != len(body.arguments):
            raise TVMError(
                f"the function '{name}' has {len(body.arguments)} arguments, but is called with {len(arguments)}"
            )
        if depth >= _MOST_CALLS:
            raise TVMError(f"function calls are nested more than {_MOST_CALLS} levels deep")
        scope = Scope(body, {a: [v] for a, v in zip(body.arguments, arguments)}, depth + 1)
        self.evaluate(scope, [r.node for r in body.results])
        return [self.result(scope, r, f"the function '{name}'") for r in body.results]

    def variable(self, name: str) -> RelayExpr:
        """Return the value of a variable; all readers share one constant."""
        if name not in self.constants:
            self.constants[name] = self.typer.infer(Constant(self.variables.value(name)))
        return self.constants[name]


def in_words(value) -> str:
    """Return a description of a value that is not a tensor, for messages."""
    return {"Text": "text", "Handle": "a variable or a table", "TensorList": "a list of tensors"}.get(
        type(value).__name__, "no tensor"
    )


def _dims_of_weights(ref: Ref, nodes: Mapping[str, Node]) -> list[int] | None:
    """Infer static dimensions of an input without a declared shape from the weights of a convolution or matmul that
    uses it.

    Other dimensions are -1. Return None if the input has no such user.
    """
    for user in nodes.values():
        if user.inputs[:1] != [ref] or len(user.inputs) < 2 or user.op not in (*_CONVOLUTIONS, "MatMul"):
            continue
        weight = nodes.get(user.inputs[1].node)
        if weight is not None and weight.op == "Identity" and weight.inputs:
            # Frozen graphs read each weight through an Identity.
            weight = nodes.get(weight.inputs[0].node)
        dims = shape_of(weight.attrs["value"].tensor_shape) if weight is not None and weight.op == "Const" else None
        if not dims:
            continue
        if user.op in _CONVOLUTIONS and len(dims) == _CONVOLUTIONS[user.op]:
            sizes = [-1] * len(dims)
            sizes[-1 if str(user.attrs.get("data_format", "NHWC")).endswith("C") else 1] = dims[-2]
            return sizes
        if user.op == "MatMul" and len(dims) == 2:
            size = dims[1 if user.attrs.get("transpose_b") else 0]
            return [size, -1] if user.attrs.get("transpose_a") else [-1, size]
    return None


def _in_words(node: Node, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory"
    shown = ", ".join(f"{k}={str(v)[:60]}" for k, v in node.attrs.items() if k != "value" and not k.startswith("_"))
    return f"with {len(node.inputs)} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_tensorflow(
    graph, layout="NHWC", shape=None, outputs=None, convert_config=None
) -> tuple[IRModule, dict[str, Any]]:
    """Convert a TensorFlow model to a module and its parameters.

    Weights become constants, so there are no parameters. TensorFlow need not be installed. Dynamic dimensions of the
    model stay dynamic (``relay.Any()``) unless ``shape`` fixes them. For a SavedModel, the signature
    ``serving_default`` is imported; its inputs have the names of the signature, and its outputs are ordered by name.

    Parameters
    ----------
    graph : GraphDef, bytes or str
        A frozen graph as a message, its bytes or the path of a file, or the folder of a SavedModel.
    layout : str, optional
        "NHWC" keeps the layout of convolutions, "NCHW" converts them to channels first.
    shape : dict of str to tuple, optional
        Shapes of inputs by name, instead of those in the model.
    outputs : list of str, optional
        Names of the output nodes, ``node`` or ``node:1``; for a SavedModel also outputs of its signature, or the name
        of another signature. By default, the nodes without users.
    convert_config : dict, optional
        ``use_dense``: whether matmuls become ``nn.dense`` (True, the default) or ``nn.matmul``;
        ``use_nt_batch_matmul``: whether the right operand of a batched matmul is transposed, which does not change the
        values (default False).

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module, and an empty dictionary of parameters.

    Raises
    ------
    TypeError
        ``graph`` is none of these, or ``shape`` is not a dictionary.
    TVMError
        The file is damaged, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        The model contains operators without a converter; the message lists all of them.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(
            f"from_tensorflow: shape must be a dictionary from input names to shapes, got {type(shape).__name__}"
        )
    if layout not in (None, "NHWC", "NCHW"):
        raise TVMError(f"from_tensorflow: layout must be 'NHWC' or 'NCHW', got {layout!r}")
    unknown = [k for k in convert_config or {} if k not in _OPTIONS]
    if unknown:
        raise TVMError(
            f"from_tensorflow: unknown key '{unknown[0]}' in convert_config; valid keys are {' and '.join(_OPTIONS)}"
        )
    with np.errstate(all="ignore"):
        module, params = Importer(load(graph), shape, convert_config or {}).run(outputs)
    return (_channels_first(module) if layout == "NCHW" else module), params


def _channels_first(module: IRModule) -> IRModule:
    from ...transform import ConvertLayout, InferType

    wanted = {name: ["NCHW", "default"] for name in ("nn.conv2d",)}
    return ConvertLayout(wanted)(InferType()(module))


__all__ = ["Importer", "Scope", "from_tensorflow", "in_words"]
