"""What the debug executor leaves in a folder: the graph, results of nodes, and a trace."""

from __future__ import annotations

import json
import os

from ...runtime.params import save_param_dict_to_file

GRAPH_DUMP_FILE_NAME = "_tvmdbg_graph_dump.json"
CHROME_TRACE_FILE_NAME = "_tvmdbg_execution_trace.json"
OUTPUT_TENSORS_FILE_NAME = "output_tensors.params"


class DebugResult:
    """The folder of one device under ``dump_path``."""

    def __init__(self, graph_json: str, device, dump_path: str):
        where = f"{device}".replace(")", "").upper().replace("(", "_")
        self.folder = os.path.join(dump_path, f"_tvmdbg_device_{where}")
        os.makedirs(self.folder, exist_ok=True)
        self._write(GRAPH_DUMP_FILE_NAME, json.dumps(json.loads(graph_json), indent=4))

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def dump_output_tensor(self, tensors: dict) -> None:
        save_param_dict_to_file(tensors, os.path.join(self.folder, OUTPUT_TENSORS_FILE_NAME))

    def dump_chrome_trace(self, report) -> None:
        report.to_chrome_trace(os.path.join(self.folder, CHROME_TRACE_FILE_NAME))
