"""The interfaces for drawing graphs: nodes, edges, a parser that creates them from expressions, and a plotter.

A parser returns the node of each expression and the edges into it. A plotter creates a graph for each function, adds
nodes and edges to it, and writes a file. Both can be replaced by custom classes.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from ... import relay
from ...ir.adt import Constructor
from ...ir.module import GlobalVar
from ...ir.op import Op
from ...ir.prim import Any_

UNKNOWN_TYPE = "unknown"
# Names of called operators, which are part of the call's node.
_NAMES = (Op, GlobalVar, Constructor)


class VizNode:
    """A node of a drawn graph.

    Parameters
    ----------
    node_id : str
        The identity of the node.
    node_type : str
        The first line of the node.
    node_detail : str
        The remaining lines.
    """

    def __init__(self, node_id: str, node_type: str, node_detail: str):
        self._id, self._type, self._detail = node_id, node_type, node_detail

    @property
    def identity(self) -> str:
        return self._id

    @property
    def type_name(self) -> str:
        return self._type

    @property
    def detail(self) -> str:
        return self._detail

    def __repr__(self) -> str:
        detail = self._detail.replace("\n", ", ")
        return f"VizNode(identity: {self._id}, type_name: {self._type}, detail: {detail})"


class VizEdge:
    """An edge between two nodes.

    Parameters
    ----------
    start_node : str
        The identity of the source node.
    end_node : str
        The identity of the destination node.
    """

    def __init__(self, start_node: str, end_node: str):
        self._start, self._end = start_node, end_node

    @property
    def start(self) -> str:
        return self._start

    @property
    def end(self) -> str:
        return self._end

    def __repr__(self) -> str:
        return f"VizEdge({self._start} -> {self._end})"


class VizParser(abc.ABC):
    """Converts expressions to nodes and edges."""

    @abc.abstractmethod
    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        """The node of an expression, or None, and its incoming edges.

        Parameters
        ----------
        node : Expr
            The expression.
        relay_param : dict of str to NDArray
            The parameters of the model.
        node_to_id : dict of Expr to str
            The identity of every expression of the module.

        Returns
        -------
        tuple of VizNode or None, and list of VizEdge
        """

    def operands(self, node: Any) -> Sequence[Any]:
        """The expressions to visit next; by default the operands of the expression.

        Parameters
        ----------
        node : Expr
            The expression.

        Returns
        -------
        list of Expr
            The operands.
        """
        return [*node.params, node.body] if isinstance(node, relay.Function) else node.children()


class VizGraph(abc.ABC):
    """Receives the nodes and edges of one function; operands come before their users."""

    @abc.abstractmethod
    def node(self, viz_node: VizNode) -> None:
        """Add a node.

        Parameters
        ----------
        viz_node : VizNode
            The identity, type and details of the node.
        """

    @abc.abstractmethod
    def edge(self, viz_edge: VizEdge) -> None:
        """Add an edge.

        Parameters
        ----------
        viz_edge : VizEdge
            The identities of the operand and its user.
        """


class Plotter(abc.ABC):
    """Draws graphs to a file."""

    @abc.abstractmethod
    def create_graph(self, name: str) -> VizGraph:
        """A new graph for the function with this name.

        Parameters
        ----------
        name : str
            The name of the function.

        Returns
        -------
        VizGraph
            The graph to which nodes and edges are added, and which ``render`` writes.
        """

    @abc.abstractmethod
    def render(self, filename: str) -> None:
        """Write all graphs.

        Parameters
        ----------
        filename : str
            The file, or None for the default output of the plotter.
        """


def attribute_lines(attrs: Any) -> list[str]:
    """Return the attributes of a call or a function, one per line."""
    return [f"{name}: {getattr(value, 'value', value)}" for name, value in attrs.items()] if attrs else []


def _shape_of(dims: Sequence[Any]) -> str:
    known = ["?" if isinstance(d, Any_) else str(d) for d in dims]
    return f"({', '.join(known)}{',' if len(known) == 1 else ''})"


class DefaultVizParser(VizParser):
    """Creates a node with attributes for every expression."""

    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        if isinstance(node, _NAMES):
            return None, []
        describe = _DESCRIBE.get(type(node), _other)
        title, lines, operands = describe(node, relay_param)
        own = node_to_id[node]
        edges = [VizEdge(node_to_id[each], own) for each in operands if not isinstance(each, _NAMES)]
        return VizNode(own, title, "\n".join(lines)), edges


# For each expression class: the title, further lines, and the expressions at the start of its incoming edges.


def _var(node: relay.Var, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    lines = [f"name_hint: {node.name_hint}"]
    annotation = node.type_annotation
    if hasattr(annotation, "shape"):
        lines += [f"shape: {_shape_of(annotation.shape)}", f"dtype: {annotation.dtype}"]
    elif annotation is not None:
        lines.append(f"type_annotation: {annotation}")
    return "Var(Param)" if node.name_hint in params else "Var(Input)", lines, ()


def _function(node: relay.Function, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    return f"Func {node.attrs.get('Composite', '')}", attribute_lines(node.attrs), [node.body]


def _call(node: relay.Call, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    op = node.op
    if isinstance(op, Op):
        return f"Call {op.name}", attribute_lines(node.attrs), node.args
    if isinstance(op, relay.Function):
        return f"Call {op.attrs.get('Composite', 'Anonymous Func')}", attribute_lines(op.attrs), node.args
    if isinstance(op, GlobalVar):
        return "Call GlobalVar", [f"GlobalVar.name_hint: {op.name_hint}"], node.args
    if isinstance(op, Constructor):
        return f"Call {op.name_hint}", [], node.args
    # A called function value has a separate node, which is an operand of the call like its arguments.
    return f"Call {type(op).__name__}", [], [op, *node.args]


def _tuple(node: relay.Tuple, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    return "Tuple", [], node.fields


def _tuple_get_item(node: relay.TupleGetItem, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    return "TupleGetItem", [f"idx: {node.index}"], [node.tuple_value]


def _constant(node: relay.Constant, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    return "Const", [f"shape: {_shape_of(node.data.shape)}, dtype: {node.data.dtype}"], ()


def _other(node: Any, params: Mapping[str, Any]) -> tuple[str, list[str], Sequence[Any]]:
    """Return title and operands of Let, If, Match and references."""
    if not isinstance(node, relay.Expr):
        return UNKNOWN_TYPE, [type(node).__name__], ()
    return type(node).__name__, [], node.children()


_DESCRIBE = {
    relay.Var: _var,
    relay.Function: _function,
    relay.Call: _call,
    relay.Tuple: _tuple,
    relay.TupleGetItem: _tuple_get_item,
    relay.Constant: _constant,
}

__all__ = ["DefaultVizParser", "Plotter", "UNKNOWN_TYPE", "VizEdge", "VizGraph", "VizNode", "VizParser"]
