"""Functions under the names of Apache TVM."""

from __future__ import annotations

import json
from typing import Any

from ..runtime.container import Map
from . import queries
from .search_task import SearchTask


def _object(state: Any) -> Any:
    return getattr(state, "state_object", state)


def SerializeSearchTask(task: SearchTask) -> str:
    """Return the fields of a task in records, as text."""
    return json.dumps(task.to_json())


def DeserializeSearchTask(record: str) -> SearchTask:
    """Return the task for the text of ``SerializeSearchTask``."""
    return SearchTask.from_json(json.loads(record))


def SearchPolicyUtilsGetConsumers(task: Any, state: Any, stage_id: int) -> Map:
    """Return the stages that read a stage; inlined stages are replaced by their consumers."""
    return Map(dict.fromkeys(queries.Queries(task.compute_dag, _object(state)).consumers(int(stage_id)), 1))


def SearchPolicyUtilsIsElementwiseMatch(task: Any, state: Any, stage_id: int, target_stage_id: int) -> bool:
    return queries.Queries(task.compute_dag, _object(state)).is_elementwise_match(int(stage_id), int(target_stage_id))


def SearchPolicyUtilsIsTiled(stage: Any) -> bool:
    return queries.is_tiled(stage)


def SearchPolicyUtilsHasCacheReadStage(state: Any, stage_id: int) -> bool:
    return queries.has_cache_read(_object(state), stage_id)


def SearchPolicyUtilsHasCacheWriteStage(state: Any, stage_id: int) -> bool:
    return queries.has_cache_write(_object(state), stage_id)


def SearchPolicyUtilsHasRfactorStage(state: Any, stage_id: int) -> bool:
    return queries.has_rfactor(_object(state), stage_id)


def SearchPolicyUtilsHasCrossThreadReduction(state: Any, stage_id: int) -> bool:
    return queries.has_cross_thread_reduction(_object(state), stage_id)
