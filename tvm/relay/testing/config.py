"""The targets that tests of Relay graphs run on."""

from __future__ import annotations

from ...runtime import enabled
from ...runtime.devices import Device, device

_TARGETS = ("llvm", "cuda")


def ctx_list() -> list[tuple[str, Device]]:
    """Return (target, device) for each target that is enabled in the build and available on this machine."""
    return [(name, device(name, 0)) for name in _TARGETS if enabled(name)]


enabled_targets = ctx_list
