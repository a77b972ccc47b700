"""The unified static memory planner: offsets in memory pools for every tensor and workspace of a program."""

from __future__ import annotations

from . import analysis, transform, utils
from .planner import plan
from .utils import BufferInfo, BufferInfoAnalysis, PoolAllocation

__all__ = ["BufferInfo", "BufferInfoAnalysis", "PoolAllocation", "analysis", "plan", "transform", "utils"]
