"""The whole model, with and without tuning records: a gain that does not show there is none."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

# Rounds, fewer where they would take longer than so many seconds.
ROUNDS, LEAST_ROUNDS, SECONDS = 100, 20, 10.0
# Seconds of building and comparing a model, for each of its tasks and for the rest, before they are known.
SECONDS_PER_TASK, OTHER_SECONDS = 0.6, 3.0

Program = Callable[[], float]


class Comparison(NamedTuple):
    """Seconds of the model without tuning, and what part of them the model takes with each choice of records."""

    seconds: float
    ratios: list[float]


class Model(Protocol):
    """A model that the engine compares with and without records."""

    def compare(self, choices: Sequence[Sequence[str]]) -> Comparison:
        """Compile and run the model without records, and with the lines of each choice."""
        ...


def expected_seconds(tasks: int) -> float:
    """About how long the comparison of a model with so many tasks takes."""
    return SECONDS_PER_TASK * tasks + OTHER_SECONDS


def compare_programs(baseline: Program, others: Sequence[Program]) -> Comparison:
    """Run programs in turn; each call gives the seconds of a run. What disturbs a round disturbs all of it, so the
    ratios within rounds count, and their median."""
    programs = [baseline, *others]
    for program in programs:
        program()
    rounds: list[list[float]] = []
    begin = time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or len(rounds) < ROUNDS and time.perf_counter() - begin < SECONDS:
        # Every program comes first in turn.
        first = len(rounds) % len(programs)
        order = [*range(first, len(programs)), *range(first)]
        seconds = {i: programs[i]() for i in order}
        rounds.append([seconds[i] for i in range(len(programs))])
    ratios = [statistics.median(row[i] / row[0] for row in rounds) for i in range(1, len(programs))]
    return Comparison(sorted(row[0] for row in rounds)[len(rounds) // 5], ratios)


__all__ = ["Comparison", "Model", "Program", "compare_programs", "expected_seconds"]
