"""Passes of the memory planner: annotate candidate pools, allocate inputs and outputs, replace allocations by
offsets."""

from __future__ import annotations

from .assign_pool_info import assign_pool_info
from .create_io_allocates import create_allocates_for_io
from .transform import convert_pool_allocations_to_offsets

__all__ = ["assign_pool_info", "convert_pool_allocations_to_offsets", "create_allocates_for_io"]
