"""AutoScheduler: schedules found by search, from nothing but the computation (docs/auto_scheduler.md)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..not_built import name_of
from . import compute_dag, loop_state, utils, workload_registry
from .compute_dag import ComputeDAG, LayoutRewriteOption
from .loop_state import State
from .workload_registry import make_workload_key, register_workload

if TYPE_CHECKING:
    pass

_LAZY_NAMES: dict[str, str] = {}


def __getattr__(name: str):
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    return name_of(__name__, name)
