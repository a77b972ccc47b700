"""Weights that cost models start from: made beforehand (``benchmarks/auto_scheduler_weights.py``), one file for each
family of machines."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...target import Target
from ...target.cpu import resolve_cpu
from ..state_features import NAMES
from .forest import Forest

FOLDER = Path(__file__).parent / "starting_weights"


def family_of(target: Target) -> str:
    """The family of CPUs a target belongs to, by its architecture; "" for others, and for GPUs, whose kernels have
    features of their own."""
    if not target.features.is_cpu:
        return ""
    machine = resolve_cpu(target).triple.partition("-")[0]
    return machine if machine in ("aarch64", "x86_64") else ""


@lru_cache(maxsize=8)
def starting_weights(family: str) -> Forest | None:
    """What is known of a family beforehand; None where nothing is."""
    path = FOLDER / f"{family}.json"
    if not family or not path.exists():
        return None
    forest = Forest.from_json(path.read_text(encoding="utf-8"))
    # Weights over other features mean nothing.
    return forest if forest.names == NAMES else None


__all__ = ["FOLDER", "family_of", "starting_weights"]
