"""Builders and runners of configurations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .measure import (
    Builder,
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Runner,
    create_measure_batch,
    measure_option,
)

if TYPE_CHECKING:
    from . import executor, local_executor, measure_methods
    from .local_executor import LocalExecutor
    from .measure_methods import LocalBuilder, LocalRunner, RPCRunner, request_remote

_METHODS = ("LocalBuilder", "LocalRunner", "RPCRunner", "request_remote")


def __getattr__(name: str):
    if name in ("measure_methods", "executor", "local_executor"):
        return importlib.import_module("." + name, __name__)
    if name == "LocalExecutor":
        return importlib.import_module(".local_executor", __name__).LocalExecutor
    if name in _METHODS:
        return getattr(importlib.import_module(".measure_methods", __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
