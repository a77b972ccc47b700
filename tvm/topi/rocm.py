"""The classic names of operators and schedules for AMD's GPUs: those for every GPU."""

from __future__ import annotations

from .cuda import schedules
from .faces import face
from .gpu.named import operators

_SCHEDULES, _OPERATORS = schedules("rocm"), operators("rocm")
globals().update(_SCHEDULES)
globals().update(_OPERATORS)
__getattr__ = face(__name__, _OPERATORS)

__all__ = [*_SCHEDULES, *_OPERATORS]
