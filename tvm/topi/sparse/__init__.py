"""Sparse matrices."""

from __future__ import annotations

from . import utils
from .csr import csrmm, csrmv, dense

__all__ = ["csrmm", "csrmv", "dense", "utils"]
