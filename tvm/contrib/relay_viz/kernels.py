"""The graph of a compiled model: kernels as boxes, with their times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...drawing.graph import Edge, Node
from ...drawing.profile import short_name


def kernel_graph(lib: Any, profile: Any = None, weights: bool = False) -> tuple[list[Node], list[Edge]]:
    """The kernels of a compiled model as boxes, and the values that they pass as edges.

    Parameters
    ----------
    lib : GraphExecutorFactoryModule or str
        The return value of ``relay.build``, or the JSON text of its graph.
    profile : tvm.runtime.profiling.Report, optional
        A report of the debug executor, which contains the times.
    weights : bool
        Whether to draw parameters.

    Returns
    -------
    tuple of list of Node, and list of Edge
    """
    graph = json.loads(lib if isinstance(lib, str) else lib.get_graph_json())
    given = getattr(lib, "params", {})
    calls = [number for number, node in enumerate(graph["nodes"]) if is_kernel(node)]
    times = _times(graph, calls, profile)
    shapes, dtypes, rows = graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1], graph["node_row_ptr"]
    outputs = {node for node, _, _ in graph["heads"]}
    total, most = sum(times.values()), max(times.values(), default=0.0)
    boxes: list[Node] = []
    edges: list[Edge] = []
    for number, node in enumerate(graph["nodes"]):
        if node["op"] == "null" and node["name"] in given and not weights:
            continue
        kind = "output" if number in outputs else "" if node["op"] != "null" else "input"
        lines = [f"{dtypes[e]}{shapes[e]}" for e in range(rows[number], rows[number + 1])]
        if number in times:
            lines.insert(0, f"{times[number]:.1f} us, {times[number] / (total or 1.0):.1%}")
        if node["op"] == "null" and node["name"] in given:
            kind = "constant"
        title = node["name"] if node["op"] == "null" else short_name(node["attrs"]["func_name"])
        tip = "\n".join([node["name"], *lines, *(f"{k}: {v}" for k, v in node.get("attrs", {}).items())])
        boxes.append(Node(str(number), title, lines, kind, tip, times.get(number, 0.0) / (most or 1.0)))
        edges += [Edge(str(n), str(number)) for n in dict.fromkeys(n for n, _, _ in node["inputs"])]
    drawn = {node.key for node in boxes}
    return boxes, [edge for edge in edges if edge.start in drawn]


def is_kernel(node: Mapping[str, Any]) -> bool:
    """Whether a node of a compiled graph runs code, so that it is not an input or a view."""
    return node["op"] != "null" and node["attrs"]["func_name"] != "__nop"


def _times(graph: Mapping[str, Any], calls: list[int], profile: Any) -> dict[int, float]:
    """Return the microseconds of each kernel node."""
    if profile is None:
        return {}
    names = [graph["nodes"][number]["attrs"]["func_name"] for number in calls]
    if [call["Name"] for call in profile.calls] != names:
        raise ValueError(
            f"the profile is of another model: it contains {len(profile.calls)} kernel calls, but the "
            "model "
            f"has {len(names)}, or their names differ"
        )
    return {number: call["Duration (us)"].value for number, call in zip(calls, profile.calls)}


__all__ = ["is_kernel", "kernel_graph"]
