"""The classic names of operators and schedules for AMD's GPUs: those for every GPU."""

from __future__ import annotations

from .cuda import schedules
from .faces import face

_SCHEDULES = schedules("rocm")
globals().update(_SCHEDULES)
__getattr__ = face(__name__)

__all__ = [*_SCHEDULES]
