"""Graphs as a self-contained page or as SVG, drawn without external programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import relay
from ...drawing.graph import Edge, Node, draw_graph
from ...drawing.page import escape, page
from ...drawing.svg import Drawing
from ...ir.op import Op
from ...ir.visit import post_order
from .interface import DefaultVizParser, Plotter, VizEdge, VizGraph, VizNode, attribute_lines

# The style of a box, by prefix of the node type.
_KINDS = (("Var(Input)", "input"), ("Var(Param)", "constant"), ("Const", "constant"), ("Func", "function"))
# Attributes that determine an operator's computation; others are shown in a tooltip.
_SHOWN = ("kernel_size", "strides", "groups", "dilation", "pool_size", "axes", "newshape", "dtype")


def box(node: VizNode, heat: float = 0.0) -> Node:
    """Convert a node to the box that is drawn."""
    kind = next((kind for start, kind in _KINDS if node.type_name.startswith(start)), "")
    tip = f"{node.type_name}\n{node.detail}".strip()
    return Node(node.identity, node.type_name.strip(), node.detail.splitlines(), kind, tip, heat)


def edge_of(edge: VizEdge) -> Edge:
    return Edge(edge.start, edge.end)


class PageGraph(VizGraph):
    """The boxes and edges of one function."""

    def __init__(self, name: str):
        self.name = name
        self.nodes: list[VizNode] = []
        self.edges: list[VizEdge] = []

    def node(self, viz_node: VizNode) -> None:
        self.nodes.append(viz_node)

    def edge(self, viz_edge: VizEdge) -> None:
        self.edges.append(viz_edge)

    def drawing(self) -> Drawing:
        nodes = list(map(box, self.nodes))
        return draw_graph(f"graph of function {self.name}", nodes, map(edge_of, self.edges))


class PagePlotter(Plotter):
    """Draws graphs without external programs: ``render("x.html")`` writes a page, ``render("x.svg")`` a picture of a
    module with one function.

    Parameters
    ----------
    title : str
        The title of the page.
    """

    def __init__(self, title: str = "Graph"):
        self.title = title
        self._name_to_graph: dict[str, PageGraph] = {}

    def create_graph(self, name: str) -> PageGraph:
        self._name_to_graph[name] = PageGraph(name)
        return self._name_to_graph[name]

    @property
    def boxes(self) -> int:
        """The total number of boxes."""
        return sum(len(graph.nodes) for graph in self._name_to_graph.values())

    def section(self) -> str:
        """All graphs as a fragment of a page.

        Returns
        -------
        str
            HTML: a heading and a picture for each function.
        """
        graphs = self._name_to_graph.values()
        return (
            "".join(f"<h3>{escape(g.name)}</h3>{scrolled(g.drawing())}" for g in graphs)
            or "<p>There is no function.</p>"
        )

    def render(self, filename: str | None = None) -> None:
        """Write a page, or a picture if the file name ends in ".svg"; the default name is graph.html.

        Parameters
        ----------
        filename : str, optional
            A name that ends in ".svg" selects a picture, any other name a page.

        Raises
        ------
        ValueError
            A picture is requested for a module that does not have exactly one function.
        """
        filename = filename or "graph.html"
        graphs = list(self._name_to_graph.values())
        if not filename.endswith(".svg"):
            text = page(self.title, f"<h1>{escape(self.title)}</h1>{self.section()}", full_width=True)
        elif len(graphs) == 1:
            text = graphs[0].drawing().file()
        else:
            raise ValueError(
                f"{filename}: a picture shows one function, but the module has {len(graphs)}; write a page"
            )
        write(filename, text)


def scrolled(drawing: Drawing) -> str:
    return f'<div class="scroll">{drawing.svg(natural=True)}</div>'


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class PageVizParser(DefaultVizParser):
    """Creates shorter nodes: operators with their types, and a fused function as one box.

    Parameters
    ----------
    weights : bool
        Whether to draw parameters and constants.
    """

    def __init__(self, weights: bool = False):
        self.weights = weights

    def operands(self, node: Any) -> Sequence[Any]:
        if isinstance(node, relay.Call) and _is_fused(node.op):
            return node.args
        return super().operands(node)

    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        if not self.weights and _is_weight(node, relay_param):
            return None, []
        found, edges = super().get_node_edges(node, relay_param, node_to_id)
        if found is None:
            return None, []
        if not self.weights:
            hidden = {node_to_id[part] for part in self.operands(node) if _is_weight(part, relay_param)}
            edges = [edge for edge in edges if edge.start not in hidden]
        if isinstance(node, relay.Var):
            return VizNode(found.identity, found.type_name, f"{node.name_hint}\n{type_text(node)}"), edges
        if isinstance(node, relay.Call):
            found = VizNode(found.identity, _title(node), "\n".join([type_text(node), *_attributes(node)]))
        return found, edges


def _is_fused(op: Any) -> bool:
    return isinstance(op, relay.Function) and bool(op.attrs.get("Primitive"))


def _is_weight(node: Any, params: Mapping[str, Any]) -> bool:
    return isinstance(node, relay.Constant) or isinstance(node, relay.Var) and node.name_hint in params


def _title(call: relay.Call) -> str:
    if isinstance(call.op, Op):
        return call.op.name
    if _is_fused(call.op):
        inside = (n for n in post_order(call.op.body) if isinstance(n, relay.Call) and isinstance(n.op, Op))
        return " + ".join(n.op.name for n in inside) or "copy"
    return f"call {getattr(call.op, 'name_hint', type(call.op).__name__)}"


def _attributes(call: relay.Call) -> list[str]:
    attrs = call.attrs if isinstance(call.op, Op) else None
    return attribute_lines({k: v for k, v in (attrs.items() if attrs else ()) if k in _SHOWN and not _usual(v)})


def _usual(value: Any) -> bool:
    """Whether an attribute has a default value: empty, or strides, dilations and groups of one."""
    return value in (None, "") or all(str(v) == "1" for v in (value if isinstance(value, (list, tuple)) else [value]))


def type_text(node: Any) -> str:
    """Return an abbreviated type of an expression, or an empty string if it is not inferred."""
    found = getattr(node, "checked_type_", None)
    if hasattr(found, "shape"):
        return f"{found.dtype}[{', '.join(map(str, found.shape))}]"
    return "" if found is None else str(found)


__all__ = ["PageGraph", "PagePlotter", "PageVizParser", "box", "edge_of", "scrolled", "type_text", "write"]
