"""Coordinate descent: move from a point of the space to its best neighbour, and search further away if no neighbour is
better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from ..measure.measure import MeasureInput, MeasureResult
from .tuner import Tuner

# A round contains all neighbours that differ in one knob, and neighbours that differ in two until it has this size.
_BATCH = 16


class DropletTuner(Tuner):
    """A tuner that uses coordinate descent. It measures the points around the best one, moves to a point that is
    significantly faster, and searches further away if there is none.

    Parameters
    ----------
    task : Task
        The task.
    start_position : list of int, optional
        The start point as the choice of each knob; the first choice of each by default.
    pvalue : float
        The maximum p-value of a measured improvement for a point to become the best one.
    """

    def __init__(self, task: Any, start_position: Sequence[int] | None = None, pvalue: float = 0.05):
        super().__init__(task)
        self.dims = list(self.space.dims)
        if start_position is not None and (
            len(start_position) != len(self.dims) or not all(0 <= k < d for k, d in zip(start_position, self.dims))
        ):
            raise ValueError(
                f"start_position {list(start_position)} is not a point of the space with the dimensions {self.dims}"
            )
        self.start_position = list(start_position) if start_position is not None else [0] * len(self.dims)
        self.pvalue, self.batch = pvalue, _BATCH
        self.total_execution = max(self.dims, default=1)
        self._start()

    def _start(self) -> None:
        # Index, knobs and times of the best point; none is measured yet.
        self.best_choice: tuple[int, list[int], list[float]] = (-1, list(self.start_position), [math.inf])
        self.execution = self.step = 1
        index: int | None = self.space.knob2point(self.start_position)
        if not self.space.is_index_valid(index):
            index = self.space.get_next_index(index) or self.space.get_next_index(index, -1)
        # Points of this round that are not proposed yet.
        self.next = [] if index is None else [(index, self.space.point2knob(index))]
        self.visited = {i for i, _ in self.next}
        self._found = False

    def has_next(self) -> bool:
        return bool(self.next)

    def next_batch(self, batch_size: int) -> list[Any]:
        taken, self.next = self.next[:batch_size], self.next[batch_size:]
        self.visited.update(i for i, _ in taken)
        return [self.space.get(i) for i, _ in taken]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            self.visited.add(inp.config.index)
            costs = list(result.costs) if result.error_no == 0 else [math.inf]
            if p_value(costs, self.best_choice[2]) <= self.pvalue:
                self.best_choice = (inp.config.index, self.space.point2knob(inp.config.index), costs)
                self._found = True
        self.next = [point for point in self.next if point[0] not in self.visited]
        if not self.next:
            self._next_round()

    def _next_round(self) -> None:
        """Fill ``next`` with the points around the best one: its neighbours if it is new, otherwise more and more
        distant ones."""
        self.execution = self.step = 1 if self._found else self.step + 1
        self._found = False
        while not self.next and self.step <= self.total_execution:
            self.next = self._around(self.best_choice[1], self.step)
            if not self.next:
                self.execution = self.step = self.step + 1

    def _around(self, knobs: Sequence[int], step: int) -> list[tuple[int, list[int]]]:
        """Return the points at distance ``step`` in one or two knobs that were not visited, by index: all that differ
        in one knob, and enough that differ in two to fill a batch."""
        found: dict[int, list[int]] = {}
        moves = [
            zip(places, signs)
            for count in (1, 2)
            for places in combinations(range(len(self.dims)), count)
            for signs in product((step, -step), repeat=count)
        ]
        alone = 2 * len(self.dims)
        for number, move in enumerate(moves):
            if number >= alone and len(found) >= self.batch:
                break
            point = list(knobs)
            for place, change in move:
                point[place] += change
            if not all(0 <= k < d for k, d in zip(point, self.dims)):
                continue
            index = self.space.knob2point(point)
            if index not in self.visited and self.space.is_index_valid(index):
                found[index] = point
        return list(found.items())

    def reset(self) -> None:
        super().reset()
        self._start()


def p_value(costs: Sequence[float], best: Sequence[float]) -> float:
    """Return the p-value of the hypothesis that ``costs`` are smaller than ``best`` by chance: Welch's statistic with a
    normal distribution. It is 0 or 1 if the times do not vary or there is only one."""
    means = [sum(c) / len(c) for c in (costs, best)]
    if not means[0] < means[1]:
        return 1.0
    if math.inf in means or min(len(costs), len(best)) < 2:
        return 0.0
    variance = sum(sum((x - m) ** 2 for x in c) / (len(c) - 1) / len(c) for c, m in zip((costs, best), means))
    return 0.0 if variance == 0 else math.erfc((means[1] - means[0]) / math.sqrt(2 * variance)) / 2


__all__ = ["DropletTuner"]
