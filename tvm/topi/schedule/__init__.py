"""Schedules of operators, by pattern and by what a machine has."""

from __future__ import annotations

from ...error import OpNotImplemented
from ...target import Target
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from . import cpu


def schedule_for(outs: list[Tensor], target: Target) -> Schedule:
    """A schedule for the operations that make ``outs`` on ``target``."""
    if "cpu" in target.keys or target.kind.name in ("llvm", "c"):
        return cpu.schedule_for(outs, target)
    raise OpNotImplemented(f"no schedules for target kind {target.kind.name}; the CPU targets llvm and c have them")


__all__ = ["schedule_for"]
