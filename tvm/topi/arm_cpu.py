"""The classic names of operators and schedules for ARM: those for every CPU, which ask what the processor can do."""

from __future__ import annotations

from . import generic
from .faces import face

globals().update({name: getattr(generic, name) for name in generic.__all__})
__getattr__ = face(__name__)

__all__ = [*generic.__all__]
