"""The auto-scheduler: it searches for schedules from the computation alone, without templates
(docs/auto_scheduler.md)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..not_built import name_of
from . import compute_dag, loop_state, utils, workload_registry
from .compute_dag import ComputeDAG, LayoutRewriteOption
from .loop_state import State
from .workload_registry import make_workload_key, register_workload

if TYPE_CHECKING:
    from . import (
        _ffi_api,
        cost_model,
        dispatcher,
        feature,
        measure,
        measure_record,
        relay_integration,
        search_policy,
        search_task,
        task_scheduler,
    )
    from .cost_model import RandomModel, XGBModel
    from .dispatcher import ApplyHistoryBest, ApplyHistoryBestOrSample, DispatchContext
    from .measure import (
        LocalBuilder,
        LocalRPCMeasureContext,
        LocalRunner,
        MeasureInput,
        MeasureResult,
        RPCRunner,
        register_task_input_check_func,
    )
    from .ray_measure import RayBuilder, RayRunner
    from .measure_record import RecordReader, RecordToFile, load_best_record, load_records, save_records
    from .relay_integration import extract_tasks, is_auto_scheduler_enabled
    from .search_policy import EmptyPolicy, PreloadCustomSketchRule, PreloadMeasuredStates, SketchPolicy
    from .search_task import HardwareParams, SearchTask, TuningOptions, auto_schedule, create_task
    from .task_scheduler import PrintTableInfo, TaskScheduler, TaskSchedulerCallback

# Modules for searching and measuring are imported at the first use of one of their names.
_LAZY_MODULES = frozenset(
    {
        "_ffi_api",
        "cost_model",
        "dispatcher",
        "feature",
        "measure",
        "measure_record",
        "relay_integration",
        "search_policy",
        "search_task",
        "task_scheduler",
    }
)
_LAZY_NAMES = {
    name: module
    for module, names in {
        "cost_model": "RandomModel XGBModel",
        "dispatcher": "ApplyHistoryBest ApplyHistoryBestOrSample DispatchContext",
        "measure": "LocalBuilder LocalRPCMeasureContext LocalRunner MeasureInput MeasureResult RPCRunner"
        " register_task_input_check_func",
        "measure_record": "RecordReader RecordToFile load_best_record load_records save_records",
        "ray_measure": "RayBuilder RayRunner",
        "relay_integration": "extract_tasks is_auto_scheduler_enabled",
        "search_policy": "EmptyPolicy PreloadCustomSketchRule PreloadMeasuredStates SketchPolicy",
        "search_task": "HardwareParams SearchTask TuningOptions auto_schedule create_task",
        "task_scheduler": "PrintTableInfo TaskScheduler TaskSchedulerCallback",
    }.items()
    for name in names.split()
}


def __getattr__(name: str):
    if name in _LAZY_MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    return name_of(__name__, name)
