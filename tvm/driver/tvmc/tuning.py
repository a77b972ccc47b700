"""Tuning all the tasks of a model: where the next trials go, and which configuration is crowned in the end."""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any, NamedTuple

from ... import autotvm
from ...autotvm.measure.measure import MeasureInput, MeasureResult, create_measure_batch
from ...autotvm.measure.workers import close_pools
from ...autotvm.record import load_from_file
from ...autotvm.task.dispatcher import mean_cost
from ...autotvm.tuner import Tuner, TuningError

# Trials a task gets at a time; every task gets one such turn before any gets a second.
TURN = 32
# Leaders measured side by side before one is crowned: how many, and how often each, in the first and second heat.
HEATS = ((8, 3), (3, 6))
# What a configuration must gain over the choice without tuning to replace it.
MARGIN = 0.02
# About what the crowning of a task takes, in seconds: a time budget keeps it back.
CROWNING = 1.5


class Settings(NamedTuple):
    """What the user asked for."""

    records: str
    prior_records: str | None
    trials: int
    seconds: float | None
    early_stopping: int | None
    tuner: str
    number: int
    repeat: int
    min_repeat_ms: int
    timeout: float
    analytic_start: bool


def make_tuner(name: str, task: Any, start: bool) -> Tuner:
    """A tuner by its name on the command line."""
    if name == "ga":
        return autotvm.tuner.GATuner(task, pop_size=50)
    if name == "random":
        return autotvm.tuner.RandomTuner(task)
    if name == "gridsearch":
        return autotvm.tuner.GridSearchTuner(task)
    rest = name.removeprefix("xgb").strip("_")
    loss = next((text for text in ("rank_binary", "rank") if rest.startswith(text)), "")
    feature = rest.removeprefix(loss).strip("_") or "itervar"
    kind = loss.replace("_", "-") or "reg"
    return autotvm.tuner.XGBTuner(task, plan_size=TURN, feature_type=feature, loss_type=kind, start=start)


class Work:
    """A task with its tuner and what is known about it."""

    def __init__(self, number: int, total: int, task: Any, settings: Settings):
        self.task, self.settings = task, settings
        self.prefix = f"[Task {number + 1:2d}/{total:2d}] "
        self.tuner = make_tuner(settings.tuner, task, settings.analytic_start)
        self.tuned = self.without_gain = 0
        self.best: dict[int, tuple[MeasureInput, MeasureResult]] = {}
        self.untuned: float | None = None
        # What another turn may bring, as a share of the task's time; falls while nothing is gained.
        self.hope = 1.0
        self.over = False
        # The configuration that won the side by side measurement, once there was one, and after how many trials.
        self.winner: int | None = None
        self.crowned_at = 0
        # Configurations with a record in the output file: they are not measured again, whether they ran or failed.
        self.known: set[int] = set()

    @property
    def cost(self) -> float:
        """Seconds the model spends in it with the best configuration so far."""
        if self.winner is not None:
            return self.costs(self.winner) * self.task.count
        return min((mean_cost(r) for _, r in self.best.values()), default=1.0) * self.task.count

    def costs(self, index: int) -> float:
        """Seconds of a configuration that ran."""
        return mean_cost(self.best[index][1])

    def crown(self, index: int, results: dict[int, MeasureResult]) -> None:
        """The winner, and what the last heat measured of it and of others."""
        for other, result in results.items():
            middle = result._replace(costs=(_middle(list(result.costs)),))
            inp = MeasureInput(*self.best[other][0])
            inp.final = other == index
            self.best[other] = (inp, middle)
            if other in self.task.config_space.start:
                self.untuned = middle.costs[0]
        self.winner, self.crowned_at = index, self.tuned

    def note(self, inputs: Any, results: Any) -> None:
        """Keep what was measured; the last measurement of a configuration holds."""
        for inp, result in zip(inputs, results):
            if result.error_no == 0:
                self.best[inp.config.index] = (inp, result)
                self.winner = inp.config.index if inp.final else self.winner
                if inp.config.index in self.task.config_space.start:
                    self.untuned = mean_cost(result)

    def load(self, records: list[tuple[MeasureInput, MeasureResult]], own: list) -> None:
        inputs, results = self.tuner.own_records(own)
        self.note(inputs, results)
        self.known = {inp.config.index for inp in inputs}
        self.tuned = self.crowned_at = len(inputs)
        finals = [inp.final for inp, _ in own if inp.task.workload == self.task.workload]
        if finals and not finals[-1]:
            self.crowned_at = 0
        self.tuner.load_history([*records, *own], min_seed_records=64)


