"""From a symbol of MXNet to a module: the operators that the heads need are looked up first, then converted in the
order of the file. Graphs inside an operator are written out where it is."""

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

# What a variable says of itself; how it is trained is of no interest.
_VARIABLE = Attributes("__shape__:dims?=None __dtype__:int=-1")
_HAS_OPERATORS = ("_foreach", "_while_loop", "_cond", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")


class Variable:
    """A variable that nothing has asked for: it becomes a parameter, an input, or nothing."""

    def __init__(self, node: Node):
        self.node = node


class Importer(GraphImporter):
    """Converts one model."""

    def __init__(self, loaded: Loaded, shapes: Mapping | None, dtype):
        super().__init__(freeze=False)
        self.graph = loaded.graph
        self.arrays = loaded.params
        self.shapes = dict(shapes or {})
        self.dtypes = dtype
        self.converted = 0
        self.config: dict[str, Any] = {}
        # Whether a tensor of no dimensions is a scalar, as models of mx.np have it.
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

    # -- what is there --------------------------------------------------------------------------------------------

    def check_operators(self) -> None:
        used, work = [], [self.graph]
        while work:
            graph = work.pop()
            for i in sorted(reached(graph)):
                node = graph.nodes[i]
                if node.op:
                    used.append((node.op, node.name, 0, ""))
                # Other fused operators have inside what they stand for, which only says how they were made.
                work += node.graphs if node.op in _HAS_OPERATORS else []
        CONVERTERS.check_all(used)

    def check_names(self) -> None:
        known = []
        for i in self.graph.arguments:
            name = self.graph.nodes[i].name
            if name in self.order:
                raise TVMError(f"two variables have the name '{name}'")
            self.order[name] = i
            known.append(name)
        unknown = [n for n in self.shapes if n not in self.order]
        if unknown:
            inputs = sorted(n for n in known if n not in self.arrays)
            raise UnknownInput(f"the model has no input '{unknown[0]}'; its inputs are {', '.join(inputs)}"
                               + did_you_mean(unknown[0], known, "; "))

    # -- variables ------------------------------------------------------------------------------------------------

    def variable(self, node: Node) -> RelayExpr | None:
        """The parameter or the input that a variable is; None if its shape is not known."""
        if node.name in self.scopes[0]:
            return self.scopes[0][node.name]
        if node.name in self.arrays:
            array = self.arrays[node.name]
            dims = self.given_shape(node.name)
            if dims is not None and tuple(dims) != array.shape:
                raise TVMError(f"shape of '{node.name}': {tuple(dims)} is given, its parameter has {array.shape}")
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
                f"shape of input '{name}': a list of numbers is wanted, got {self.shapes[name]!r}"
            ) from problem
        if any(not isinstance(d, Any_) and d < -1 for d in dims):
            raise TVMError(f"shape of input '{name}': {tuple(dims)} has a negative size")
        return [Any_() if not isinstance(d, Any_) and d == -1 else d for d in dims]

    def input_dtype(self, node: Node, own: int) -> str:
        """The element type of an input: the one given for its name, the model's own, or the one given for all."""
        if isinstance(self.dtypes, Mapping):
            if node.name in self.dtypes:
                return canonical(self.dtypes[node.name])
        if 0 <= own < len(DTYPES):
            return DTYPES[own]
        return "float32" if isinstance(self.dtypes, Mapping) else canonical(self.dtypes)

    def result(self, value, where: str) -> RelayExpr:
        """A value as an expression; a variable must have a shape."""
        if not isinstance(value, Variable):
            return value
        found = self.variable(value.node)
        if found is None:
            name = value.node.name
            raise MissingShape(f"the shape of input '{name}', which {where} takes, is not known", name)
        return found

    # -- nodes ----------------------------------------------------------------------------------------------------

    def evaluate(self, graph: Graph, values: list) -> list:
        """The heads of a graph; ``values`` has the outputs of each node, where they are known already."""
        for i in sorted(reached(graph)):
            node = graph.nodes[i]
            if values[i] is None:
                values[i] = self.convert_node(node, values) if node.op else [Variable(node)]
        return [self.output(graph, values, ref, "the heads") for ref in graph.heads]

    def output(self, graph: Graph, values: list, ref: Ref, where: str):
        found = values[ref.node]
        if ref.output >= len(found) or found[ref.output] is None:
            raise TVMError(f"'{graph.nodes[ref.node].name}' has no output {ref.output}, which {where} takes")
        return found[ref.output]

    def convert_node(self, node: Node, values: list) -> list:
        self.converted += 1
        if self.converted > MOST_NODES:
            raise TVMError(f"the model has more than {MOST_NODES} nodes with its loops written out")
        ctx = Context(self, node, node.where)
        with self.at_node(node.where, node.name, partial(_in_words, node)):
            row = CONVERTERS.find(node.op, 0)
            if not isinstance(row, Row):
                raise TVMError("the operator is not supported here")
            refs = node.inputs if row.takes is None else node.inputs[: row.takes]
            inputs = [self.input(values, ref) for ref in refs]
            given = node.attrs.get("num_args")
            if given is not None and given.isdigit() and int(given) * row.each != len(node.inputs) + len(node.graphs):
                raise TVMError(f"the attribute num_args is {given}, there are {len(node.inputs)} inputs")
            attrs = row.attributes.read(node.attrs)
            got = row(ctx, self.operands(ctx, row, inputs, attrs), attrs)
            if isinstance(got, TupleWrapper) or isinstance(got, (list, tuple)):
                return [None if v is None else self.typer.infer(v) for v in got]
            return [self.typer.infer(got)]

    def input(self, values: list, ref: Ref):
        found = values[ref.node]
        if ref.output >= len(found) or found[ref.output] is None:
            raise TVMError(f"an input is output {ref.output} of a node that does not have one")
        return found[ref.output]

    def operands(self, ctx: Context, row: Row, inputs: list, attrs) -> list[RelayExpr]:
        """The inputs of a node. Weights that nobody gives a shape have the one that the operator says."""
        known = [self.variable(v.node) if isinstance(v, Variable) else v for v in inputs]
        if row.shapes is not None and any(v is None for v in known) and known[0] is not None:
            for place, dims in row.shapes(ctx, known, attrs).items():
                if place < len(known) and known[place] is None:
                    known[place] = self.deduced(inputs[place].node, dims)
        return [self.result(inputs[i], ctx.where) if v is None else v for i, v in enumerate(known)]

    def deduced(self, node: Node, dims) -> RelayExpr:
        """An input whose shape follows from the operator that takes it."""
        if self.arrays and node.name.endswith(("weight", "bias", "gamma", "beta", "mean", "var")):
            raise TVMError(f"there is no parameter '{node.name}'" + did_you_mean(node.name, list(self.arrays), "; "))
        self.shapes[node.name] = tuple(dims)
        found = self.variable(node)
        assert found is not None
        return found


