"""Utilities for scripts: ``progress`` shows the progress of long-running work."""

from __future__ import annotations

from ..not_built import name_of
from .progress import Progress, progress


def __getattr__(name: str):
    return name_of(__name__, name)


__all__ = ["Progress", "progress"]
