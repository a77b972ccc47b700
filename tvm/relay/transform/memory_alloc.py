"""A public path of passes that are not offered."""

from .refused import ManifestAlloc, ManifestAllocPass

__all__ = ["ManifestAlloc", "ManifestAllocPass"]
