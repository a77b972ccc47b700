"""What a cost model is, and the one that knows nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..measure import MeasureInput, MeasureResult
from ..search_task import SearchTask


class CostModel:
    """Scores states: the higher, the faster."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""
        raise NotImplementedError

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The score of each state; -inf for one that cannot be compiled."""
        raise NotImplementedError


class RandomModel(CostModel):
    """Scores by chance."""

    def __init__(self) -> None:
        self._generator = random.Random()

    def seed(self, number: int) -> None:
        self._generator.seed(number)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """There is nothing to learn."""

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        return [self._generator.random() for _ in states]


class PythonBasedModel(CostModel):
    """To be derived from: ``update`` and ``predict`` are the user's."""


__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]
