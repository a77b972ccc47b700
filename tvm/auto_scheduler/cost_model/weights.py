"""Weights that cost models start from: made beforehand (``benchmarks/auto_scheduler_weights.py``), one file for each
family of machines."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...target import Target
from ...target.cpu import resolve_cpu
from .. import gpu_features, state_features
from .forest import Forest

FOLDER = Path(__file__).parent / "starting_weights"


# The family of GPUs, and those of CPUs, which are architectures.
NVIDIA, CPUS = "nvidia", ("aarch64", "x86_64")


def family_of(target: Target) -> str:
    """The family of machines a target belongs to; "" for others."""
    if target.features.is_nvidia:
        return NVIDIA
    if not target.features.is_cpu:
        return ""
    machine = resolve_cpu(target).triple.partition("-")[0]
    return machine if machine in CPUS else ""


def names_of(family: str) -> tuple[str, ...]:
    """The features that weights of a family are over."""
    return gpu_features.NAMES if family == NVIDIA else state_features.NAMES


@lru_cache(maxsize=8)
def starting_weights(family: str) -> Forest | None:
    """What is known of a family beforehand; None where nothing is."""
    path = FOLDER / f"{family}.json"
    if not family or not path.exists():
        return None
    forest = Forest.from_json(path.read_text(encoding="utf-8"))
    # Weights over other features mean nothing.
    return forest if forest.names == names_of(family) else None


__all__ = ["FOLDER", "family_of", "names_of", "starting_weights"]
