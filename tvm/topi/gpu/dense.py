"""Dense layers by their classic names: what a batch is called decides on the name of its task alone."""

from __future__ import annotations

from ..cuda import schedules
from .named import operators

dense_large_batch = dense_small_batch = operators("cuda")["dense"]
schedule_dense_large_batch = schedule_dense_small_batch = schedules("cuda")["schedule_dense"]

__all__ = ["dense_large_batch", "dense_small_batch", "schedule_dense_large_batch", "schedule_dense_small_batch"]
