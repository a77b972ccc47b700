"""Sparse matrices."""

from __future__ import annotations

from ...not_built import name_of
from . import utils


def __getattr__(name: str):
    return name_of(__name__, name)


__all__ = ["utils"]
