"""Read a symbol into records: nodes, their inputs, their attributes as text, and their subgraphs.

Files of all versions since 0.5 yield the same records.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ....error import TVMError
from .schema import is_hidden, operator_name

# The maximum number of nodes, including subgraphs, and the maximum nesting depth of subgraphs.
MOST_NODES = 131_072
_MAX_DEPTH = 32
# The version of files without a version number, and the versions that introduced auxiliary states and the optional
# axis.
_OLDEST, _HAS_STATES, _HAS_NO_AXIS = 800, 900, 905
# Inputs that files before version 0.9 omit: the auxiliary states of a layer.
_STATES = {"BatchNorm": ("data", "gamma", "beta", "moving_mean", "moving_var")}


class Ref(NamedTuple):
    """An output of a node."""

    node: int
    output: int


class Node:
    """An operator, or a variable, whose ``op`` is empty."""

    def __init__(self, name: str, op: str, attrs: dict[str, str], inputs: list[Ref], graphs: list[Graph]):
        self.name, self.op, self.attrs, self.inputs, self.graphs = name, op, attrs, inputs, graphs

    @property
    def where(self) -> str:
        return f"{self.op} '{self.name}'"


class Graph:
    """A graph: nodes in topological order, the outputs (``heads``) and the indices of the variables (``arguments``).

    ``scalars`` is true if an empty shape means a scalar, as in ``mx.np``, rather than an unknown shape.
    """

    def __init__(self, nodes: list[Node], heads: list[Ref], arguments: list[int], scalars: bool):
        self.nodes, self.heads, self.arguments, self.scalars = nodes, heads, arguments, scalars


def graph_of(text: str | bytes) -> Graph:
    """Return the graph of a ``-symbol.json`` file."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise TVMError(f"the symbol is not valid JSON: {problem}") from None
    return _Reader().graph(found, None, 0)


class _Reader:
    def __init__(self) -> None:
        self.count = 0

    def graph(self, found: Any, version: int | None, depth: int) -> Graph:
        if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
            raise TVMError("the JSON is not an MXNet symbol: it has no list 'nodes'")
        if depth > _MAX_DEPTH:
            raise TVMError(f"subgraphs are nested deeper than {_MAX_DEPTH}")
        if version is None:
            given = _attribute(found, "mxnet_version")
            version = _OLDEST if given is None else given
        nodes: list[Node] = []
        places: list[int] = []
        for entry in found["nodes"]:
            self.count += 1
            if self.count > MOST_NODES:
                raise TVMError(f"the symbol has more than {MOST_NODES} nodes")
            node = self.node(entry, len(places), version, depth)
            node.inputs = [Ref(places[r.node], r.output) for r in node.inputs]
            self.complete(node, nodes, version)
            places.append(len(nodes))
            nodes.append(node)
        heads = [Ref(places[r.node], r.output) for r in _refs(found.get("heads"), len(places), "the heads")]
        if not heads:
            raise TVMError("the symbol has no heads (outputs)")
        arguments = [i for i, node in enumerate(nodes) if not node.op]
        return Graph(nodes, heads, arguments, bool(_attribute(found, "is_np_shape")))

    def node(self, entry: Any, number: int, version: int, depth: int) -> Node:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(k), str) for k in ("op", "name")):
            raise TVMError(f"node {number} of the symbol has no name or no operator")
        name, op = entry["name"], entry["op"]
        where = f"{op} '{name}'"
        attrs: dict[str, str] = {}
        for key in ("param", "attr", "attrs"):
            given = entry.get(key) or {}
            if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
                raise TVMError(f"{where}: the attributes '{key}' are not a dictionary of strings")
            attrs.update(given)
        inputs = _refs(entry.get("inputs", []), number, where)
        graphs = entry.get("subgraphs", [])
        if not isinstance(graphs, list):
            raise TVMError(f"{where}: 'subgraphs' is not a list")
        inner = [self.graph(g, version, depth + 1) for g in graphs]
        return Node(name, "" if op == "null" else operator_name(op), attrs, inputs, inner)

    def complete(self, node: Node, nodes: list[Node], version: int) -> None:
        """Add the inputs that old versions omit, and adapt attributes whose meaning changed."""
        names = _STATES.get(node.op, ())
        if version < _HAS_STATES and len(node.inputs) < len(names):
            for name in names[len(node.inputs) :]:
                node.inputs.append(Ref(len(nodes), 0))
                nodes.append(Node(f"{node.name}_{name}", "", {}, [], []))
        if version < _HAS_NO_AXIS and node.op in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
            del node.attrs["axis"]
        if node.op:
            node.attrs = {k: v for k, v in node.attrs.items() if not is_hidden(k)}


def _attribute(found: dict, name: str) -> int | None:
    """Return an integer attribute of the file, which is stored as [type name, value]."""
    attrs = found.get("attrs", found.get("attr"))
    given = attrs.get(name) if isinstance(attrs, dict) else None
    return given[1] if isinstance(given, list) and len(given) == 2 and type(given[1]) is int else None


def _refs(given: Any, count: int, where: str) -> list[Ref]:
    """Return references to outputs of previous nodes. The optional third number of an entry, a version, is ignored."""
    if not isinstance(given, list):
        raise TVMError(f"{where}: expected a list of nodes")
    refs = []
    for row in given:
        if not isinstance(row, list) or len(row) not in (2, 3) or not all(type(v) is int for v in row):
            raise TVMError(f"{where}: '{str(row)[:60]}' is not a reference to an output of a node")
        if not 0 <= row[0] < count or row[1] < 0:
            raise TVMError(f"{where}: output {row[1]} of node {row[0]} does not exist before this node")
        refs.append(Ref(row[0], row[1]))
    return refs


__all__ = ["MOST_NODES", "Graph", "Node", "Ref", "graph_of"]
