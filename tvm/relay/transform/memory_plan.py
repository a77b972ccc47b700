"""Passes of Apache TVM that raise an error because they are not available."""

from .refused import MemoryPlan, StorageCoalesce

__all__ = ["MemoryPlan", "StorageCoalesce"]
