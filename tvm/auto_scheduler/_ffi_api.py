"""Functions by their classic names."""

from __future__ import annotations

from typing import Any

from . import queries


def _object(state: Any) -> Any:
    return getattr(state, "state_object", state)


def SearchPolicyUtilsGetConsumers(task: Any, state: Any, stage_id: int) -> dict[int, int]:
    """The stages that read a stage, those computed where they are used left out."""
    return dict.fromkeys(queries.Queries(task.compute_dag, _object(state)).consumers(int(stage_id)), 1)


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
