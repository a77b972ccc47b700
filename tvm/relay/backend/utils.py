"""Names in compiled models."""

from __future__ import annotations


def mangle_module_name(mod_name: str | None) -> str:
    """Return the prefix of the kernel names of a model."""
    return f"tvmgen_{mod_name}" if mod_name else "tvmgen"


__all__ = ["mangle_module_name"]
