"""Graphviz output: DOT text, and files that Graphviz draws. Without Graphviz, pictures are drawn by this package."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from ...drawing import dot
from ...drawing.graph import draw_graph
from .interface import DefaultVizParser, Plotter, VizEdge, VizGraph, VizNode
from .web import box, edge_of

DotVizParser = DefaultVizParser
# The accepted keys of ``render_kwargs``, as in ``graphviz.Digraph.render``.
_OPTIONS = ("filename", "directory", "format", "cleanup", "engine")
_TEXT = ("gv", "dot")


def _shape(node: VizNode) -> dict[str, str]:
    return {"shape": "ellipse" if "Var" in node.type_name else "box"}


class DotGraph(VizGraph):
    """One function as a cluster of nodes.

    Parameters
    ----------
    name : str
        The name of the function.
    graph_attr : dict, optional
        DOT attributes of the graph.
    node_attr : dict, optional
        DOT attributes of all nodes.
    edge_attr : dict, optional
        DOT attributes of all edges.
    get_node_attr : callable, optional
        Returns the attributes of a ``VizNode``.
    """

    def __init__(
        self,
        name: str,
        graph_attr: Mapping[str, str] | None = None,
        node_attr: Mapping[str, str] | None = None,
        edge_attr: Mapping[str, str] | None = None,
        get_node_attr: Callable[[VizNode], Mapping[str, str]] | None = None,
    ):
        self._get_node_attr = get_node_attr or _shape
        # Graphviz draws a frame around a subgraph whose name starts with "cluster".
        self._digraph = dot.Digraph(f"cluster_{name}", graph_attr, node_attr, edge_attr)
        self._digraph.attribute("label", name)
        self.nodes: list[VizNode] = []
        self.edges: list[VizEdge] = []

    def node(self, viz_node: VizNode) -> None:
        self.nodes.append(viz_node)
        label = f"{viz_node.type_name}\n{viz_node.detail}"
        self._digraph.node(viz_node.identity, label, self._get_node_attr(viz_node))

    def edge(self, viz_edge: VizEdge) -> None:
        self.edges.append(viz_edge)
        self._digraph.edge(viz_edge.start, viz_edge.end)

    @property
    def digraph(self) -> dot.Digraph:
        return self._digraph


class DotPlotter(Plotter):
    """Draws graphs with Graphviz.

    ``render("name")`` writes ``name.pdf``. If Graphviz is not installed, it writes the text as ``name`` and a picture
    drawn by this package as ``name.svg``; the formats "svg", "gv" and "dot" never need Graphviz.

    Parameters
    ----------
    graph_attr : dict, optional
        DOT attributes of the graph.
    node_attr : dict, optional
        DOT attributes of all nodes.
    edge_attr : dict, optional
        DOT attributes of all edges.
    get_node_attr : callable, optional
        Returns the attributes of a ``VizNode``.
    render_kwargs : dict, optional
        Output options: filename, directory, format, cleanup (remove the text), engine.
    """

    def __init__(
        self,
        graph_attr: Mapping[str, str] | None = None,
        node_attr: Mapping[str, str] | None = None,
        edge_attr: Mapping[str, str] | None = None,
        get_node_attr: Callable[[VizNode], Mapping[str, str]] | None = None,
        render_kwargs: Mapping[str, Any] | None = None,
    ):
        self._name_to_graph: dict[str, DotGraph] = {}
        self._attributes = (graph_attr, node_attr, edge_attr, get_node_attr)
        self._render_kwargs = dict(render_kwargs or {})
        for name in self._render_kwargs:
            if name not in _OPTIONS:
                raise ValueError(
                    f"DotPlotter: unsupported key '{name}' in render_kwargs; supported keys are {', '.join(_OPTIONS)}"
                )

    def create_graph(self, name: str) -> DotGraph:
        self._name_to_graph[name] = DotGraph(name, *self._attributes)
        return self._name_to_graph[name]

    def text(self) -> str:
        """All graphs as DOT text.

        Returns
        -------
        str
            One graph, in which each function is a cluster.
        """
        root = dot.Digraph()
        for graph in self._name_to_graph.values():
            root.subgraph(graph.digraph)
        return root.text()

    def render(self, filename: str | None = None) -> None:
        """Write the graphs; see the class docstring.

        Parameters
        ----------
        filename : str, optional
            The file without its suffix; by default that of ``render_kwargs``, or "Digraph.gv".

        Raises
        ------
        RuntimeError
            The format or the engine needs Graphviz, which is not installed.
        """
        given = self._render_kwargs
        program = shutil.which(given.get("engine", "dot"))
        path = os.path.join(given.get("directory") or "", filename or given.get("filename") or "Digraph.gv")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        kind = given.get("format") or ("pdf" if program else "svg")
        if program is None and (kind not in ("svg", *_TEXT) or "engine" in given):
            what = f"engine '{given['engine']}'" if "engine" in given else f"format '{kind}'"
            raise RuntimeError(
                f"DotPlotter: {what} needs Graphviz, which is not installed; the formats svg, gv "
                "and dot do not need it (Debian: apt-get install graphviz)"
            )
        with open(path if kind not in _TEXT else f"{path}.{kind}", "w", encoding="utf-8") as file:
            file.write(self.text())
        if kind in _TEXT:
            return
        if program is None:
            with open(f"{path}.svg", "w", encoding="utf-8") as file:
                file.write(self._picture())
        else:
            subprocess.run([program, f"-T{kind}", "-o", f"{path}.{kind}", path], check=True)
        if given.get("cleanup", program is not None):
            os.remove(path)

    def _picture(self) -> str:
        graphs = self._name_to_graph.values()
        nodes = [box(node) for graph in graphs for node in graph.nodes]
        return draw_graph("graph", nodes, [edge_of(e) for graph in graphs for e in graph.edges]).file()


__all__ = ["DotGraph", "DotPlotter", "DotVizParser"]
