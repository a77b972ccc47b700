"""Schedules of operators, by pattern and by what a machine has."""

from __future__ import annotations

from collections.abc import Callable

from ...error import OpNotImplemented
from ...registry import Registry
from ...target import Target
from ...target.backend import templates_of
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from . import cpu, gpu

# By the family that the record of a back end names; a package outside this one may add its own.
SCHEDULES: Registry[Callable[[list[Tensor], Target], Schedule]] = Registry("family of schedules")
SCHEDULES.register("cpu", cpu.schedule_for)
SCHEDULES.register("gpu", gpu.schedule_for)


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """A schedule for the operations that make ``outs`` on ``target``."""
    schedule = SCHEDULES.get(templates_of(target))
    if schedule is None:
        raise OpNotImplemented(f"no schedules for target kind {target.kind}; CPUs (llvm, c) and GPUs have them")
    return schedule(outs, target)


__all__ = ["SCHEDULES", "schedule_for"]
