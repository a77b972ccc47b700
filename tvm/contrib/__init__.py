"""Utilities around the compiler: toolchains, files, external libraries."""

from __future__ import annotations

import importlib


def __getattr__(name: str):
    """Import a submodule at its first use, such as ``tvm.contrib.graph_executor``."""
    path = f"{__name__}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
