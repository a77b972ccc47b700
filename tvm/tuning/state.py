"""A task of a run: its search, its trials, and its best candidate so far."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .search import Measurement, Outcome, Search

# The fraction of a task's time that the first round is expected to gain.
FIRST_EXPECTED_GAIN = 0.2
# Seconds of a trial before any was made.
USUAL_TRIAL_SECONDS = 0.1
# Leaders of earlier records that are measured again, here and now.
PRIOR_LEADERS = 4


@dataclass(frozen=True)
class TaskStatus:
    """A task at one moment, as events show it. Times are seconds of one execution; None where nothing ran."""

    # The index among the tasks of the run, and the number that the user knows it by.
    index: int
    number: int
    title: str
    count: int
    flop: float
    trials: int
    cost: float | None
    baseline_cost: float | None
    # The candidate that compiling takes from the records.
    choice: Hashable | None

    @property
    def model_seconds(self) -> float | None:
        """Seconds that one run of the model spends in the task."""
        return None if self.cost is None else self.cost * self.count

    @property
    def flops(self) -> float:
        """Operations a second of the best candidate."""
        return self.flop / self.cost if self.cost else 0.0


class TaskState:
    """A task with its search and what is known about it."""

    def __init__(self, index: int, search: Search):
        self.index, self.search = index, search
        self.number = search.number if search.number is not None else index
        # Trials so far, the baseline not counted, and those since the last gain.
        self.trials = self.trials_without_gain = 0
        # Seconds that the rounds of this run took, trials in them, and the seconds of running alone.
        self.search_seconds, self.timed_trials, self.run_seconds = 0.0, 0, 0.0
        # The last measurement of each candidate that ran.
        self.measured: dict[Hashable, Measurement] = {}
        # Candidates with a record in the output file.
        self.recorded: set[Hashable] = set()
        # The best of other runs' records: measured before anything else.
        self.prior: list[Hashable] = []
        # The fraction of the task's time that another round may gain; it falls while nothing is gained.
        self.expected_gain = FIRST_EXPECTED_GAIN
        self.is_done = False
        # The candidate that won the final rounds, once there were some, and after how many trials.
        self.winner: Hashable | None = None
        self.confirmed_at = 0

    @property
    def cost(self) -> float:
        """Seconds the model spends in the task with the best candidate so far; a second each where none ran."""
        return (self.cost_of(self.choice) if self.measured else 1.0) * self.search.count

    @property
    def seconds_per_trial(self) -> float:
        return self.search_seconds / self.timed_trials if self.timed_trials else USUAL_TRIAL_SECONDS

    @property
    def choice(self) -> Hashable:
        """The candidate that compiling takes from the records."""
        return self.winner if self.winner is not None else min(self.measured, key=self.cost_of)

    @property
    def baselines(self) -> list[Hashable]:
        """The configs that compiling chooses without tuning, as far as they ran."""
        return [key for key in self.search.baseline if key in self.measured]

    @property
    def baseline(self) -> Hashable | None:
        return next(iter(self.baselines), None)

    @property
    def baseline_cost(self) -> float | None:
        """Seconds of one execution without tuning."""
        return None if self.baseline is None else self.cost_of(self.baseline)

    @property
    def status(self) -> TaskStatus:
        search, ran = self.search, bool(self.measured)
        return TaskStatus(
            self.index, self.number, search.title, search.count, search.flop, self.trials,
            self.cost_of(self.choice) if ran else None, self.baseline_cost, self.choice if ran else None)

    def cost_of(self, key: Hashable) -> float:
        """Seconds of one execution of a candidate that ran."""
        return self.measured[key].cost

    def baseline_configs(self) -> list[Hashable]:
        """The configs that compiling chooses without tuning, as far as they have no record."""
        return [key for key in self.search.baseline if key not in self.recorded]

    def note(self, measurements: Sequence[Measurement]) -> None:
        """Keep what was measured; the last measurement of a candidate holds."""
        for measurement in measurements:
            self.recorded.add(measurement.key)
            if measurement.outcome is Outcome.MEASURED:
                self.measured[measurement.key] = measurement

    def load(self, prior: Sequence[Any], resumed: Sequence[Any]) -> None:
        """Take in earlier records: ``resumed`` are of the output file, ``prior`` ones only train and name leaders."""
        known = self.search.read(resumed)
        self.note(known)
        self.trials = len(self.recorded.difference(self.search.baseline))
        # A winner of final rounds holds only while nothing was measured after them.
        if known and known[-1].final and known[-1].key in self.measured:
            self.winner, self.confirmed_at = known[-1].key, self.trials
        others = [m for m in self.search.read(prior, anywhere=True) if m.outcome is Outcome.MEASURED]
        leaders = [m.key for m in sorted(others, key=lambda m: m.cost)]
        self.prior = [key for key in leaders if key not in self.recorded][:PRIOR_LEADERS]
        self.search.load(prior, resumed)

    def confirm(self, winner: Hashable, results: dict[Hashable, Measurement]) -> None:
        """Take the winner of the final rounds, and what these measured of it and of others."""
        for key, result in results.items():
            self.measured[key] = replace(result, costs=(statistics.median(result.costs),), final=key == winner)
        self.winner, self.confirmed_at = winner, self.trials

    def needs_confirmation(self) -> bool:
        """Whether something new seems better than the baseline."""
        others = [self.cost_of(key) for key in self.measured if key not in self.search.baseline]
        if not others or self.trials == self.confirmed_at:
            return False
        return self.baseline is None or min(others) < self.cost_of(self.baseline)


__all__ = ["PRIOR_LEADERS", "TaskState", "TaskStatus", "USUAL_TRIAL_SECONDS"]
