"""Comparison of the whole model with and without tuning records: a gain counts only if the whole model becomes
faster."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

# The number of rounds, and the minimum if they would take longer than the given number of seconds.
ROUNDS, LEAST_ROUNDS, SECONDS = 100, 20, 10.0
# Estimated seconds for building and comparing a model: per task, and for the rest.
SECONDS_PER_TASK, OTHER_SECONDS = 0.6, 3.0

Program = Callable[[], float]


class Comparison(NamedTuple):
    """The seconds of the model without tuning, and the fraction of this time with each choice of records."""

    seconds: float
    ratios: list[float]


class Model(Protocol):
    """A model that the engine compares with and without records."""

    def compare(self, choices: Sequence[Sequence[str]]) -> Comparison:
        """Compile and run the model without records, and with the record lines of each choice."""
        ...


def expected_seconds(tasks: int) -> float:
    """Return the estimated seconds of the comparison of a model with a number of tasks."""
    return SECONDS_PER_TASK * tasks + OTHER_SECONDS


def compare_programs(baseline: Program, others: Sequence[Program]) -> Comparison:
    """Run programs alternately; each call returns the seconds of a run. A disturbance affects all programs of a round,
    so the median of the ratios within rounds is returned."""
    programs = [baseline, *others]
    for program in programs:
        program()
    rounds: list[list[float]] = []
    begin = time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or len(rounds) < ROUNDS and time.perf_counter() - begin < SECONDS:
        # The programs take turns in running first.
        first = len(rounds) % len(programs)
        order = [*range(first, len(programs)), *range(first)]
        seconds = {i: programs[i]() for i in order}
        rounds.append([seconds[i] for i in range(len(programs))])
    ratios = [statistics.median(row[i] / row[0] for row in rounds) for i in range(1, len(programs))]
    return Comparison(sorted(row[0] for row in rounds)[len(rounds) // 5], ratios)


__all__ = ["Comparison", "Model", "Program", "compare_programs", "expected_seconds"]
