"""Schedules of operators, chosen by pattern and target."""

from __future__ import annotations

from collections.abc import Callable

from ...error import OpNotImplemented
from ...registry import Registry
from ...target import Target
from ...target.backend import templates_of
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from . import cpu, gpu

# Schedules by the family in the record of a back end. External packages may add entries.
SCHEDULES: Registry[Callable[[list[Tensor], Target], Schedule]] = Registry("family of schedules")
SCHEDULES.register("cpu", cpu.schedule_for)
SCHEDULES.register("gpu", gpu.schedule_for)


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """The schedule for the operations that compute ``outs`` on ``target``."""
    schedule = SCHEDULES.get(templates_of(target))
    if schedule is None:
        raise OpNotImplemented(f"target kind {target.kind} has no schedules; use a CPU (llvm, c) or a GPU target")
    return schedule(outs, target)


__all__ = ["SCHEDULES", "schedule_for"]
