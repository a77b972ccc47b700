"""Write a program as the JSON text of the graph executor."""

from __future__ import annotations

import json

from ...dtype import numbered
from .program import Kind, Node, Program

# Functions that are built into the executor.
_BUILTIN = {Kind.VIEW: "__nop", Kind.COPY: "__copy"}


def graph_json(program: Program, list_constants: bool = True) -> str:
    """Return the JSON text of a program with a memory plan. Without ``list_constants`` the constants are not among
    the inputs of the executor."""
    assert program.plan is not None
    listed = (Kind.INPUT, Kind.CONSTANT) if list_constants else (Kind.INPUT,)
    names = _unique([n.name for n in program.nodes])
    attrs = {
        "dltype": ["list_str", [numbered(t.dtype) for _, t in program.entries()]],
        "device_index": ["list_int", [node.device for node, _ in program.entries()]],
        "storage_id": ["list_int", [e.storage for e in program.plan.entries]],
        "storage_offset": ["list_int", [e.offset for e in program.plan.entries]],
        "shape": ["list_shape", [[int(d) for d in t.shape] for _, t in program.entries()]],
    }
    graph = {
        "nodes": [_node(node, name) for node, name in zip(program.nodes, names)],
        "arg_nodes": [i for i, n in enumerate(program.nodes) if n.kind in listed],
        "heads": [[n, i, 0] for n, i in program.outputs],
        "attrs": attrs,
        "node_row_ptr": program.first_entries(),
    }
    return json.dumps(graph, indent=2)


def _node(node: Node, name: str) -> dict:
    if node.is_given:
        return {"op": "null", "name": name, "inputs": []}
    attrs = {
        "func_name": _BUILTIN.get(node.kind) or node.kernel.name,
        "num_inputs": str(len(node.inputs)),
        "num_outputs": str(len(node.types)),
        "flatten_data": "0",
        **node.attrs,
    }
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[n, i, 0] for n, i in node.inputs]}


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        out.append(name if count == 0 else f"{name}_{count}")
    return out


__all__ = ["graph_json"]
