"""The old name of the graph executor."""

from __future__ import annotations

import warnings

from . import graph_executor


def create(*args, **kwargs):
    """Create a graph executor: ``create(graph_json, lib, device)``."""
    warnings.warn("tvm.contrib.graph_runtime is now tvm.contrib.graph_executor", DeprecationWarning, stacklevel=2)
    return graph_executor.create(*args, **kwargs)


GraphModule = graph_executor.GraphModule
