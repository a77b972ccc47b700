"""Schedules of heavy operators on GPUs, and what they share."""

from __future__ import annotations

import importlib
import importlib.util


def __getattr__(name: str):
    """Classic names, which are loaded when they are first asked for: dense layers have theirs, all else is CUDA's."""
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    home = ".dense" if name.startswith(("dense_", "schedule_dense_")) else "..cuda"
    return getattr(importlib.import_module(home, __name__), name)
