"""The graph executor with times and results of single nodes."""

from __future__ import annotations

import array
import json
import os

from ...runtime import num_threads, profiling
from .. import graph_executor


def create(graph_json_str: str, libmod, device, dump_root: str | None = None) -> GraphModuleDebug:
    """An executor that can show its nodes."""
    made = graph_executor.create(graph_json_str, libmod, device)
    return GraphModuleDebug(made.module, device, graph_json_str, dump_root, keep=libmod)


def node_seconds(module, rounds: int) -> list[float]:
    """The median time of every node over several whole runs."""
    runs = []
    for _ in range(rounds):
        values = array.array("d")
        values.frombytes(bytes(module["profile_run"]()))
        runs.append(values)
    return [sorted(column)[len(runs) // 2] for column in zip(*runs)]


def rows_of(graph_json_str: str, seconds: list[float]) -> list[dict]:
    """One row for each kernel: name, duration, shapes, count."""
    graph = json.loads(graph_json_str)
    shapes, dtypes, rows = graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1], graph["node_row_ptr"]
    out = []
    for i, (node, took) in enumerate(zip(graph["nodes"], seconds)):
        if node["op"] == "null" or node["attrs"]["func_name"] == "__nop":
            continue
        entries = [rows[n] + k for n, k, _ in node["inputs"]] + list(range(rows[i], rows[i + 1]))
        text = ", ".join(f"{dtypes[e]}[{', '.join(str(d) for d in shapes[e])}]" for e in entries)
        out.append({"Name": node["attrs"]["func_name"], "seconds": took, "Argument Shapes": text, "Count": 1})
    return out


def profile(executor, graph_json_str: str, device, rounds: int = 10) -> profiling.Report:
    """A report of the time of every operator."""
    executor.run()
    rows = rows_of(graph_json_str, node_seconds(executor.module, rounds))
    total = sum(r["seconds"] for r in rows) or 1.0
    where = f"{device}".replace("(", "").replace(")", "")
    calls = [
        {
            "Name": r["Name"], "Duration (us)": profiling.Duration(r["seconds"] * 1e6),
            "Percent": profiling.Percent(100 * r["seconds"] / total), "Device": where, "Count": profiling.Count(1),
            "Argument Shapes": r["Argument Shapes"],
        }
        for r in rows
    ]
    whole = {where: {"Duration (us)": profiling.Duration(total * 1e6), "Percent": profiling.Percent(100.0)}}
    return profiling.Report(calls, whole, {"Number of threads": num_threads(), "Executor": "Graph"})


class GraphModuleDebug(graph_executor.GraphModule):
    """An executor whose nodes can be run and read one by one."""

    def __init__(self, module, device, graph_json_str: str, dump_root: str | None, keep=None):
        super().__init__(module, keep)
        self.device = device
        self.graph_json = graph_json_str
        self.graph = json.loads(graph_json_str)
        self.dump_root = dump_root
        if dump_root:
            folder = os.path.join(dump_root, "_tvmdbg_device_CPU_0")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "_tvmdbg_graph_dump.json"), "w", encoding="utf-8") as f:
                f.write(graph_json_str)

    def profile(self, collectors=None, **input_dict) -> profiling.Report:
        if input_dict:
            self.set_input(**input_dict)
        return profile(self, self.graph_json, self.device)

    def execute_node(self, node: int | str) -> None:
        self.module["execute_node"](self._node(node))

    def get_node_output(self, node: int | str, out_ind: int = 0):
        return self.module["get_node_output"](self._node(node), out_ind)

    def debug_get_output(self, node, out=None):
        """The result of a node after running everything before it."""
        number = self._node(node)
        for i in range(number + 1):
            self.module["execute_node"](i)
        got = self.module["get_node_output"](number, 0)
        if out is not None:
            got.copyto(out)
            return out
        return got

    def run_individual(self, number: int, repeat: int = 1, min_repeat_ms: int = 0) -> list[float]:
        """Seconds of every node, run alone."""
        self.run()
        return [self.run_individual_node(i, number, repeat)[0] for i in range(len(self.graph["nodes"]))]

    def run_individual_node(self, index: int, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0) -> list[float]:
        values = array.array("d")
        values.frombytes(bytes(self.module["time_node"](index, number, repeat)))
        return list(values)

    def _node(self, node: int | str) -> int:
        if isinstance(node, int):
            return node
        names = [n["name"] for n in self.graph["nodes"]]
        if node not in names:
            raise ValueError(f"there is no node named '{node}'")
        return names.index(node)
