"""A public path of passes that are not offered."""

from .refused import MemoryPlan, StorageCoalesce

__all__ = ["MemoryPlan", "StorageCoalesce"]
