"""Convert an MXNet symbol to a module.

All operators that the outputs need are checked first, then converted in file order. Subgraphs of an operator are
inlined.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ....dtype import canonical
from ....error import TVMError, did_you_mean
from ....ir.module import IRModule
from ....ir.prim import Any_
from ...expr import RelayExpr, TupleWrapper
from ..common.importer import GraphImporter, MissingShape, UnknownInput
from .graph import MOST_NODES, Graph, Node, Ref
from .load import Loaded, load
from .schema import DTYPES, Attributes
from .table import CONVERTERS, Context, Row

# The attributes of a variable; those for training are ignored.
_VARIABLE = Attributes("__shape__:dims?=None __dtype__:int=-1")
_HAS_OPERATORS = ("_foreach", "_while_loop", "_cond", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")


class Variable:
    """A variable that is not used yet. It becomes a parameter or an input when an operator reads it."""

    def __init__(self, node: Node):
        self.node = node


class Importer(GraphImporter):
    """Converts one model to a module."""

    def __init__(self, loaded: Loaded, shapes: Mapping | None, dtype):
        super().__init__(freeze=False)
        self.graph = loaded.graph
        self.arrays = loaded.params
        self.shapes = dict(shapes or {})
        self.dtypes = dtype
        self.converted = 0
        self.config: dict[str, Any] = {}
        # Whether an empty shape is a scalar, as in mx.np models, rather than unknown.
        self.scalars = loaded.graph.scalars
        self.order: dict[str, int] = {}

    def run(self) -> tuple[IRModule, dict[str, Any]]:
        self.check_operators()
        self.check_names()
        values: list = [None] * len(self.graph.nodes)
        heads = self.evaluate(self.graph, values)
        self.inputs.sort(key=lambda v: self.order[v.name_hint])
        module, params = self.finish([self.result(v, "the heads") for v in heads])
        kept = {v.name_hint for v in module["main"].params}
        return module, {name: value for name, value in params.items() if name in kept}

    # -- variable lookup ------------------------------------------------------------------------------------------

    def check_operators(self) -> None:
        used, work = [], [self.graph]
        while work:
            graph = work.pop()
            for i in sorted(reached(graph)):
                node = graph.nodes[i]
                if node.op:
                    used.append((node.op, node.name, 0, ""))
                # Subgraphs of other fused operators only document how the operator was created.
                work += node.graphs if node.op in _HAS_OPERATORS else []
        CONVERTERS.check_all(used)

    def check_names(self) -> None:
        known = []
        for i in self.graph.arguments:
            name = self.graph.nodes[i].name
            if name in self.order:
                raise TVMError(f"two variables are named '{name}'")
            self.order[name] = i
            known.append(name)
        unknown = [n for n in self.shapes if n not in self.order]
        if unknown:
            inputs = sorted(n for n in known if n not in self.arrays)
            raise UnknownInput(
                f"the model has no input '{unknown[0]}'; its inputs are {', '.join(inputs)}"
                + did_you_mean(unknown[0], known, "; ")
            )

    # -- variables ------------------------------------------------------------------------------------------------

    def variable(self, node: Node) -> RelayExpr | None:
        """Return the parameter or input of a variable, or None without a known shape."""
        if node.name in self.scopes[0]:
            return self.scopes[0][node.name]
        if node.name in self.arrays:
            array = self.arrays[node.name]
            dims = self.given_shape(node.name)
            if dims is not None and tuple(dims) != array.shape:
                raise TVMError(
                    f"shape of '{node.name}': {tuple(dims)} is given, but its parameter has shape {array.shape}"
                )
            self.weight(node.name, array)
        else:
            own = _VARIABLE.read({k: v for k, v in node.attrs.items() if k in _VARIABLE.rows})
            dims = self.given_shape(node.name)
            if dims is None:
                dims = own.__shape__
                if dims is None or any(d is None or d <= 0 for d in dims):
                    return None
            self.scopes[0][node.name] = self.add_input(node.name, dims, self.input_dtype(node, own.__dtype__))
        return self.scopes[0][node.name]

    def given_shape(self, name: str) -> list | None:
        if name not in self.shapes:
            return None
        try:
            dims = [d if isinstance(d, Any_) else -1 if d is None else operator.index(d) for d in self.shapes[name]]
        except TypeError as problem:
            raise TVMError(
                f"shape of input '{name}': expected a list of integers, got {self.shapes[name]!r}"
            ) from problem
        if any(not isinstance(d, Any_) and d < -1 for d in dims):
            raise TVMError(f"shape of input '{name}': {tuple(dims)} has a negative dimension")
        return [Any_() if not isinstance(d, Any_) and d == -1 else d for d in dims]

    def input_dtype(self, node: Node, own: int) -> str:
        """Return the element type of an input: the one given for its name, the one in the model, or the default."""
        if isinstance(self.dtypes, Mapping):
            if node.name in self.dtypes:
                return canonical(self.dtypes[node.name])
        if 0 <= own < len(DTYPES):
            return DTYPES[own]
        return "float32" if isinstance(self.dtypes, Mapping) else canonical(self.dtypes)

    def result(self, value, where: str) -> RelayExpr:
        """Return a value as an expression. A variable must have a known shape."""
        if not isinstance(value, Variable):
            return value
        found = self.variable(value.node)
        if found is None:
            name = value.node.name
            raise MissingShape(f"the shape of input '{name}', which {where} reads, is unknown", name)
        return found

    # -- nodes ----------------------------------------------------------------------------------------------------

    def evaluate(self, graph: Graph, values: list) -> list:
        """Return the outputs of a graph. ``values`` has the outputs of nodes that are already converted."""
        for i in sorted(reached(graph)):
            node = graph.nodes[i]
            if values[i] is None:
                values[i] = self.convert_node(node, values) if node.op else [Variable(node)]
        return [self.output(graph, values, ref, "the heads") for ref in graph.heads]

    def output(self, graph: Graph, values: list, ref: Ref, where: str):
        found = values[ref.node]
        if ref.output >= len(found) or found[ref.output] is None:
            raise TVMError(f"'{graph.nodes[ref.node].name}' has no output {ref.output}, which {where} reads")
        return found[ref.output]

    def convert_node(self, node: Node, values: list) -> list:
        self.converted += 1
        if self.converted > MOST_NODES:
            raise TVMError(f"the model has more than {MOST_NODES} nodes with its loops unrolled")
        ctx = Context(self, node, node.where)
        with self.at_node(node.where, node.name, partial(_in_words, node)):
            row = CONVERTERS.find(node.op, 0)
            if not isinstance(row, Row):
                raise TVMError("the operator is not supported in this position")
            refs = node.inputs if row.takes is None else node.inputs[: row.takes]
            inputs = [self.input(values, ref) for ref in refs]
            given = node.attrs.get("num_args")
            if given is not None and given.isdigit() and int(given) * row.each != len(node.inputs) + len(node.graphs):
                raise TVMError(f"the attribute num_args={given} does not match {len(node.inputs)} inputs")
            attrs = row.attributes.read(node.attrs)
            got = row(ctx, self.operands(ctx, row, inputs, attrs), attrs)
            if isinstance(got, TupleWrapper) or isinstance(got, (list, tuple)):
                return [None if v is None else self.typer.infer(v) for v in got]
            return [self.typer.infer(got)]

    def input(self, values: list, ref: Ref):
        found = values[ref.node]
        if ref.output >= len(found) or found[ref.output] is None:
            raise TVMError(f"an input refers to output {ref.output} of a node that does not have it")
        return found[ref.output]

    def operands(self, ctx: Context, row: Row, inputs: list, attrs) -> list[RelayExpr]:
        """Return the inputs of a node. Weights of unknown shape get the shape that the operator implies."""
        known = [self.variable(v.node) if isinstance(v, Variable) else v for v in inputs]
        if row.shapes is not None and any(v is None for v in known) and known[0] is not None:
            for place, dims in row.shapes(ctx, known, attrs).items():
                if place < len(known) and known[place] is None:
                    known[place] = self.deduced(inputs[place].node, dims)
        return [self.result(inputs[i], ctx.where) if v is None else v for i, v in enumerate(known)]

    def deduced(self, node: Node, dims) -> RelayExpr:
        """Return an input whose shape follows from the operator that reads it."""
        if self.arrays and node.name.endswith(("weight", "bias", "gamma", "beta", "mean", "var")):
            raise TVMError(f"there is no parameter '{node.name}'" + did_you_mean(node.name, list(self.arrays), "; "))
        self.shapes[node.name] = tuple(dims)
        found = self.variable(node)
        assert found is not None
        return found


def reached(graph: Graph) -> set[int]:
    """Return the indices of the nodes that the heads depend on."""
    found: set[int] = set()
    work = [r.node for r in graph.heads]
    while work:
        number = work.pop()
        if number not in found:
            found.add(number)
            work += [r.node for r in graph.nodes[number].inputs]
    return found


def _in_words(node: Node, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the operator"
    shown = ", ".join(f"{k}={v[:60]}" for k, v in node.attrs.items())
    return f"with {len(node.inputs)} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_mxnet(
    symbol, shape=None, dtype="float32", arg_params=None, aux_params=None
) -> tuple[IRModule, dict[str, Any]]:
    """Import an MXNet model as a module and its parameters. MXNet itself is needed only for Gluon block objects.

    Weights become parameters of the module under their names. Inputs used only by a loss (labels) are dropped.

    Parameters
    ----------
    symbol : str, bytes, os.PathLike, mxnet.symbol.Symbol or mxnet.gluon.HybridBlock
        The path of a ``-symbol.json`` file, its text, or a symbol or block object. If a path is given without
        parameters, the ``.params`` file of the same name next to it is read, too.
    shape : dict of str to tuple, optional
        Input shapes by name.
    dtype : str or dict of str to str, optional
        The element type of all inputs, or a dictionary by input name. An element type in the model overrides the
        former.
    arg_params, aux_params : dict of str to array, str or bytes, optional
        Parameters by name (NumPy or MXNet arrays), or a ``.params`` file as its path or bytes.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]
        The module and its parameters.

    Raises
    ------
    TypeError
        ``symbol`` has another type, or ``shape`` or the parameters are not dictionaries.
    TVMError
        The file is corrupt, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        The model has operators without a converter; the message lists all of them.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_mxnet: shape must be a dictionary by input name, got {type(shape).__name__}")
    with np.errstate(all="ignore"):
        return Importer(load(symbol, shape or {}, arg_params, aux_params), shape, dtype).run()


__all__ = ["Importer", "Variable", "from_mxnet", "reached"]
