"""Passes of Apache TVM that raise an error because they are not available."""

from .refused import ManifestAlloc, ManifestAllocPass

__all__ = ["ManifestAlloc", "ManifestAllocPass"]
