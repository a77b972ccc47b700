"""The unified static memory planner (USMP): it assigns every tensor and workspace of a program to an offset in a memory
pool."""

from __future__ import annotations

from . import analysis, transform, utils
from .planner import plan
from .utils import BufferInfo, BufferInfoAnalysis, PoolAllocation

__all__ = ["BufferInfo", "BufferInfoAnalysis", "PoolAllocation", "analysis", "plan", "transform", "utils"]
