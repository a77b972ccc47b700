"""Tuning all the tasks of a model: where the next trials go, and which configuration is crowned in the end."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import autotvm
from ...autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch
from ...autotvm.measure.workers import close_pools
from ...autotvm.record import RecordFile, load_from_file
from ...autotvm.task.dispatcher import Unread, mean_cost
from ...autotvm.tuner import Tuner, TuningError
from ...error import TVMError
from .interrupt import Interrupts
from .roofline import Machine, machine
from .tuning_display import display_for, milliseconds, number_of
from .whole_model import OTHER_SECONDS, SECONDS_PER_TASK, WholeModel

# Trials a task gets at a time, and the fewest its first turn has.
TURN, SHORT_TURN = 32, 4
# What all first turns together may take of the trials: the rest goes where gains still come.
FIRST_SHARE = 0.5
# What of a time budget is about left for searching, and how long a trial takes, before either is known.
SEARCH_SHARE, USUAL_TRIAL_SECONDS = 0.75, 0.1
# What a first turn is expected to gain.
FIRST_HOPE = 0.2
# Leaders measured side by side before one is crowned: how many, and how often each, in one heat after the other.
HEATS = ((8, 3), (3, 6))
# Milliseconds of a repeat in a heat at most: who is measured many times in turn need not be measured for long.
HEAT_MS = 100
# The heats where a time budget leaves less.
SHORT_HEATS = ((3, 4),)
# What a configuration must gain over the choice without tuning to replace it.
MARGIN = 0.02
# A gain that there was no time to confirm counts only where it is beyond what noise does.
UNCONFIRMED_MARGIN = 0.2
# What a task must have gained by side by side measurement to be beyond doubt, and a whole model to be faster.
CLEAR_GAIN, WHOLE_MARGIN = 0.05, 0.01
# What comparing whole models may take of a time budget.
WHOLE_SHARE = 0.2
# Seconds past a time budget after which nothing is measured any more.
GRACE = 2.0
# Leaders of earlier records that are measured again, here and now.
PRIOR_LEADERS = 4
# So many trials are no limit.
MANY_TRIALS = 1 << 40


class Settings(NamedTuple):
    """What the user asked for; ``begin`` is when (by the monotonic clock)."""

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
    begin: float
    # Whether the trials in the file count towards ``trials``: it is the file of this very run, stopped before.
    resumes: bool = True


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
        # The number that --tasks takes, where the task has one.
        self.number = number_of(task, number)
        self.task, self.settings = task, settings
        self.prefix = f"[Task {self.number:2d}/{total:2d}] "
        self.tuner = make_tuner(settings.tuner, task, settings.analytic_start)
        # Trials so far, the choice without tuning not counted, and those since the last gain.
        self.tuned = self.without_gain = 0
        # Seconds spent on the trials of this run, how many they were, and the seconds of running alone.
        self.spent, self.timed, self.ran = 0.0, 0, 0.0
        self.best: dict[int, tuple[MeasureInput, MeasureResult]] = {}
        # Configurations with a record in the output file.
        self.measured: set[int] = set()
        # What earlier records of other runs say is best: measured before anything else.
        self.prior: list[int] = []
        self.untuned: float | None = None
        # What another turn may bring, as a share of the task's time; falls while nothing is gained.
        self.hope = FIRST_HOPE
        self.over = False
        # The configuration that won the side by side measurement, once there was one, and after how many trials.
        self.winner: int | None = None
        self.crowned_at = 0

    @property
    def cost(self) -> float:
        """Seconds the model spends in it with the best configuration so far."""
        if self.winner is not None:
            return self.costs(self.winner) * self.task.count
        return min((mean_cost(r) for _, r in self.best.values()), default=1.0) * self.task.count

    @property
    def speed(self) -> float:
        """Operations a second of the best configuration so far."""
        return (self.task.flop or 0.0) * self.task.count / self.cost if self.best else 0.0

    @property
    def seconds_per_trial(self) -> float:
        return self.spent / self.timed if self.timed else USUAL_TRIAL_SECONDS

    @property
    def choice(self) -> int:
        """The configuration that compiling takes from the records."""
        return self.winner if self.winner is not None else min(self.best, key=self.costs)

    @property
    def start(self) -> int | None:
        """The choice without tuning, where it ran."""
        return next((i for i in self.task.config_space.start if i in self.best), None)

    def costs(self, index: int) -> float:
        """Seconds of a configuration that ran."""
        return mean_cost(self.best[index][1])

    def crown(self, index: int, results: dict[int, MeasureResult]) -> None:
        """The winner, and what the last heat measured of it and of others."""
        for other, result in results.items():
            middle = result._replace(costs=(_middle(list(result.costs)),))
            inp = _copy(self.best[other][0])
            inp.final = other == index
            self.best[other] = (inp, middle)
            if other in self.task.config_space.start:
                self.untuned = middle.costs[0]
        self.winner, self.crowned_at = index, self.tuned

    def note(self, inputs: Any, results: Any) -> None:
        """Keep what was measured; the last measurement of a configuration holds."""
        for inp, result in zip(inputs, results):
            self.measured.add(inp.config.index)
            if result.error_no == 0:
                self.best[inp.config.index] = (inp, result)
                self.winner = inp.config.index if inp.final else self.winner
                if inp.config.index in self.task.config_space.start:
                    self.untuned = mean_cost(result)

    def load(self, records: list[tuple[MeasureInput, MeasureResult]], own: list) -> None:
        """Take in earlier records: ``own`` are of the output file, others only teach and name leaders."""
        self.note(*self.tuner.own_records(own))
        known = zip(*self.tuner.own_records(records, anywhere=True))
        others = [(mean_cost(r), i.config.index) for i, r in known if r.error_no == 0]
        self.tuned = len(self.measured.difference(self.task.config_space.start))
        last = next((inp for inp, _ in reversed(own) if inp.task.workload == self.task.workload), None)
        # What was measured after a crowning has not been part of it.
        is_crowned = last is not None and last.final
        self.winner = self.task.config_space.index_of(last.config.values()) if is_crowned else None
        self.winner = self.winner if self.winner in self.best else None
        self.crowned_at = self.tuned if self.winner is not None else 0
        self.prior = [i for _, i in sorted(others) if i not in self.measured][:PRIOR_LEADERS]
        ours = [pair for pair in own if pair[0].task.workload == self.task.workload]
        self.tuner.load_history([*records, *ours], min_seed_records=64)

    def starters(self) -> list[int]:
        """What is measured before any search: the choice without tuning."""
        return [i for i in self.task.config_space.start if i not in self.measured]


class TrialRunner(autotvm.LocalRunner):
    """Tells of each result as soon as it is measured, not when its batch is done."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.tell: Callable[[MeasureInput, MeasureResult, float], None] | None = None

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        results = []
        for inp, built in zip(measure_inputs, build_results):
            begin = time.monotonic()
            results += super().run([inp], [built])
            if self.tell is not None:
                self.tell(inp, results[-1], time.monotonic() - begin)
        return results


