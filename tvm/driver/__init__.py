"""Drivers: compile programs and, on the command line, whole models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .build_module import build, lower

__all__ = ["build", "lower"]


def __getattr__(name: str):
    # The runtime alone has the command line and no compiler.
    if name not in __all__:
        raise AttributeError(f"module 'tvm.driver' has no attribute '{name}'")
    from . import build_module

    return getattr(build_module, name)
