"""Targets that tests of graphs run on."""

from __future__ import annotations

from ...runtime import enabled
from ...runtime.devices import Device, device

_TARGETS = ("llvm", "cuda")


def ctx_list() -> list[tuple[str, Device]]:
    """(target, device) of every target that can be compiled for and run here."""
    return [(name, device(name, 0)) for name in _TARGETS if enabled(name)]


enabled_targets = ctx_list