def reached(graph: Graph) -> set[int]:
    """The numbers of the nodes that the heads need."""
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
        return "there is not enough memory for this"
    shown = ", ".join(f"{k}={v[:60]}" for k, v in node.attrs.items())
    return f"with {len(node.inputs)} inputs and attributes ({shown}): {str(problem) or type(problem).__name__}"


def from_mxnet(
    symbol, shape=None, dtype="float32", arg_params=None, aux_params=None
) -> tuple[IRModule, dict[str, Any]]:
    """A model of MXNet as a module and its parameters. MXNet is not needed, unless a live block of Gluon is given.

    Weights become parameters of the module by their names. Inputs that belong to a loss only (labels) are left out.

    Parameters
    ----------
    symbol : str, bytes, os.PathLike, mxnet.symbol.Symbol or mxnet.gluon.HybridBlock
        The path of a ``-symbol.json`` file, its text, or a live symbol or block. The ``.params`` file of the same name
        beside a path is read too, unless parameters are given.
    shape : dict of str to tuple, optional
        Shapes of inputs by name.
    dtype : str or dict of str to str, optional
        The element type of inputs, one for all or by name; an input of which the model says one has that.
    arg_params, aux_params : dict of str to array, str or bytes, optional
        Parameters by name, as NumPy's arrays or MXNet's; or a ``.params`` file, as its path or its bytes.

    Returns
    -------
    tuple[IRModule, dict[str, Any]]

    Raises
    ------
    TypeError
        ``symbol`` is none of these, or ``shape`` or the parameters are no dictionaries.
    TVMError
        The file is damaged, an operator cannot be converted, or an argument is wrong.
    OpNotImplemented
        For operators without a converter; all of them are named.
    """
    if shape is not None and not isinstance(shape, Mapping):
        raise TypeError(f"from_mxnet: shape is a dictionary by input, got {type(shape).__name__}")
    with np.errstate(all="ignore"):
        return Importer(load(symbol, shape or {}, arg_params, aux_params), shape, dtype).run()


__all__ = ["Importer", "Variable", "from_mxnet", "reached"]
