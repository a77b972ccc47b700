"""The state of a task in a run: its search, its trials, and its best candidate so far."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .search import Measurement, Outcome, Search

# The fraction of a task's time that the first round is expected to gain.
FIRST_EXPECTED_GAIN = 0.2
# Estimated seconds of a trial before the first one.
USUAL_TRIAL_SECONDS = 0.1
# Number of leaders from earlier records that are measured again in this run.
PRIOR_LEADERS = 4


@dataclass(frozen=True)
class TaskStatus:
    """A snapshot of a task for events. Times are seconds of one execution; None if nothing ran."""

    # The index among the tasks of the run, and the number under which the user knows the task.
    index: int
    number: int
    title: str
    count: int
    flop: float
    trials: int
    cost: float | None
    baseline_cost: float | None
    # The candidate that compilation uses from the records.
    choice: Hashable | None

    @property
    def model_seconds(self) -> float | None:
        """Return the seconds that one run of the model spends in the task."""
        return None if self.cost is None else self.cost * self.count

    @property
    def flops(self) -> float:
        """Return the operations per second of the best candidate."""
        return self.flop / self.cost if self.cost else 0.0


class TaskState:
    """A task with its search and its measurements."""

    def __init__(self, index: int, search: Search):
        self.index, self.search = index, search
        self.number = search.number if search.number is not None else index
        # Trials so far, without the baseline, and trials since the last gain.
        self.trials = self.trials_without_gain = 0
        # Seconds of the rounds of this run, number of trials in them, and seconds of running the candidates.
        self.search_seconds, self.timed_trials, self.run_seconds = 0.0, 0, 0.0
        # The last measurement of each candidate that ran.
        self.measured: dict[Hashable, Measurement] = {}
        # Candidates with a record in the output file.
        self.recorded: set[Hashable] = set()
        # The best candidates of records of other runs, which are measured first.
        self.prior: list[Hashable] = []
        # The fraction of the task's time that another round may gain; it decreases after rounds without gain.
        self.expected_gain = FIRST_EXPECTED_GAIN
        self.is_done = False
        # The winner of the final rounds, if they took place, and the number of trials before them.
        self.winner: Hashable | None = None
        self.confirmed_at = 0

    @property
    def cost(self) -> float:
        """Return the seconds that the model spends in the task with the best candidate so far; one second per execution
        if none ran."""
        return (self.cost_of(self.choice) if self.measured else 1.0) * self.search.count

    @property
    def seconds_per_trial(self) -> float:
        return self.search_seconds / self.timed_trials if self.timed_trials else USUAL_TRIAL_SECONDS

    @property
    def choice(self) -> Hashable:
        """The candidate that compilation uses from the records."""
        return self.winner if self.winner is not None else min(self.measured, key=self.cost_of)

    @property
    def baselines(self) -> list[Hashable]:
        """Return the default configurations of compilation that were measured successfully."""
        return [key for key in self.search.baseline if key in self.measured]

    @property
    def baseline(self) -> Hashable | None:
        return next(iter(self.baselines), None)

    @property
    def baseline_cost(self) -> float | None:
        """Return the seconds of one execution without tuning."""
        return None if self.baseline is None else self.cost_of(self.baseline)

    @property
    def status(self) -> TaskStatus:
        search, ran = self.search, bool(self.measured)
        return TaskStatus(
            self.index,
            self.number,
            search.title,
            search.count,
            search.flop,
            self.trials,
            self.cost_of(self.choice) if ran else None,
            self.baseline_cost,
            self.choice if ran else None,
        )

    def cost_of(self, key: Hashable) -> float:
        """Return the seconds of one execution of a candidate that ran."""
        return self.measured[key].cost

    def baseline_configs(self) -> list[Hashable]:
        """Return the default configurations of compilation that have no record."""
        return [key for key in self.search.baseline if key not in self.recorded]

    def note(self, measurements: Sequence[Measurement]) -> None:
        """Store measurements; the last measurement of a candidate replaces earlier ones."""
        for measurement in measurements:
            self.recorded.add(measurement.key)
            if measurement.outcome is Outcome.MEASURED:
                self.measured[measurement.key] = measurement

    def load(self, prior: Sequence[Any], resumed: Sequence[Any]) -> None:
        """Load earlier records: ``resumed`` are from the output file; ``prior`` ones only train the search and provide
        leaders."""
        known = self.search.read(resumed)
        self.note(known)
        self.trials = len(self.recorded.difference(self.search.baseline))
        # A winner of final rounds is valid only if nothing was measured after them.
        if known and known[-1].final and known[-1].key in self.measured:
            self.winner, self.confirmed_at = known[-1].key, self.trials
        others = [m for m in self.search.read(prior, anywhere=True) if m.outcome is Outcome.MEASURED]
        leaders = [m.key for m in sorted(others, key=lambda m: m.cost)]
        self.prior = [key for key in leaders if key not in self.recorded][:PRIOR_LEADERS]
        self.search.load(prior, resumed)

    def confirm(self, winner: Hashable, results: dict[Hashable, Measurement]) -> None:
        """Store the winner of the final rounds and their measurements."""
        for key, result in results.items():
            self.measured[key] = replace(result, costs=(statistics.median(result.costs),), final=key == winner)
        self.winner, self.confirmed_at = winner, self.trials

    def needs_confirmation(self) -> bool:
        """Return whether a new candidate seems better than the baseline."""
        others = [self.cost_of(key) for key in self.measured if key not in self.search.baseline]
        if not others or self.trials == self.confirmed_at:
            return False
        return self.baseline is None or min(others) < self.cost_of(self.baseline)


__all__ = ["PRIOR_LEADERS", "TaskState", "TaskStatus", "USUAL_TRIAL_SECONDS"]
