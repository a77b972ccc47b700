"""What a cost model is, and the one that knows nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...error import not_defined
from ..measure import MeasureInput, MeasureResult
from ..search_task import SearchTask


class CostModel:
    """Scores states: the higher, the faster.

    A model with ``scores_rows`` can score states that were not made yet, from their features: ``predict_rows`` is given
    groups of them, each an array of states × stages × features.
    """

    scores_rows = False

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements.

        Parameters
        ----------
        inputs : list of MeasureInput
            The states that were measured, with their tasks.
        results : list of MeasureResult
            What was found of each.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "update")

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The score of each state; -inf for one that cannot be compiled.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        states : list of State or StateObject
            The states.

        Returns
        -------
        list of float

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "predict")

    def predict_rows(self, task: SearchTask, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The scores of the states of each group.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        groups : list of ndarray
            The features of states, each group an array of states × stages × features.

        Returns
        -------
        list of ndarray
            An array for each group, with a score for each of its states.

        Raises
        ------
        NotImplementedError
            The class has no ``scores_rows``.
        """
        raise not_defined(self, "predict_rows")


class RandomModel(CostModel):
    """Scores by chance."""

    scores_rows = True

    def __init__(self) -> None:
        self._generator = random.Random()

    def seed(self, number: int) -> None:
        """Begin another sequence of scores, which is the same for the same number.

        Parameters
        ----------
        number : int
            The seed.
        """
        self._generator.seed(number)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Nothing is learned: scores by chance do not depend on measurements.

        Parameters
        ----------
        inputs : list of MeasureInput
            The states that were measured.
        results : list of MeasureResult
            What was found of each.
        """

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        return [self._generator.random() for _ in states]

    def predict_rows(self, task: SearchTask, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(self.predict(task, group)) for group in groups]


class PythonBasedModel(CostModel):
    """To be derived from: ``update`` and ``predict`` are the user's."""


__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]
