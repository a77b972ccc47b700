"""Passes of Apache TVM that are not available, with the reasons."""

from __future__ import annotations

from typing import Any

from ...docstring import docstring
from ...error import TVMError

_MEMORY = (
    "memory is planned in the compiled program and not in Relay; compile with relay.vm.compile, whose bytecode "
    "shows every alloc_storage and alloc_tensor"
)

REASONS = {
    "ManifestAlloc": _MEMORY,
    "ManifestLifetimes": _MEMORY,
    "ManifestAllocPass": _MEMORY,
    "MemoryPlan": _MEMORY,
    "StorageCoalesce": _MEMORY,
    "FirstOrderGradient": "models are compiled for inference; differentiate in the training framework",
    "gradient": "models are compiled for inference; differentiate in the training framework",
    "LazyGradientInit": "it serves automatic differentiation only, and models are compiled for inference",
    "ToCPS": "it serves automatic differentiation only, and models are compiled for inference",
}


def _refuse(name: str):
    def make(*_: Any, **__: Any):
        raise TVMError(f"{name} is not available: {REASONS[name]}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = docstring(f"Not available: {REASONS[name]}.", (), raises=("TVMError", "Always, with the reason."))
    return make


FirstOrderGradient = _refuse("FirstOrderGradient")
gradient = _refuse("gradient")
LazyGradientInit = _refuse("LazyGradientInit")
ToCPS = _refuse("ToCPS")
ManifestAlloc = _refuse("ManifestAlloc")
ManifestLifetimes = _refuse("ManifestLifetimes")
ManifestAllocPass = _refuse("ManifestAllocPass")
MemoryPlan = _refuse("MemoryPlan")
StorageCoalesce = _refuse("StorageCoalesce")

__all__ = [
    "FirstOrderGradient", "LazyGradientInit", "ManifestAlloc", "ManifestAllocPass", "ManifestLifetimes", "MemoryPlan",
    "StorageCoalesce", "ToCPS", "gradient",
]  # fmt: skip
