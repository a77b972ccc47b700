"""The interface of cost models, and a model with random scores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...error import not_defined
from ..measure import MeasureInput, MeasureResult
from ..search_task import SearchTask


class CostModel:
    """A cost model scores states: a higher score is faster.

    A model with ``scores_rows`` can score states from their features, before the states are created. ``predict_rows``
    receives groups of states, each an array of states × stages × features.
    """

    scores_rows = False

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements.

        Parameters
        ----------
        inputs : list of MeasureInput
            The measured states with their tasks.
        results : list of MeasureResult
            The result of each measurement.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "update")

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The score of each state; -inf for a state that cannot be compiled.

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
            The class does not implement it.
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
            The class does not implement it.
        """
        raise not_defined(self, "predict_rows")


class RandomModel(CostModel):
    """A cost model with random scores."""

    scores_rows = True

    def __init__(self) -> None:
        self._generator = random.Random()

    def seed(self, number: int) -> None:
        """Set the seed of the random scores.

        Parameters
        ----------
        number : int
            The seed.
        """
        self._generator.seed(number)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Do nothing: random scores do not depend on measurements.

        Parameters
        ----------
        inputs : list of MeasureInput
            The measured states.
        results : list of MeasureResult
            The result of each measurement.
        """

    def predict(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        return [self._generator.random() for _ in states]

    def predict_rows(self, task: SearchTask, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(self.predict(task, group)) for group in groups]


class PythonBasedModel(CostModel):
    """A base class for user-defined models, which implement ``update`` and ``predict``."""


__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]
