"""GPU templates and schedules of compute-intensive operators."""

from __future__ import annotations

import importlib
import importlib.util


def __getattr__(name: str):
    """Return an operator under its Apache TVM name on first use: dense layers have separate definitions, all others are
    those of CUDA."""
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    home = ".dense" if name.startswith(("dense_", "schedule_dense_")) else "..cuda"
    return getattr(importlib.import_module(home, __name__), name)