class Run:
    """One run of ``tvmc tune``."""

    def __init__(
        self, tasks: list[Any], settings: Settings, interrupts: Interrupts, model: WholeModel | None = None
    ):
        self.settings, self.interrupts, self.model = settings, interrupts, model
        self.deadline = settings.begin + settings.seconds if settings.seconds else float("inf")
        self.is_counted = settings.trials < MANY_TRIALS
        self.whole_seconds = SECONDS_PER_TASK * len(tasks) + OTHER_SECONDS if model is not None else 0.0
        if settings.seconds and self.whole_seconds > WHOLE_SHARE * settings.seconds:
            self.model, self.whole_seconds = None, 0.0
        self.kept_back = self.whole_seconds
        self.stage = ""
        self.machine = _machine(tasks)
        self.work = [Work(i, len(tasks), task, settings) for i, task in enumerate(tasks)]
        self.runner = TrialRunner(
            timeout=settings.timeout, number=settings.number, repeat=settings.repeat,
            min_repeat_ms=settings.min_repeat_ms, cooldown_interval=0,
        )
        self.option = autotvm.measure_option(autotvm.LocalBuilder(timeout=settings.timeout), self.runner)
        self.log = autotvm.callback.log_to_file(settings.records)
        # Records in the file and the trials among them that were made for another run.
        self.found = self.earlier = 0
        self.load()
        self.display = display_for(self)

    def load(self) -> None:
        """Earlier records: those of the output file are of this very run, stopped before."""
        own = _own_records(self.settings.records)
        # A file that cannot be written to is found out before anything is measured.
        RecordFile(self.settings.records).append(())
        prior = self.settings.prior_records
        known = list(load_from_file(prior)) if prior and prior != self.settings.records else []
        for work in self.work:
            work.load(known, own)
        self.found = len(own)
        self.earlier = 0 if self.settings.resumes else sum(w.tuned for w in self.work)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.settings.begin

    @property
    def left(self) -> int:
        return self.settings.trials + self.earlier - sum(w.tuned for w in self.work)

    def go(self) -> None:
        self.display.begin()
        try:
            self._search()
            self._crown_all()
            self._compare_models()
        except BaseException:
            self.display.close()
            raise
        self.display.end()

    def _search(self) -> None:
        if self.found:
            spent = "; all trials are spent, a larger --trials goes on" if self.left <= 0 else ""
            self.display.say(f"{self.found} records found, going on{spent}")
        if self.settings.analytic_start:
            self._measure_untuned()
        for work, trials in self._first_turns():
            if not self.is_over():
                self._measure(work, work.prior[: max(self.left, 0)])
                self.turn(work, min(trials, self.left))
        while not self.is_over():
            waiting = [w for w in self.work if not w.over]
            if not waiting:
                break
            self.turn(max(waiting, key=lambda w: w.cost * w.hope / w.seconds_per_trial), min(TURN, self.left))
        # A search that is to find its own way is not shown it, but must beat it in the end.
        self._measure_untuned()

    def _measure_untuned(self) -> None:
        before, self.stage = self.stage, "measuring the code without tuning"
        for work in self.work:
            self._measure(work, work.starters())
        self.stage = before

    def _first_turns(self) -> list[tuple[Work, int]]:
        """Every task is tried once, longer where the model spends its time. What ran before has had its turn."""
        new = [w for w in self.work if not w.tuned and not w.over]
        total = sum(w.cost for w in new if w.best) or 1.0
        left = self._trials_to_come()
        pool = min(left * FIRST_SHARE, TURN * len(new))
        sizes = [min(max(round(pool * w.cost / total), SHORT_TURN), TURN) if w.best else SHORT_TURN for w in new]
        # Few trials for many tasks: the classic rule, as many for each.
        most = max(int(left) // max(len(self.work), 1), 1)
        order = sorted(zip(new, sizes), key=lambda pair: -pair[0].cost)
        return [(w, size if sum(sizes) <= left else min(size, most)) for w, size in order]

    def _trials_to_come(self) -> float:
        """About how many trials there is a budget for."""
        if not self.settings.seconds:
            return self.left
        return min(self.left, SEARCH_SHARE * (self.deadline - time.monotonic()) / USUAL_TRIAL_SECONDS)

    def is_over(self) -> bool:
        return self.left <= 0 or self._is_time_up()

    def _is_time_up(self) -> bool:
        return time.monotonic() + self.kept_back > self.deadline

    def _keep_back(self, work: Work) -> None:
        """Keep back the seconds that crowning will take, at most half of the budget."""
        if self.settings.seconds:
            need = sum(self._crowning_seconds(w, HEATS) for w in self.work if w is work or _needs_crown(w))
            self.kept_back = min(need + self.whole_seconds, self.settings.seconds / 2)

    @staticmethod
    def _crowning_seconds(work: Work, heats: tuple[tuple[int, int], ...]) -> float:
        builds = min(heats[0][0], len(work.best)) + 1
        runs = sum((size + 1) * rounds for size, rounds in heats)
        seconds = work.ran / work.timed if work.timed else 0.02
        if work.settings.min_repeat_ms > HEAT_MS:
            seconds *= HEAT_MS / work.settings.min_repeat_ms
        return builds * work.seconds_per_trial + runs * seconds

    def _measure(self, work: Work, indexes: list[int]) -> None:
        """Measure certain configurations: the choice without tuning (a record must beat it to be used), leaders."""
        if not indexes:
            return
        space = work.task.config_space
        inputs = [MeasureInput(work.task.target, work.task, space.get(i)) for i in indexes]
        measured: list[tuple[MeasureInput, MeasureResult]] = []

        def take(inp: MeasureInput, result: MeasureResult, seconds: float) -> None:
            measured.append((inp, result))
            self._take(work, inp, result, seconds)

        self.runner.tell = take
        try:
            create_measure_batch(work.task, self.option)(inputs)
        except _TimeIsUp:
            pass
        finally:
            self.runner.tell = None
            # A tuner may have drawn them already: it must not measure them once more.
            work.tuner.load_history(measured)

    def _take(self, work: Work, inp: MeasureInput, result: MeasureResult, seconds: float) -> None:
        """A result: it is written before anything else can happen."""
        best = work.cost if work.best else float("inf")
        with self.interrupts.held():
            self.log(work.tuner, [inp], [result])
        work.note([inp], [result])
        if inp.config.index not in work.task.config_space.start:
            work.tuned += 1
            work.timed += 1
            work.ran += seconds
            work.without_gain = 0 if work.cost < best else work.without_gain + 1
            self.display.trial(work, inp, result)
        else:
            self.display.refresh()
        if self._is_time_up():
            raise _TimeIsUp

    def turn(self, work: Work, trials: int) -> None:
        """Some more trials of a task."""
        patience = self.settings.early_stopping
        if patience is not None:
            trials = min(trials, patience - work.without_gain)
        self._keep_back(work)
        if self.settings.seconds:
            # A batch that is not finished in time was compiled for nothing.
            room = (self.deadline - time.monotonic() - self.kept_back) / work.seconds_per_trial
            trials = min(trials, max(int(room), SHORT_TURN))
        if trials < 1 or not work.tuner.has_next():
            work.over = True
            return
        work.winner = None
        before, counted, begin = work.cost, work.tuned, time.monotonic()
        speeds = [0.0]
        self.runner.tell = lambda inp, result, seconds: self._take(work, inp, result, seconds)
        self.display.turn(work, trials)
        try:
            work.tuner.tune(trials, self.option, callbacks=[
                lambda tuner, inputs, results: speeds.append(max(map(tuner.flops, results), default=0.0))])
        except _TimeIsUp:
            pass
        except TuningError as problem:
            self.display.say(f"{work.prefix} given up: {problem}")
            work.over = True
        finally:
            self.runner.tell = None
            work.spent += time.monotonic() - begin
        self.display.end_turn(work, speeds[-1])
        gain = max(before - work.cost, 0.0) / before
        work.hope = 0.5 * (work.hope + gain)
        stalled = patience is not None and work.without_gain >= patience
        work.over = work.over or work.tuned == counted or not work.tuner.has_next() or stalled

    # -- who is best ---------------------------------------------------------------------------------------------------

    def _crown_all(self) -> None:
        """Crown every task with new trials, those first in which most is to be gained."""
        self.stage = "measuring the leaders side by side"
        waiting = sorted((w for w in self.work if _needs_crown(w)), key=lambda w: -_claim(w))
        while waiting:
            work = waiting.pop(0)
            room = self.deadline - time.monotonic() - self.whole_seconds
            full = sum(self._crowning_seconds(w, HEATS) for w in (work, *waiting))
            if room > -GRACE:
                self.crown(work, HEATS if full <= room else SHORT_HEATS)
            else:
                self._settle(work)
        self.stage = ""

    def _settle(self, work: Work) -> None:
        """Without time to measure side by side, a gain that may be noise is not used."""
        if work.start is not None and work.cost > (1 - UNCONFIRMED_MARGIN) * work.costs(work.start) * work.task.count:
            self._give_up(work, work.start)

    def _give_up(self, work: Work, start: int) -> None:
        """From now on the task's records name the choice without tuning."""
        self._write_winner(work, start, {start: work.best[start][1]._replace(timestamp=time.time())})

    def _compare_models(self) -> None:
        """Use what was found only where the model as a whole is faster with it: caches that kernels share and layouts
        between them count there alone."""
        tuned = [w for w in self.work if w.best and w.choice != w.start]
        if self.model is None or not tuned:
            return
        self.stage = "comparing the model as a whole"
        self.display.refresh()
        # Workers that wait may not take a core from the model.
        close_pools()
        clear = [w for w in tuned if w.start is None or w.costs(w.choice) < (1 - CLEAR_GAIN) * w.costs(w.start)]
        choices = [tuned, *([clear] if clear and len(clear) < len(tuned) else [])]
        seconds, ratios = self.model.compare([[w.best[w.choice] for w in choice] for choice in choices])
        ratio, choice = min(zip(ratios, choices), key=lambda pair: pair[0])
        if ratio > 1 - WHOLE_MARGIN:
            choice = []
        for work in tuned:
            if work not in choice and work.start is not None:
                self._give_up(work, work.start)
        self.stage = ""
        self.display.say(_verdict(seconds, ratio, len(choice), len(tuned)))

    def crown(self, work: Work, heats: tuple[tuple[int, int], ...] = HEATS) -> None:
        """Measure the leaders and the untuned choice side by side: the fastest in many noisy trials rarely is."""
        start = [i for i in work.task.config_space.start if i in work.best]
        order = [i for i in sorted(work.best, key=work.costs) if i not in start]
        builder, runner = self.option["builder"], self.option["runner"]
        runner.set_task(work.task)
        builder.set_task(work.task, {})
        runner.min_repeat_ms = min(self.settings.min_repeat_ms, HEAT_MS)
        order = order[: heats[0][0]] + start
        inputs = [work.best[i][0] for i in order]
        field = {i: pair for i, *pair in zip(order, inputs, builder.build(inputs))}
        costs: dict[int, list[float]] = {i: [] for i in field}
        wrong: set[int] = set()
        began = time.time()
        for size, rounds in heats:
            leaders = sorted((i for i in field if i not in start), key=lambda i: _middle(costs[i]) or work.costs(i))
            field = {i: field[i] for i in (*leaders[:size], *start)}
            inputs, built = zip(*field.values())
            for number in range(rounds):
                # What a GPU gives is compared with the CPU, once for each leader.
                runner.verify = "gpu" in work.task.target.keys and number == 0 and size == heats[0][0]
                for index, result in zip(field, runner.run(inputs, built)):
                    costs[index] += result.costs if result.error_no == 0 else [1e9]
                    if result.error_no == MeasureErrorNo.WRONG_ANSWER:
                        wrong.add(index)
                        self.display.say(f"{work.prefix} a configuration is left out: {result.costs[0]}")
            runner.verify = False
            costs.update({index: [1e9] for index in wrong})
        runner.min_repeat_ms = self.settings.min_repeat_ms
        best = min(field, key=lambda i: _middle(costs[i]) * (1 if i in start else 1 + MARGIN))
        results = {i: MeasureResult(tuple(costs[i]), 0, time.time() - began, time.time()) for i in field}
        self._write_winner(work, best, results)

    def _write_winner(self, work: Work, index: int, results: dict[int, MeasureResult]) -> None:
        """The last line of a task is its winner; the one before, what it was compared with."""
        work.crown(index, results)
        start = [i for i in work.task.config_space.start if i in results and i != index]
        pairs = []
        for i in (*start, index):
            inp = _copy(work.best[i][0])
            inp.final = True
            # The latest final record of a task is its winner.
            earlier = results[i].all_cost if i != index else 0.0
            pairs.append((inp, results[i]._replace(timestamp=results[i].timestamp - earlier)))
        with self.interrupts.held():
            self.log(work.tuner, *zip(*pairs))


def _own_records(path: str) -> list[tuple[MeasureInput, MeasureResult]]:
    """The records of the file to append to. One with other lines is somebody else's: nothing is written to it."""
    if not os.path.isfile(path):
        return []
    unread = Unread()
    own = list(load_from_file(path, unread))
    # A crash may have cut the last record short.
    if unread.no_records > RecordFile(path).is_cut_short():
        raise TVMError(f"'{path}' has lines that are no tuning records; nothing was written to it, "
                       "name another file with -o")
    return own


def _copy(inp: MeasureInput) -> MeasureInput:
    """The same input, measured where it was."""
    made = MeasureInput(*inp)
    made.made_on = inp.made_on or None
    return made


def _verdict(seconds: float, ratio: float, used: int, found: int) -> str:
    """What comparing whole models came to, in a line."""
    text = f"The whole model: {milliseconds(seconds)} untuned, {milliseconds(seconds * ratio)} tuned ({1 / ratio:.2f}x)"
    if not used:
        return f"{text}; the gains of single tasks do not show there, so the records keep the code without tuning"
    return text + (f"; of {found} tasks only the {used} with a clear gain are used" if used < found else "")


def _needs_crown(work: Work) -> bool:
    """Whether something new seems better than the choice without tuning."""
    start = [i for i in work.task.config_space.start if i in work.best]
    others = [work.costs(i) for i in work.best if i not in start]
    if not others or work.tuned == work.crowned_at:
        return False
    return not start or min(others) < work.costs(start[0])


def _claim(work: Work) -> float:
    """Seconds of the model that the best so far seems to save."""
    return (work.untuned or 1.0) * work.task.count - work.cost


def _middle(costs: list[float]) -> float:
    return statistics.median(costs) if costs else 0.0


def _machine(tasks: list[Any]) -> Machine | None:
    """The peaks of this machine, where the code is for it."""
    from ...target.cpu import resolve_cpu

    target = tasks[0].target if tasks else None
    is_here = target is not None and target.kind.name == "llvm" and resolve_cpu(target).is_host
    return machine(new=True) if is_here else None


class _TimeIsUp(Exception):
    pass


def tune_all(
    tasks: list[Any], settings: Settings, interrupts: Interrupts | None = None, model: WholeModel | None = None
) -> list[Work]:
    """Tune tasks; records are appended to the file of the settings as they are made. What was found is compared in
    the model as a whole where one is given."""
    run = Run(tasks, settings, interrupts or Interrupts(), model)
    try:
        run.go()
    except BaseException:
        # Workers may be in the middle of a candidate nobody waits for any more.
        close_pools()
        raise
    return run.work


__all__ = ["MANY_TRIALS", "Run", "Settings", "Work", "make_tuner", "tune_all"]
