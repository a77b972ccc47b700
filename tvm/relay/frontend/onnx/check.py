"""Checks before a model is converted: valid text, supported operators, size of inlined functions, node order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....error import TVMError
from .table import CONVERTERS

STANDARD = ("", "ai.onnx")
# Functions, branches and loops are inlined. Models with more nodes than this limit would take too long to compile.
MOST_NODES = 1 << 17


def full_name(node) -> str:
    return node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"


def node_name(node) -> str:
    return node.name or (node.output[0] if node.output else "?")


def where_of(node) -> str:
    """Return the operator and name of a node, for messages."""
    return f"{full_name(node)} node '{node_name(node)}'"


def opset_table(imports) -> dict[str, int]:
    """Return the operator set versions by domain; the standard domain is the empty string."""
    return {"" if o.domain in STANDARD else o.domain: o.version for o in imports}


def version_of(node, sets: Mapping[str, int]) -> int:
    return sets.get("" if node.domain in STANDARD else node.domain, 1)


def inner_graphs(node) -> list:
    """Return the graphs that are attributes of a node."""
    return [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else ()), *a.graphs)]


# -- text --------------------------------------------------------------------------------------------------


def check_text(model) -> None:
    """Check that all strings are valid UTF-8; protobuf returns a string field with invalid UTF-8 as bytes."""
    stack = [model]
    while stack:
        message = stack.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            # The elements of a tensor are skipped: they are numerous and are not text.
            fields = [("name", message.name)]
        else:
            fields = [(d.name, v) for d, v in message.ListFields() if d.type in (d.TYPE_STRING, d.TYPE_MESSAGE)]
        for name, value in fields:
            many = value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else [value]
            for part in many:
                if isinstance(part, bytes):
                    kind = message.DESCRIPTOR.name.removesuffix("Proto")
                    raise TVMError(f"the {name.replace('_', ' ')} of a {kind} is not valid UTF-8: {part[:40]!r}")
                if not isinstance(part, str):
                    stack.append(part)


# -- operators --------------------------------------------------------------------------------------------------


def check_operators(graph, functions: Mapping[tuple, Any], sets: Mapping[str, int], local: Callable) -> None:
    """Report all unsupported operators in one error."""
    used: list[tuple[str, str, int, str]] = []
    stack: list[tuple[Any, Mapping[str, int]]] = [(graph.node, sets)]
    for f in functions.values():
        stack.append((f.node, opset_table(f.opset_import)))
    while stack:
        nodes, versions = stack.pop()
        for node in nodes:
            stack.extend((g.node, versions) for g in inner_graphs(node))
            if local(node) is None:
                used.append((full_name(node), node_name(node), version_of(node, versions), node.domain))
    CONVERTERS.check_all(used, _defined_by_function)


def _defined_by_function(name: str, version: int, domain: str) -> bool:
    """Return whether ONNX defines the operator by a function of other operators."""
    import onnx

    domain = "" if domain in STANDARD else domain
    newest = onnx.defs.onnx_opset_version() if not domain else 1 << 20
    try:
        schema = onnx.defs.get_schema(name.rpartition(".")[2], max(min(version, newest), 0), domain)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def signature_fault(node, version: int) -> str:
    """Return how a node's inputs and attributes violate the ONNX schema of its operator; "" if they do not."""
    import onnx

    domain = "" if node.domain in STANDARD else node.domain
    newest = onnx.defs.onnx_opset_version() if not domain else version
    try:
        schema = onnx.defs.get_schema(node.op_type, max(min(version, newest), 0), domain)
    except onnx.defs.SchemaError:
        return ""
    for i, wanted in enumerate(schema.inputs):
        required = wanted.option == onnx.defs.OpSchema.FormalParameterOption.Single
        if required and (i >= len(node.input) or not node.input[i]):
            return f"input {i} ({wanted.name}) is missing"
    if len(node.input) > schema.max_input or len(node.input) < schema.min_input:
        return f"the node has {len(node.input)} inputs; it must have {schema.min_input} to {schema.max_input}"
    given = {a.name: a for a in node.attribute}
    for name, wanted in schema.attributes.items():
        if name not in given and wanted.required:
            return f"attribute '{name}' is missing"
        if name in given and given[name].type != int(wanted.type.value):
            kinds = onnx.AttributeProto.AttributeType
            have = kinds.Name(given[name].type) if given[name].type in kinds.values() else str(given[name].type)
            return f"attribute '{name}' must be of type {wanted.type.name}, got {have}"
    return ""


# -- functions --------------------------------------------------------------------------------------------------


def check_functions(graph, functions: Mapping[tuple, Any], local: Callable) -> None:
    """Reject recursive functions, and functions with too many nodes after inlining; each function is counted once."""
    counts: dict[int, int] = {}
    open_: set[int] = set()
    stack: list[tuple[Any, Any, bool]] = [(graph, None, False)]
    stack += [(f, f, False) for f in functions.values()]
    while stack:
        body, function, ready = stack.pop()
        key = id(body)
        if key in counts:
            continue
        nodes = all_nodes(body)
        called = [f for f in map(local, nodes) if f is not None]
        if ready:
            open_.discard(key)
            counts[key] = len(nodes) + sum(counts[id(f)] for f in called)
            if counts[key] > MOST_NODES:
                what = f"function {function.name}" if function is not None else "the model"
                raise TVMError(f"{what} has more than {MOST_NODES} nodes after its function calls are inlined")
            continue
        if key in open_:
            continue
        open_.add(key)
        stack.append((body, function, True))
        for f in called:
            if id(f) in open_:
                raise TVMError(f"function {f.name} is recursive; recursive functions are not supported")
            stack.append((f, f, False))


def all_nodes(body) -> list:
    """Return the nodes of a graph or function, including those of nested graphs."""
    out, stack = [], [body]
    while stack:
        for node in stack.pop().node:
            out.append(node)
            stack.extend(inner_graphs(node))
    return out


# -- order --------------------------------------------------------------------------------------------------


def in_order(nodes: Sequence) -> Sequence:
    """Return the nodes in topological order; the order of the model is kept if it is already topological."""
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                raise TVMError(
                    f"'{name}' is the output of two nodes: {where_of(nodes[makers[name]])} and {where_of(node)}"
                )
            makers[name] = i
    reads = [{makers[n] for n in _read_names(node) if n in makers} for node in nodes]
    if all(r < i for i, row in enumerate(reads) for r in row):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for i, row in enumerate(reads):
        for r in row:
            readers[r].append(i)
    missing = [len(row) for row in reads]
    ready = [i for i, count in enumerate(missing) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for reader in readers[i]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        first = next(i for i, count in enumerate(missing) if count)
        raise TVMError(f"{where_of(nodes[first])} depends on its own output: the graph has a cycle")
    return order


def _read_names(node) -> set[str]:
    """Return the names that a node reads, including those that its nested graphs capture from outer scopes."""
    names = set(node.input)
    stack = [(g, frozenset()) for g in inner_graphs(node)]
    while stack:
        graph, above = stack.pop()
        own = {v.name for v in (*graph.input, *graph.initializer)} | {s.values.name for s in graph.sparse_initializer}
        own = above | own | {o for n in graph.node for o in n.output}
        names |= {o.name for o in graph.output} - own
        for inner in graph.node:
            names |= set(inner.input) - own
            stack.extend((g, own) for g in inner_graphs(inner))
    names.discard("")
    return names


__all__ = [
    "MOST_NODES", "STANDARD", "all_nodes", "check_functions", "check_operators", "check_text", "full_name",
    "in_order", "node_name", "opset_table", "signature_fault", "version_of", "where_of",
]  # fmt: skip
