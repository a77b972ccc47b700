"""Tuners that traverse the indices of a space in order or at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from .tuner import Tuner


class IndexBaseTuner(Tuner):
    """A tuner over the indices from ``range_idx[0]`` to ``range_idx[1]`` (inclusive), or over the whole space.

    Parameters
    ----------
    task : Task
        The task.
    range_idx : tuple[int, int], optional
        The first and the last index; the whole space by default.
    """

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None):
        super().__init__(task)
        first, last = range_idx if range_idx is not None else (0, self.space.range_length - 1)
        if not 0 <= first <= last < self.space.range_length:
            raise ValueError(
                f"range_idx {range_idx} is out of range for a space of {self.space.range_length} configurations"
            )
        self.begin_idx, self.end_idx = first, last + 1
        self.range_length = self.end_idx - self.begin_idx
        self.visited_max = self.space.subrange_length(self.begin_idx, self.end_idx)

    @property
    def visited_num(self) -> int:
        return len(self.visited)

    def has_next(self) -> bool:
        return self.visited_num < self.visited_max

    def load_history(self, data_set: Iterable, min_seed_records: int = 500) -> None:
        super().load_history(data_set, min_seed_records)
        self.visited = {i for i in self.visited if self.begin_idx <= i < self.end_idx}


class GridSearchTuner(IndexBaseTuner):
    """A tuner that measures every configuration in the order of the indices.

    Parameters
    ----------
    task : Task
        The task.
    range_idx : tuple[int, int], optional
        The first and the last index; the whole space by default.
    """

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None):
        super().__init__(task, range_idx)
        self.index: int | None = self.begin_idx - 1
        self._advance()

    def _advance(self) -> None:
        """Advance to the next new index that the filters keep; None after the last one."""
        assert self.index is not None
        self.index = self.space.get_next_index(self.index, 1, self.begin_idx, self.end_idx)
        while self.index is not None and self.index in self.visited:
            self.index = self.space.get_next_index(self.index, 1, self.begin_idx, self.end_idx)

    def next_batch(self, batch_size: int) -> list[Any]:
        batch = []
        while len(batch) < batch_size and self.index is not None:
            if self.index not in self.visited:
                self.visited.add(self.index)
                batch.append(self.space.get(self.index))
            self._advance()
        return batch

    def reset(self) -> None:
        super().reset()
        self.index = self.begin_idx - 1
        self._advance()


class RandomTuner(IndexBaseTuner):
    """A tuner that measures random configurations, each at most once.

    Parameters
    ----------
    task : Task
        The task.
    range_idx : tuple[int, int], optional
        The first and the last index; the whole space by default.
    """

    def next_batch(self, batch_size: int) -> list[Any]:
        batch = []
        while len(batch) < batch_size and self.has_next():
            index = self._fresh_index()
            self.visited.add(index)
            batch.append(self.space.get(index))
        return batch

    def _fresh_index(self) -> int:
        for _ in range(64):
            index = random.randrange(self.begin_idx, self.end_idx)
            if index not in self.visited and self.space.is_index_valid(index):
                return index
        return self.space.get_rand_index(self.begin_idx, self.end_idx, to_exclude=self.visited)
