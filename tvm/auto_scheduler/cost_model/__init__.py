"""Cost models: which states are worth measuring."""

from __future__ import annotations

from .cost_model import CostModel, PythonBasedModel, RandomModel

__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]