class Run:
    """One run of ``tvmc tune``."""

    def __init__(self, tasks: list[Any], settings: Settings):
        self.settings = settings
        searching = max((settings.seconds or 0.0) - CROWNING * len(tasks), 0.5 * (settings.seconds or 0.0))
        self.deadline = time.monotonic() + searching if settings.seconds else float("inf")
        self.work = [Work(i, len(tasks), task, settings) for i, task in enumerate(tasks)]
        runner = autotvm.LocalRunner(
            timeout=settings.timeout, number=settings.number, repeat=settings.repeat,
            min_repeat_ms=settings.min_repeat_ms, cooldown_interval=0,
        )
        self.option = autotvm.measure_option(autotvm.LocalBuilder(timeout=settings.timeout), runner)
        self.log = autotvm.callback.log_to_file(settings.records)
        self.load()

    def load(self) -> None:
        """Earlier records: those of the output file are of this very run, stopped before."""
        own = list(load_from_file(self.settings.records)) if os.path.isfile(self.settings.records) else []
        prior = self.settings.prior_records
        known = list(load_from_file(prior)) if prior and prior != self.settings.records else []
        for work in self.work:
            work.load(known, own)

    @property
    def left(self) -> int:
        return self.settings.trials - sum(w.tuned for w in self.work)

    def per_task(self) -> int:
        return max(1, self.settings.trials // len(self.work))

    def go(self) -> None:
        for work in self.work:
            self.measure_untuned(work)
        for work in self.work:
            if not self.is_over() and not work.tuned:
                self.turn(work, min(TURN, self.per_task()))
        while not self.is_over():
            open_work = [w for w in self.work if not w.over]
            if not open_work:
                break
            self.turn(max(open_work, key=lambda w: w.cost * w.hope), min(TURN, max(self.left, 1)))
        for work in self.work:
            self.crown(work)

    def is_over(self) -> bool:
        return self.left <= 0 or time.monotonic() > self.deadline

    def measure_untuned(self, work: Work) -> None:
        """The choice without tuning is measured too: a record must beat it to be used."""
        start = [i for i in work.task.config_space.start if i not in work.known]
        if start:
            self.measure(work, start)

    def measure(self, work: Work, indexes: list[int]) -> None:
        space = work.task.config_space
        inputs = [MeasureInput(work.task.target, work.task, space.get(i)) for i in indexes]
        results = create_measure_batch(work.task, self.option)(inputs)
        work.note(inputs, results)
        work.tuner.visited.update(indexes)
        self.log(work.tuner, inputs, results)

    def turn(self, work: Work, trials: int) -> None:
        """Some more trials of a task."""
        work.winner = None
        before, counted = work.cost, work.tuned
        bar = autotvm.callback.progress_bar(trials, work.prefix)

        def after(tuner: Any, inputs: Any, results: Any) -> None:
            work.note(inputs, results)
            work.tuned += len(inputs)
            if time.monotonic() > self.deadline:
                raise _TimeIsUp

        try:
            work.tuner.tune(trials, self.option, callbacks=[self.log, bar, after])
        except _TimeIsUp:
            pass
        except TuningError as problem:
            sys.stdout.write(f"\n{work.prefix} given up: {problem}\n")
            work.over = True
        finally:
            bar.end()
        gain = max(before - work.cost, 0.0) / before
        work.hope = 0.5 * work.hope + 0.5 * min(gain * 2, 1.0) if gain > 0.005 else 0.5 * work.hope
        work.without_gain = 0 if gain > 0 else work.without_gain + work.tuned - counted
        patience = self.settings.early_stopping
        stalled = patience is not None and work.without_gain >= patience
        work.over = work.over or work.tuned == counted or not work.tuner.has_next() or stalled

    def crown(self, work: Work) -> None:
        """Measure the leaders and the untuned choice side by side: the fastest in many noisy trials rarely is."""
        start = [i for i in work.task.config_space.start if i in work.best]
        order = [i for i in sorted(work.best, key=lambda i: mean_cost(work.best[i][1])) if i not in start]
        if not order or work.tuned == work.crowned_at or (start and work.costs(start[0]) < work.costs(order[0])):
            return
        builder, runner = self.option["builder"], self.option["runner"]
        runner.set_task(work.task)
        builder.set_task(work.task, {})
        order = order[: HEATS[0][0]] + start
        inputs = [work.best[i][0] for i in order]
        field = {i: pair for i, *pair in zip(order, inputs, builder.build(inputs))}
        costs: dict[int, list[float]] = {i: [] for i in field}
        began = time.time()
        for size, rounds in HEATS:
            leaders = sorted((i for i in field if i not in start), key=lambda i: _middle(costs[i]) or work.costs(i))
            field = {i: field[i] for i in (*leaders[:size], *start)}
            inputs, built = zip(*field.values())
            for _ in range(rounds):
                for index, result in zip(field, runner.run(inputs, built)):
                    costs[index] += result.costs if result.error_no == 0 else [1e9]
        best = min(field, key=lambda i: _middle(costs[i]) * (1 if i in start else 1 + MARGIN))
        results = {i: MeasureResult(tuple(costs[i]), 0, time.time() - began, time.time()) for i in field}
        work.crown(best, results)
        self.log(work.tuner, [work.best[best][0]], [results[best]])


def _middle(costs: list[float]) -> float:
    return statistics.median(costs) if costs else 0.0


class _TimeIsUp(Exception):
    pass


def summary(work: list[Work]) -> str:
    """What was gained, task by task."""
    total = sum(w.cost for w in work if w.best) or 1.0
    rows = ["Task  share   untuned     best      gain  trials  what"]
    before = after = 0.0
    for number, w in enumerate(work):
        if not w.best:
            rows.append(f"{number:4d}      -         -        -         -  {w.tuned:6d}  {w.task.name}: nothing ran")
            continue
        untuned = w.untuned * w.task.count if w.untuned else w.cost
        before, after = before + untuned, after + min(w.cost, untuned)
        rows.append(
            f"{number:4d}  {w.cost / total:4.0%}  {untuned * 1e3:7.3f}ms {w.cost * 1e3:7.3f}ms  "
            f"{untuned / w.cost - 1:7.1%}  {w.tuned:6d}  {describe(w.task)}"
        )
    times = f"{before * 1e3:.3f} ms untuned, {after * 1e3:.3f} ms tuned"
    rows.append(f"Estimated time of these tasks in the model: {times}")
    return "\n".join(rows)


def describe(task: Any) -> str:
    """A task in a few words: its name and shapes."""
    shapes = ["x".join(map(str, a[1])) for a in task.args if isinstance(a, tuple) and a and a[0] == "TENSOR"]
    times = f" (x{task.count})" if task.count > 1 else ""
    return f"{task.name} {' '.join(shapes)}{times}"


def tune_all(tasks: list[Any], settings: Settings) -> list[Work]:
    """Tune tasks; records are appended to the file of the settings as they are made."""
    run = Run(tasks, settings)
    try:
        run.go()
    except BaseException:
        # Workers may be in the middle of a candidate nobody waits for any more.
        close_pools()
        raise
    print(summary(run.work))
    return run.work


__all__ = ["Run", "Settings", "Work", "describe", "make_tuner", "summary", "tune_all"]
