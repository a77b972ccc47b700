"""Graphs in Graphviz's DOT language."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .page import escape

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z|-?[0-9]+\Z")
_KEYWORDS = {"node", "edge", "graph", "digraph", "subgraph", "strict"}


class Html(str):
    """A label in Graphviz's HTML-like markup; the contents are escaped."""


def quote(text: object) -> str:
    """Format a name or a value: unquoted if possible, otherwise quoted. A line break is preserved."""
    if isinstance(text, Html):
        return f"<{text}>"
    plain = str(text)
    if _PLAIN.match(plain) and plain.lower() not in _KEYWORDS:
        return plain
    for part, written in (("\\", "\\\\"), ('"', '\\"'), ("\r", ""), ("\n", "\\n"), ("\0", "\ufffd")):
        plain = plain.replace(part, written)
    return f'"{plain}"'


def _list(attributes: Mapping[str, object]) -> str:
    return " [" + " ".join(f"{quote(k)}={quote(v)}" for k, v in attributes.items()) + "]" if attributes else ""


class Digraph:
    """A directed graph: nodes, edges, and subgraphs."""

    def __init__(
        self,
        name: str = "",
        graph_attr: Mapping[str, object] | None = None,
        node_attr: Mapping[str, object] | None = None,
        edge_attr: Mapping[str, object] | None = None,
    ):
        self.name = name
        self.lines: list[str] = []
        for what, attributes in (("graph", graph_attr), ("node", node_attr), ("edge", edge_attr)):
            if attributes:
                self.lines.append(f"{what}{_list(attributes)}")

    def attribute(self, name: str, value: object) -> None:
        """Set attributes of the graph."""
        self.lines.append(f"{quote(name)}={quote(value)}")

    def node(self, key: str, label: object = None, attributes: Mapping[str, object] | None = None) -> None:
        self.lines.append(quote(key) + _list({**({} if label is None else {"label": label}), **(attributes or {})}))

    def edge(
        self, start: str, end: str, attributes: Mapping[str, object] | None = None, ports: tuple[str, str] = ("", "")
    ) -> None:
        ends = [quote(key) + (f":{quote(port)}" if port else "") for key, port in zip((start, end), ports)]
        self.lines.append(f"{ends[0]} -> {ends[1]}{_list(attributes or {})}")

    def subgraph(self, graph: Digraph) -> None:
        self.lines += [f"subgraph {quote(graph.name)} {{", *(f"\t{line}" for line in graph.lines), "}"]

    def text(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        return "\n".join([f"digraph {name}{{", *(f"\t{line}" for line in self.lines), "}"]) + "\n"


def rows(*cells: tuple[str, ...], **attributes: object) -> Html:
    """Format a table as a label: each row is a list of cells, each a text or ``Html`` with its own markup."""
    more = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    body = "".join("<TR>" + "".join(c if isinstance(c, Html) else cell(c) for c in row) + "</TR>" for row in cells)
    return Html(f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4"{more}>{body}</TABLE>')


def cell(text: object, **attributes: object) -> Html:
    """Format a cell of a table; line breaks are preserved."""
    more = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    return Html(f"<TD{more}>{escape(text).replace(chr(10), '<br/>')}</TD>")


__all__ = ["Digraph", "Html", "cell", "quote", "rows"]
