"""Executors of compiled models that need no part of the compiler."""

from __future__ import annotations

from . import aot_executor
from .aot_executor import AotModule

__all__ = ["AotModule", "aot_executor"]
