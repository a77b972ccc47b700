"""Graphs as text: outputs first, with their operands indented below."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from .interface import DefaultVizParser, Plotter, VizEdge, VizGraph, VizNode, VizParser

# Deeper subtrees restart at the left margin, so that the text size is linear in the graph size.
_DEEPEST = 40


class TermVizParser(VizParser):
    """Creates the nodes and edges of ``DefaultVizParser``."""

    def __init__(self):
        self._delegate = DefaultVizParser()

    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        return self._delegate.get_node_edges(node, relay_param, node_to_id)


class TermGraph(VizGraph):
    """One function as text.

    Parameters
    ----------
    name : str
        The name of the function.
    """

    def __init__(self, name: str):
        self._name = name
        self._nodes: dict[str, VizNode] = {}
        # For each node, the source nodes of its incoming edges.
        self._operands: dict[str, list[str]] = {}
        self._used: set[str] = set()

    def node(self, viz_node: VizNode) -> None:
        self._nodes[viz_node.identity] = viz_node

    def edge(self, viz_edge: VizEdge) -> None:
        self._operands.setdefault(viz_edge.end, []).append(viz_edge.start)
        self._used.add(viz_edge.start)

    def render(self) -> str:
        """The text: each node once; later uses refer to its number.

        Returns
        -------
        str
            The text, whose first line is the name of the function.
        """
        started = [start for starts in self._operands.values() for start in starts]
        keys = list(dict.fromkeys([*self._nodes, *self._operands, *started]))
        roots = [key for key in keys if key not in self._used]
        lines: list[str] = [f"@{self._name}"]
        shown: set[str] = set()
        # The outputs, last one first. A cycle has no output: then its first node is used.
        for root in [*reversed(roots), *keys]:
            todo = deque([root])
            while todo:
                self._tree(todo.popleft(), lines, shown, todo)
        return "\n".join(lines) + "\n"

    def _tree(self, root: str, lines: list[str], shown: set[str], apart: deque[str]) -> None:
        """Append the lines of a node and its operands; operands that are nested too deeply are added to ``apart``."""
        stack = [] if root in shown else [(root, "", "", 0)]
        while stack:
            key, lead, below, depth = stack.pop()
            words = self._words(key)
            operands = list(dict.fromkeys(self._operands.get(key, ())))
            if key in shown:
                lines.append(f"{lead}{words} (above)" if operands else f"{lead}{words}")
                continue
            if depth >= _DEEPEST and operands:
                lines.append(f"{lead}%{key} (below)")
                apart.append(key)
                continue
            shown.add(key)
            lines.append(lead + words)
            for i, operand in reversed(list(enumerate(operands))):
                last = i == len(operands) - 1
                branch, more = ("`--", "   ") if last else ("|--", "|  ")
                stack.append((operand, below + branch, below + more, depth + 1))

    def _words(self, key: str) -> str:
        node = self._nodes.get(key)
        if node is None:
            return f"%{key}"
        detail = ", ".join(node.detail.splitlines())
        return f"%{key} {node.type_name.strip()}" + (f" ({detail})" if detail else "")


class TermPlotter(Plotter):
    """Prints graphs, or writes their text to a file."""

    def __init__(self):
        self._name_to_graph: dict[str, TermGraph] = {}

    def create_graph(self, name: str) -> TermGraph:
        self._name_to_graph[name] = TermGraph(name)
        return self._name_to_graph[name]

    def render(self, filename: str | None = None) -> None:
        """Print the text, or write it to ``filename``.

        Parameters
        ----------
        filename : str, optional
            The file.
        """
        text = "\n".join(graph.render() for graph in self._name_to_graph.values())
        if not filename:
            print(text)
            return
        with open(filename, "w", encoding="utf-8") as file:
            file.write(text)


__all__ = ["TermGraph", "TermPlotter", "TermVizParser"]
