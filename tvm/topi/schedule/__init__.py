"""Schedules of operators, by pattern and by what a machine has."""

from __future__ import annotations

from ...error import OpNotImplemented
from ...target import Target
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from . import cpu, gpu


def family_of(target: Target) -> str | None:
    """The family of templates that are for a target: "cpu", "gpu", or None where there are none."""
    if "cpu" in target.keys or target.kind.name in ("llvm", "c"):
        return "cpu"
    return "gpu" if "gpu" in target.keys else None


_SCHEDULES = {"cpu": cpu.schedule_for, "gpu": gpu.schedule_for}


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """A schedule for the operations that make ``outs`` on ``target``."""
    family = family_of(target)
    if family is None:
        raise OpNotImplemented(f"no schedules for target kind {target.kind.name}; CPUs (llvm, c) and GPUs have them")
    return _SCHEDULES[family](outs, target)


__all__ = ["family_of", "schedule_for"]
