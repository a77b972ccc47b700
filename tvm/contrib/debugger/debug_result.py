"""The output folder of the debug executor: the graph, outputs of nodes, a trace, and a page about the profile."""

from __future__ import annotations

import json
import os
from typing import Any

from ...runtime.params import save_param_dict_to_file

GRAPH_DUMP_FILE_NAME = "_tvmdbg_graph_dump.json"
CHROME_TRACE_FILE_NAME = "_tvmdbg_execution_trace.json"
PROFILE_PAGE_FILE_NAME = "profile.html"
OUTPUT_TENSORS_FILE_NAME = "output_tensors.params"


class DebugResult:
    """The folder of one device under ``dump_path``, the nodes of the graph, and the times and outputs of the last
    run."""

    def __init__(self, graph_json: str, device, dump_path: str):
        where = f"{device}".replace(")", "").upper().replace("(", "_")
        self.folder = os.path.join(dump_path, f"_tvmdbg_device_{where}")
        os.makedirs(self.folder, exist_ok=True)
        self._graph_json = graph_json
        graph = json.loads(graph_json)
        self._nodes = _described(graph)
        self._times: list[list[float]] = [[] for _ in self._nodes]
        self._outputs: dict[str, Any] = {}
        self._write(GRAPH_DUMP_FILE_NAME, json.dumps(graph, indent=4))

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def get_graph_nodes(self) -> list[dict[str, Any]]:
        """The nodes of the graph: ``op`` is the function of a node, or "param" for an input or a weight; ``inputs`` are
        names; ``shape`` and ``attrs["T"]`` describe the first output."""
        return self._nodes

    def get_graph_node_shapes(self) -> list[list[int]]:
        """The shape of the first output of each node."""
        return [node["shape"] for node in self._nodes]

    def get_output_tensors(self) -> dict[str, Any]:
        """The outputs of the nodes in the last run, by name and index of the node and index of the output."""
        return dict(self._outputs)

    def set_times(self, times: list[list[float]]) -> None:
        """Store the seconds of each repeat of each node."""
        self._times = times

    def get_debug_result(self, sort_by_time: bool = True) -> str:
        """Return a table of the nodes with their times, the slowest first or in graph order, and the total."""
        means = [sum(t) / len(t) * 1e6 if t else 0.0 for t in self._times]
        total = sum(means)
        order = [i for i, node in enumerate(self._nodes) if node["op"] not in ("param", "__nop")]
        if sort_by_time:
            order.sort(key=lambda i: -means[i])
        rows = [["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs", "Measurements(us)"]]
        rows.append(["-" * len(cell) for cell in rows[0]])
        for i in order:
            node, each = self._nodes[i], [round(t * 1e6, 3) for t in self._times[i]]
            share = f"{100 * means[i] / total:.3f}" if total else "0.0"
            rows.append(
                [
                    node["name"],
                    node["op"],
                    f"{means[i]:.3f}",
                    share,
                    str(tuple(node["shape"])),
                    str(len(node["inputs"])),
                    str(node["outputs"]),
                    str(each),
                ]
            )
        rows.append(["Total_time", "-", f"{total:.3f}", "-", "-", "-", "-", "-"])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("".join(f"{cell:<{width}}  " for cell, width in zip(row, widths)) for row in rows)

    def dump_output_tensor(self, tensors: dict) -> None:
        self._outputs = dict(tensors)
        save_param_dict_to_file(tensors, os.path.join(self.folder, OUTPUT_TENSORS_FILE_NAME))

    def dump_chrome_trace(self, report) -> None:
        report.to_chrome_trace(os.path.join(self.folder, CHROME_TRACE_FILE_NAME))

    def dump_profile_page(self, report) -> str:
        """Write the page about a profile and the memory plan; return its path."""
        from ...drawing.memory import memory_body, memory_of
        from ...drawing.page import page
        from ...drawing.profile import profile_body

        memory = memory_body(memory_of(self._graph_json))
        text = page("Profile", f"<h1>Profile</h1>{profile_body(report)}<h1>Memory plan</h1>{memory}")
        self._write(PROFILE_PAGE_FILE_NAME, text)
        return os.path.join(self.folder, PROFILE_PAGE_FILE_NAME)


def _described(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of a graph with names instead of indices, and the type of their first output."""
    names = [node["name"] for node in graph["nodes"]]
    rows, shapes, dtypes = graph["node_row_ptr"], graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]
    described = []
    for number, node in enumerate(graph["nodes"]):
        attrs = dict(node.get("attrs", {}))
        name = "param" if node["op"] == "null" else attrs.get("func_name", node["op"])
        attrs["T"] = f"type: {dtypes[rows[number]]}"
        described.append({
            "name": node["name"], "op": name, "inputs": [names[i[0]] for i in node["inputs"]], "attrs": attrs,
            "shape": list(shapes[rows[number]]), "outputs": rows[number + 1] - rows[number],
        })  # fmt: skip
    return described
