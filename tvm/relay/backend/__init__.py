"""From graphs to what runs them: kernels, memory plan, graph, and the choice of executor and runtime."""

import importlib

from . import executor, executor_factory, options, runtime, te_compiler, utils
from .options import Executor, Runtime

__all__ = ["Executor", "Runtime"]


def __getattr__(name: str):
    # The interpreter stands on the whole graph language, which needs this package first.
    if name in ("aot", "graph_executor_factory", "interpreter", "vm"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
