"""Schedules of heavy operators on GPUs, and what they share."""

from __future__ import annotations

import importlib


def __getattr__(name: str):
    """The classic names of dense layers, which are loaded when they are first asked for."""
    if name.startswith(("dense_", "schedule_dense_")):
        return getattr(importlib.import_module(".dense", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
