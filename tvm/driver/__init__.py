"""Drivers: ``tvm.lower`` and ``tvm.build`` for programs, and the command line ``tvmc`` for models."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .build_module import build, lower

__all__ = ["build", "lower"]


def __getattr__(name: str):
    # The runtime-only package contains the command line without the compiler.
    if name in ("build_module", "tvmc"):
        return importlib.import_module("." + name, __name__)
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(".build_module", __name__), name)
