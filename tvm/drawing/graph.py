"""A layered drawing of a graph: boxes with text, edges from top to bottom."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .layout import Point, layered
from .svg import Drawing, at, shorten

# Metrics of monospaced text: width of a letter, height of a line, padding; and the maximum number of lines in a box.
_LETTER, _LINE, _PADDING = 6.7, 14.0, 8.0
_MOST_LINES, _MOST_LINES_OF_A_LIST = 8, 40


class Node(NamedTuple):
    """A box: its first line, further lines, its class in the style sheet, its tooltip, its heat from 0 to 1, and
    whether its lines are a left-aligned list."""

    key: str
    title: str
    lines: Sequence[str] = ()
    kind: str = ""
    tip: str = ""
    heat: float = 0.0
    is_list: bool = False


class Edge(NamedTuple):
    """An edge between two nodes, given by their keys. An edge of the ``kind`` "weak" is dashed."""

    start: str
    end: str
    kind: str = ""


def _columns(text: str) -> int:
    """Return the width of a text in letters; East Asian letters have the width two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _shown(node: Node) -> list[str]:
    lines = [shorten(node.title), *(shorten(line) for line in node.lines if line.strip())]
    most = _MOST_LINES_OF_A_LIST if node.is_list else _MOST_LINES
    return lines if len(lines) <= most else [*lines[: most - 1], "\u2026"]


def draw_graph(label: str, nodes: Iterable[Node], edges: Iterable[Edge]) -> Drawing:
    """Draw a graph. A node that only occurs in edges is a box with its key."""
    by_key = {node.key: node for node in nodes}
    edges = list(edges)
    for edge in edges:
        for key in (edge.start, edge.end):
            by_key.setdefault(key, Node(key, key))
    number = {key: i for i, key in enumerate(by_key)}
    texts = [_shown(node) for node in by_key.values()]
    sizes = [(_LETTER * max(map(_columns, text)) + 2 * _PADDING, _LINE * len(text) + _PADDING) for text in texts]
    layout = layered(sizes, [(number[e.start], number[e.end]) for e in edges])
    drawing = Drawing(label, max(layout.width, 40.0), max(layout.height, 40.0))
    for edge, route in zip(edges, layout.routes):
        commands = _loop(layout.centers[number[edge.start]], sizes[number[edge.start]])
        if edge.start != edge.end:
            commands = _curve(route)
        tip = f"{shorten(by_key[edge.start].title)} \u2192 {shorten(by_key[edge.end].title)}"
        drawing.path(commands, f"edge {edge.kind}".strip(), tip)
    for node, text, (width, height), (x, y) in zip(by_key.values(), texts, sizes, layout.centers):
        _draw_node(drawing, node, text, (x - width / 2, y - height / 2, width, height))
    return drawing


def _draw_node(drawing: Drawing, node: Node, text: list[str], place: tuple[float, float, float, float]) -> None:
    x, y, width, height = place
    with drawing.group(node.tip or "\n".join([node.title, *node.lines])):
        drawing.box(x, y, width, height, f"box {node.kind}".strip(), rounded=4)
        if node.heat > 0:
            drawing.box(x, y, width, height, "heat", opacity=0.06 + 0.5 * min(node.heat, 1.0), rounded=4)
        for i, line in enumerate(text):
            kind, below = "mono" if i else "mono title", y + _LINE * (i + 1)
            if node.is_list and i:
                drawing.text(x + _PADDING, below, line, kind=kind)
            else:
                drawing.text(x + width / 2, below, line, "middle", kind)


def _curve(route: Sequence[Point]) -> str:
    """Return the path of an edge, with an arrowhead at its end."""
    parts = [f"M{at(route[0][0])} {at(route[0][1])}"]
    for i, ((x1, y1), (x2, y2)) in enumerate(zip(route, route[1:])):
        if i % 2 == 0 or abs(x1 - x2) < 0.5:
            # Consecutive segments in the same direction are merged.
            if i + 2 == len(route) or abs(route[i + 2][0] - x2) >= 0.5:
                parts.append(f"L{at(x2)} {at(y2)}")
        else:
            middle = at((y1 + y2) / 2)
            parts.append(f"C{at(x1)} {middle} {at(x2)} {middle} {at(x2)} {at(y2)}")
    (x, y), tail = route[-1], 5 if route[-1][1] >= route[-2][1] else -5
    parts.append(f"M{at(x - 3)} {at(y - tail)}L{at(x)} {at(y)}L{at(x + 3)} {at(y - tail)}")
    return "".join(parts)


def _loop(center: Point, size: tuple[float, float]) -> str:
    """Return the path of an edge from a node to itself, around its lower right corner."""
    x, y = center[0] + size[0] / 2, center[1]
    low = y + size[1] / 2
    return f"M{at(x)} {at(y)}C{at(x + 12)} {at(y)} {at(x)} {at(low + 12)} {at(x - 8)} {at(low)}"


__all__ = ["Edge", "Node", "draw_graph"]
