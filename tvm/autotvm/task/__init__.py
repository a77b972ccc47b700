"""Tasks, templates, configuration spaces, and dispatch contexts that provide configurations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import dispatcher, entity, flop, space, task, topi_integration
from .dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    ApplyGraphBest,
    ApplyHistoryBest,
    DispatchContext,
    FallbackContext,
    clear_fallback_cache,
)
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .task import (
    Task,
    args_to_workload,
    compute_flop,
    create,
    deserialize_args,
    get_config,
    serialize_args,
    template,
)
from .topi_integration import TaskExtractEnv, get_workload, register_topi_compute, register_topi_schedule

if TYPE_CHECKING:
    from .relay_integration import extract_from_multiple_program, extract_from_program

# Extracting tasks from a model needs the graph compiler, which is in a higher layer than this package.
_FROM_RELAY = ("extract_from_program", "extract_from_multiple_program")


def __getattr__(name: str):
    if name in _FROM_RELAY or name == "relay_integration":
        module = importlib.import_module(".relay_integration", __name__)
        return module if name == "relay_integration" else getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
