"""Apache TVM's names of operators and schedules for ARM. They are aliases of the CPU implementations, which adapt to
the target's features."""

from __future__ import annotations

from . import generic
from .faces import face

globals().update({name: getattr(generic, name) for name in generic.__all__})
__getattr__ = face(__name__)

__all__ = [*generic.__all__]
