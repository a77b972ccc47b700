"""Dense layers under Apache TVM's names. The kind of batch affects only the name of the tuning task."""

from __future__ import annotations

from ..cuda import schedules
from .named import operators

dense_large_batch = dense_small_batch = operators("cuda")["dense"]
schedule_dense_large_batch = schedule_dense_small_batch = schedules("cuda")["schedule_dense"]

__all__ = ["dense_large_batch", "dense_small_batch", "schedule_dense_large_batch", "schedule_dense_small_batch"]
