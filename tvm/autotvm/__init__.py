"""AutoTVM: search for the fastest configuration of a template on a machine, and compile with the records of the
search."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import env, measure, record, task, utils
from .env import GLOBAL_SCOPE
from .measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch, measure_option
from .task import (
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    FallbackContext,
    get_config,
    register_topi_compute,
    register_topi_schedule,
    template,
)
from .task import ApplyGraphBest as apply_graph_best
from .task import ApplyHistoryBest as apply_history_best

if TYPE_CHECKING:
    from . import database, feature, graph_tuner, tophub, tuner
    from .measure.measure_methods import LocalBuilder, LocalRunner, RPCRunner
    from .measure.ray_methods import RayBuilder, RayRunner
    from .tuner import callback

_LAZY_MODULES = frozenset({"database", "feature", "graph_tuner", "tophub", "tuner"})
_LAZY_NAMES = {
    "LocalBuilder": "measure.measure_methods",
    "LocalRunner": "measure.measure_methods",
    "RPCRunner": "measure.measure_methods",
    "RayBuilder": "measure.ray_methods",
    "RayRunner": "measure.ray_methods",
    "callback": "tuner",
}


def __getattr__(name: str):
    if name in _LAZY_MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
