"""A tuning run: rounds of trials over all tasks of a model, and the choice of the winners in the records."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from . import events
from .budget import Budget
from .confirm import FINAL_ROUNDS, SHORT_FINAL_ROUNDS, UNCONFIRMED_MARGIN, Rounds, final_seconds, run_final_rounds
from .events import OnEvent, Stage
from .model import Model, expected_seconds
from .options import TuningOptions
from .records import Guard, RunRecords
from .result import TuningResult
from .search import Measurement, Outcome, Search, TuningError
from .state import USUAL_TRIAL_SECONDS, TaskState, TaskStatus
from .workers import close_pools

# Trials of a task in a round, and the minimum in its first round.
ROUND_TRIALS, SHORT_ROUND_TRIALS = 32, 4
# The fraction of the trials for all first rounds; the rest goes to tasks that still improve.
FIRST_ROUNDS_SHARE = 0.5
# The fraction of its time that a task must gain in an interleaved comparison to be accepted without a model comparison,
# and the fraction that a model must gain to count as faster.
CLEAR_GAIN, MODEL_MARGIN = 0.05, 0.01
# The fraction of a time budget for comparing whole models.
MODEL_SHARE = 0.2
# Seconds after the end of a time budget at which measuring stops.
GRACE = 2.0


class _TimeIsUp(Exception):
    """Raised in the middle of a batch: the remaining candidates are not measured."""


class TuningRun:
    """A tuning run over tasks.

    ``on_event`` receives all events (``tvm.tuning.events``). Records are written inside ``guard()``, which may delay
    signals. ``begin`` is the start of the user's time budget, as a value of ``clock.monotonic()``.
    """

    def __init__(
        self,
        searches: Sequence[Search],
        options: TuningOptions,
        on_event: OnEvent | None = None,
        model: Model | None = None,
        *,
        guard: Guard = contextlib.nullcontext,
        begin: float | None = None,
        clock: Any = time,
    ):
        self.options, self.model, self.clock = options, model, clock
        self.emit: OnEvent = on_event or (lambda event: None)
        self.budget = Budget(options, clock, begin)
        self.model_seconds = expected_seconds(len(searches)) if model is not None else 0.0
        if options.seconds and self.model_seconds > MODEL_SHARE * options.seconds:
            self.model, self.model_seconds = None, 0.0
        self.budget.reserved = self.model_seconds
        self.tasks = [TaskState(index, search) for index, search in enumerate(searches)]
        self.records = RunRecords(options.records, searches, guard)
        self.records_found = self._load()

    def _load(self) -> int:
        """Load earlier records; return the number of records in the output file."""
        resumed, prior = self.records.resumed(), self.records.prior(self.options.prior_records)
        for task in self.tasks:
            task.load(prior, resumed)
        if self.options.resumes:
            self.budget.trials_left -= sum(task.trials for task in self.tasks)
        return len(resumed)

    @property
    def statuses(self) -> tuple[TaskStatus, ...]:
        return tuple(task.status for task in self.tasks)

    def run(self) -> TuningResult:
        """Search, confirm the leaders, and compare the whole model."""
        options, left = self.options, self.budget.trials_left
        self.emit(
            events.RunStarted(
                self.statuses,
                self.records_found,
                options.trials,
                None if left == math.inf else int(left),
                options.seconds,
                self.budget.elapsed,
            )
        )
        self._search()
        self._confirm_all()
        self._compare_models()
        self.emit(events.RunFinished(self.statuses))
        return TuningResult(self.statuses)

    # -- searching -----------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        if self.options.baseline_first:
            self._measure_baselines()
        self.emit(events.StageStarted(Stage.SEARCH))
        for task, trials in self._first_rounds():
            if not self.budget.is_spent():
                self._measure(task, task.prior[: self.budget.limit(len(task.prior))])
                self.round(task, trials)
        while not self.budget.is_spent():
            waiting = [task for task in self.tasks if not task.is_done]
            if not waiting:
                break
            self.round(max(waiting, key=lambda t: t.cost * t.expected_gain / t.seconds_per_trial), ROUND_TRIALS)
        # A search without ``baseline_first`` does not measure the baseline itself, but its candidates must beat the
        # baseline in the end.
        self._measure_baselines()

    def _measure_baselines(self) -> None:
        if any(task.baseline_configs() for task in self.tasks):
            self.emit(events.StageStarted(Stage.BASELINE))
        for task in self.tasks:
            self._measure(task, task.baseline_configs())

    def _first_rounds(self) -> list[tuple[TaskState, int]]:
        """Run a first round for every task, with more trials for tasks in which the model spends more time. Tasks with
        earlier records are skipped."""
        new = [task for task in self.tasks if not task.trials and not task.is_done]
        total = sum(task.cost for task in new if task.measured) or 1.0
        left = self.budget.expected_trials(USUAL_TRIAL_SECONDS)
        pool = min(left * FIRST_ROUNDS_SHARE, ROUND_TRIALS * len(new))

        def size(task: TaskState) -> int:
            share = round(pool * task.cost / total) if task.measured else 0
            return min(max(share, SHORT_ROUND_TRIALS), ROUND_TRIALS)

        sizes = {task.index: size(task) for task in new}
        if sum(sizes.values()) > left:
            # With few trials for many tasks, each task gets the same number of trials.
            most = max(int(left) // max(len(self.tasks), 1), 1)
            sizes = {index: min(trials, most) for index, trials in sizes.items()}
        return [(task, sizes[task.index]) for task in sorted(new, key=lambda task: -task.cost)]

    def _reserve(self, task: TaskState) -> None:
        """Reserve the seconds of the final rounds, including those of ``task``."""
        waiting = [t for t in self.tasks if t is task or t.needs_confirmation()]
        self.budget.reserve(sum(map(final_seconds, waiting)) + self.model_seconds)

    def round(self, task: TaskState, trials: int) -> None:
        """Run a round of trials of a task."""
        trials, patience = self.budget.limit(trials), self.options.early_stopping
        if patience is not None:
            trials = min(trials, patience - task.trials_without_gain)
        self._reserve(task)
        if self.options.seconds:
            # Candidates of a batch that cannot be measured in time would be compiled in vain.
            room = (self.budget.seconds_left - self.budget.reserved) / task.seconds_per_trial
            trials = min(trials, max(int(room), SHORT_ROUND_TRIALS))
        if trials < 1 or not task.search.has_next():
            task.is_done = True
            return
        task.winner = None
        before, counted, begin = task.cost, task.trials, self.clock.monotonic()
        self.emit(events.RoundStarted(task.status, trials))
        fastest: float | None = None
        try:
            for batch in self._batches(task, trials):
                fastest = min((m.cost for m in batch if m.outcome is Outcome.MEASURED), default=None)
        except _TimeIsUp:
            pass
        except TuningError as problem:
            self._abandon(task, problem)
        finally:
            task.search_seconds += self.clock.monotonic() - begin
        self.emit(events.RoundFinished(task.status, fastest))
        task.expected_gain = 0.5 * (task.expected_gain + max(before - task.cost, 0.0) / before)
        is_stalled = patience is not None and task.trials_without_gain >= patience
        task.is_done = task.is_done or task.trials == counted or not task.search.has_next() or is_stalled

    def _batches(self, task: TaskState, trials: int) -> Iterator[list[Measurement]]:
        """Propose, build, run and learn, until ``trials`` candidates are measured or there are no more."""
        search = task.search
        while trials > 0 and search.has_next():
            keys = search.propose(min(search.batch_size, trials))
            if not keys:
                return
            batch = self._run_batch(task, keys)
            trials -= len(keys)
            yield batch
            search.learn(batch)

    def _run_batch(self, task: TaskState, keys: Sequence[Hashable], kept: list[Measurement] | None = None) -> Any:
        """Build and measure candidates; each measurement is processed immediately and appended to ``kept``."""
        built = task.search.build(keys)
        since = self.clock.monotonic()

        def take(measurement: Measurement) -> None:
            nonlocal since
            now = self.clock.monotonic()
            if kept is not None:
                kept.append(measurement)
            self._take(task, measurement, now - since)
            since = now

        return task.search.run(keys, built, take)

    def _measure(self, task: TaskState, keys: Sequence[Hashable]) -> None:
        """Measure given candidates: the baseline, which a candidate must beat to be used, or earlier leaders."""
        if not keys:
            return
        kept: list[Measurement] = []
        try:
            self._run_batch(task, keys, kept)
        except _TimeIsUp:
            pass
        try:
            # The search must not propose these candidates again.
            task.search.learn(kept)
        except TuningError as problem:
            self._abandon(task, problem)

    def _abandon(self, task: TaskState, problem: TuningError) -> None:
        task.is_done = True
        self.emit(events.SearchAbandoned(task.status, str(problem)))

    def _take(self, task: TaskState, measurement: Measurement, seconds: float) -> None:
        """Process a measurement; its record is written first."""
        best = task.cost if task.measured else math.inf
        self.records.append([task.search.encode(measurement)])
        task.note([measurement])
        is_baseline = measurement.key in task.search.baseline
        if not is_baseline:
            self.budget.trials_left -= 1
            task.trials += 1
            task.timed_trials += 1
            task.run_seconds += seconds
            task.trials_without_gain = 0 if task.cost < best else task.trials_without_gain + 1
        cost = measurement.cost if measurement.outcome is Outcome.MEASURED else None
        self.emit(events.TrialFinished(task.status, measurement.outcome, cost, is_baseline))
        if self.budget.is_time_up():
            raise _TimeIsUp

    # -- confirmation
    # ----------------------------------------------------------------------------------------------------

    def _confirm_all(self) -> None:
        """Confirm every task with new trials; tasks with the largest expected gain come first."""
        waiting = sorted((t for t in self.tasks if t.needs_confirmation()), key=lambda t: -_claimed_saving(t))
        if waiting:
            self.emit(events.StageStarted(Stage.CONFIRM))
        for index, task in enumerate(waiting):
            room = self.budget.seconds_left - self.model_seconds
            is_enough = sum(map(final_seconds, waiting[index:])) <= room
            if room > -GRACE:
                self.confirm(task, FINAL_ROUNDS if is_enough else SHORT_FINAL_ROUNDS)
            elif task.baseline is not None and _claimed_saving(task) < UNCONFIRMED_MARGIN * _baseline_seconds(task):
                # Without time for an interleaved comparison, a gain that may be noise is not used.
                self._use_baseline(task)

    def confirm(self, task: TaskState, rounds: Rounds = FINAL_ROUNDS) -> None:
        """Measure the leaders and the baseline of a task interleaved, and write the record of the winner."""
        winner, results = run_final_rounds(
            task, rounds, lambda m: self.emit(events.CandidateRejected(task.status, m.error)), self.clock
        )
        self._write_winner(task, winner, results)

    def _use_baseline(self, task: TaskState) -> None:
        """Write the baseline as the winner of the task."""
        key = task.baseline
        self._write_winner(task, key, {key: replace(task.measured[key], timestamp=self.clock.time())})

    def _write_winner(self, task: TaskState, winner: Hashable, results: dict[Hashable, Measurement]) -> None:
        """Write the final records of a task: the last line is the winner, the one before it the candidate it was
        compared with."""
        task.confirm(winner, results)
        others = [results[key] for key in task.search.baseline if key in results and key != winner]
        # The latest final record of a task is its winner.
        rows = [replace(other, timestamp=other.timestamp - other.elapsed) for other in others]
        self.records.append([task.search.encode(replace(row, final=True)) for row in (*rows, results[winner])])
        self.emit(events.TaskConfirmed(task.status))

    def _compare_models(self) -> None:
        """Use the tuned candidates only if they make the whole model faster; only this comparison includes the caches
        that kernels share and the layouts between them."""
        tuned = [task for task in self.tasks if task.measured and task.choice != task.baseline]
        if self.model is None or not tuned:
            return
        self.emit(events.StageStarted(Stage.WHOLE_MODEL))
        # Idle workers must not use a core that the model needs.
        close_pools()
        clear = [t for t in tuned if t.baseline is None or _claimed_saving(t) > CLEAR_GAIN * _baseline_seconds(t)]
        choices = [tuned, *([clear] if clear and len(clear) < len(tuned) else [])]
        lines = [[t.search.encode(t.measured[t.choice]) for t in choice] for choice in choices]
        seconds, ratios = self.model.compare(lines)
        ratio, choice = min(zip(ratios, choices), key=lambda pair: pair[0])
        if ratio > 1 - MODEL_MARGIN:
            choice = []
        for task in tuned:
            if task not in choice and task.baseline is not None:
                self._use_baseline(task)
        self.emit(events.ModelCompared(seconds, ratio, len(choice), len(tuned)))


def _baseline_seconds(task: TaskState) -> float:
    """Return the seconds that the model spends in a task without tuning; one second per execution if unknown."""
    return (task.baseline_cost or 1.0) * task.search.count


def _claimed_saving(task: TaskState) -> float:
    """Return the seconds of the model that the best candidate so far is estimated to save."""
    return _baseline_seconds(task) - task.cost


def tune(
    tasks: Sequence[Any],
    options: TuningOptions,
    on_event: OnEvent | None = None,
    model: Model | None = None,
    *,
    guard: Guard = contextlib.nullcontext,
    begin: float | None = None,
    clock: Any = time,
) -> TuningResult:
    """Tune tasks; records are appended to the record file of the options as they are measured.

    A task is a ``Search``, or has a method ``start_search()`` that returns one, like AutoTVM's tasks. If a model is
    given, the whole model is compared with and without the winners.
    """
    searches = [task.start_search() if hasattr(task, "start_search") else task for task in tasks]
    if not searches:
        return TuningResult()
    run = TuningRun(searches, options, on_event, model, guard=guard, begin=begin, clock=clock)
    try:
        return run.run()
    except BaseException:
        # Workers may still build or measure candidates that are no longer needed.
        close_pools()
        raise


__all__ = ["TuningRun", "tune"]
