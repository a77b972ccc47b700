"""Facts about auto-scheduler tasks from their records, for the page of a tuning run."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from math import prod
from typing import Any

from ...auto_scheduler.choices import Choice, Row, load_rows
from ...auto_scheduler.compute_dag import ComputeDAG
from ...auto_scheduler.measure import MeasureResult
from ...auto_scheduler.search import SketchSearch, describe
from ...auto_scheduler.search_task import SearchTask
from ...auto_scheduler.utils import decode_workload_key, get_const_tuple
from ...dtype import info
from ...error import TVMError
from .roofline import machine


class SketchStory:
    """A task and its records. ``cpu`` is the CPU on which they were measured, or None if it is unknown."""

    def __init__(self, number: int, task: SearchTask, rows: Sequence[Row], count: int = 1, cpu: str | None = None):
        self.number, self.task, self.count, self.cpus = number, task, count, {cpu}
        self.rows: list[tuple[Row, MeasureResult]] = [(row, row.result) for row in rows]
        self.trials = [pair for pair in self.rows if not pair[0].final and pair[0].state is not None]
        self.failed = sum(result.error_no != 0 for _, result in self.rows)
        choice = Choice()
        for row in rows:
            choice.note(row)
        self.best = None if choice.row is None else (choice.row, choice.row.result)
        self.seconds = None if choice.row is None else choice.row.result.mean_cost
        untuned = [row.result.mean_cost for row in rows if row.state is None and row.result.error_no == 0]
        self.untuned = untuned[-1] if untuned else None

    @functools.cached_property
    def _dag(self) -> ComputeDAG | None:
        """Return the computation, if its workload is known."""
        try:
            return self.task.compute_dag
        except TVMError:
            return None

    @property
    def title(self) -> str:
        if self._dag is not None:
            return describe(self.task, self.count)
        name, sizes = decode_workload_key(self.task.workload_key)
        return f"{name[:8]} {'x'.join(map(str, (sizes or ())[:4]))}"

    @property
    def flop(self) -> float:
        return max(self._dag.flop_ct, 0.0) if self._dag is not None else 0.0

    @property
    def moved(self) -> int:
        """Return the size of arguments and output in bytes; 0 if it is unknown."""
        tensors = self._dag.tensors if self._dag is not None else ()
        return sum(prod(get_const_tuple(t.shape)) * info(t.dtype).bits // 8 for t in tensors)

    @property
    def intensity(self) -> float | None:
        return self.flop / self.moved if self.flop and self.moved else None

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the choices of the best candidate."""
        if self.best is None:
            return []
        state = self.best[0].state
        if state is None:
            return [("schedule", "that of the code without tuning")]
        if self._dag is None:
            return [("schedule", f"{len(state.transform_steps)} steps")]
        return [("schedule", self._dag.print_python_code_from_state(state))]


def stories_of(searches: Sequence[SketchSearch], records: str | None) -> list[Any]:
    """Return the stories of searches that were run on this machine."""
    rows = load_rows(records)[0] if records and os.path.isfile(records) else []
    here = machine()
    return [
        SketchStory(
            number if search.number is None else search.number,
            search.task,
            [row for row in rows if search.owns(row)],
            search.count,
            here.cpu if here else None,
        )
        for number, search in enumerate(searches)
    ]


def stories_in(records: str) -> list[Any]:
    """Return the stories of all tasks in a file."""
    tasks: dict[tuple[str, str], list[Row]] = {}
    for row in load_rows(records)[0]:
        tasks.setdefault((row.task.workload_key, row.task.target_text), []).append(row)
    return [SketchStory(number, rows[0].task, rows) for number, rows in enumerate(tasks.values())]


__all__ = ["SketchStory", "stories_in", "stories_of"]
