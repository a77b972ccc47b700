"""Apache TVM's names of operators and schedules for Mali GPUs. They are aliases of the generic GPU implementations."""

from __future__ import annotations

from .cuda import schedules
from .faces import face
from .gpu.named import operators

_SCHEDULES, _OPERATORS = schedules("opencl -device=mali"), operators("opencl -device=mali")
globals().update(_SCHEDULES)
globals().update(_OPERATORS)

__getattr__ = face(__name__, _OPERATORS)

__all__ = [*_SCHEDULES, *_OPERATORS]
