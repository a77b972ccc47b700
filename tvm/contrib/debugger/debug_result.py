"""What the debug executor leaves in a folder: the graph, results of nodes, a trace, and a page about the profile."""

from __future__ import annotations

import json
import os

from ...runtime.params import save_param_dict_to_file

GRAPH_DUMP_FILE_NAME = "_tvmdbg_graph_dump.json"
CHROME_TRACE_FILE_NAME = "_tvmdbg_execution_trace.json"
PROFILE_PAGE_FILE_NAME = "profile.html"
OUTPUT_TENSORS_FILE_NAME = "output_tensors.params"


class DebugResult:
    """The folder of one device under ``dump_path``."""

    def __init__(self, graph_json: str, device, dump_path: str):
        where = f"{device}".replace(")", "").upper().replace("(", "_")
        self.folder = os.path.join(dump_path, f"_tvmdbg_device_{where}")
        os.makedirs(self.folder, exist_ok=True)
        self._graph_json = graph_json
        self._write(GRAPH_DUMP_FILE_NAME, json.dumps(json.loads(graph_json), indent=4))

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def dump_output_tensor(self, tensors: dict) -> None:
        save_param_dict_to_file(tensors, os.path.join(self.folder, OUTPUT_TENSORS_FILE_NAME))

    def dump_chrome_trace(self, report) -> None:
        report.to_chrome_trace(os.path.join(self.folder, CHROME_TRACE_FILE_NAME))

    def dump_profile_page(self, report) -> str:
        """Write the page about a profile and the memory plan; its path."""
        from ...drawing.memory import memory_body, memory_of
        from ...drawing.page import page
        from ...drawing.profile import profile_body

        memory = memory_body(memory_of(self._graph_json))
        text = page("Profile", f"<h1>Profile</h1>{profile_body(report)}<h1>Memory plan</h1>{memory}")
        self._write(PROFILE_PAGE_FILE_NAME, text)
        return os.path.join(self.folder, PROFILE_PAGE_FILE_NAME)
