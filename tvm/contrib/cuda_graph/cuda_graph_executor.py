"""The graph executor with CUDA graphs, under the names of Apache TVM.

Every executor on ``tvm.cuda`` captures its run and replays it; the environment variable ``TVM_CUDA_GRAPH=0`` or
``module["graph_capture"](False)`` disables this.
"""

from __future__ import annotations

from ...error import TVMError
from .. import graph_executor


def create(graph_json_str, libmod, device) -> GraphModuleCudaGraph:
    """An executor of the graph on one CUDA device."""
    made = graph_executor.create(graph_json_str, libmod, device)
    return GraphModuleCudaGraph(made.module, keep=made)


class GraphModuleCudaGraph(graph_executor.GraphModule):
    """An executor whose run is captured once and then replayed."""

    def capture_cuda_graph(self) -> None:
        """Run the model and capture the run."""
        self.module["graph_capture"](True)
        super().run()
        if not self.module["graph_capture"]():
            raise TVMError(
                "capture_cuda_graph: cannot capture a run of this model: it calls host functions, or the "
                "device does not support graphs"
            )

    def run_cuda_graph(self) -> None:
        """Replay the captured run."""
        super().run()

    def run(self, **input_dict) -> None:
        """Set the given inputs and run; the first run captures."""
        if input_dict:
            self.set_input(**input_dict)
        if not self.module["graph_capture"]():
            self.capture_cuda_graph()
        else:
            self.run_cuda_graph()


__all__ = ["GraphModuleCudaGraph", "create"]
