"""Schedules of operators, by pattern and by what a machine has."""

from __future__ import annotations

from ...error import OpNotImplemented
from ...target import Target
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from . import cpu, gpu


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """A schedule for the operations that make ``outs`` on ``target``."""
    if "cpu" in target.keys or target.kind.name in ("llvm", "c"):
        return cpu.schedule_for(outs, target)
    if "gpu" in target.keys:
        return gpu.schedule_for(outs, target)
    raise OpNotImplemented(f"no schedules for target kind {target.kind.name}; CPUs (llvm, c) and GPUs have them")


__all__ = ["schedule_for"]
