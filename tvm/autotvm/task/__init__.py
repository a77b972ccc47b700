"""Tasks, templates, spaces of configurations, and where configurations come from."""

from __future__ import annotations

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
