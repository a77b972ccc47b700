"""Compilation of graphs: kernels, memory plan, graph executor output, and the choice of executor and runtime."""

import importlib

from . import executor, executor_factory, options, runtime, te_compiler, utils
from .options import Executor, Runtime

__all__ = ["Executor", "Runtime"]


def __getattr__(name: str):
    # Imported on first access: the interpreter depends on modules that import this package first.
    if name in ("aot", "graph_executor_factory", "interpreter", "vm"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
