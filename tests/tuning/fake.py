"""Tasks that measure nothing: candidates are numbers, and their costs and the clock are made up."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable

from tvm.tuning import Measurement, Outcome, TuningError, TuningOptions, TuningRun

BASELINE = 7


class World:
    """A machine with a clock: ``cost(size, key, times)`` are the seconds of a candidate measured for the n-th time."""

    def __init__(self):
        self.now = 100.0
        self.seconds_to_build, self.seconds_to_run = 0.1, 0.05
        self.times: collections.Counter = collections.Counter()
        self.cost = lambda size, key, times: size * (1e-6 if key == BASELINE else 2e-6)
        # Called before each candidate is run.
        self.before_run: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class FakeRecords:
    begin = '{"fake": '

    def load(self, path: str):
        rows, bad = [], 0
        for line in open(path):
            try:
                rows.append(json.loads(line)["fake"])
            except (ValueError, KeyError):
                bad += 1
        return rows, bad


RECORDS = FakeRecords()


class FakeSearch:
    """A task of a size, whose candidates are proposed in order. ``outcomes`` says which of them fail, and how."""

    format = RECORDS

    def __init__(self, world: World, size: int, count: int = 1, number: int | None = None, candidates: int = 1000):
        self.world, self.size, self.count, self.number = world, size, count, number
        self.title, self.flop = f"task {size}", 1e6 * size
        self.baseline, self.batch_size, self.min_repeat_ms = [BASELINE], 16, 0
        self.waiting = list(range(candidates))
        self.outcomes: dict[int, Outcome] = {}
        self.most_failures = 1000
        self.learned: list[int] = []
        self.verified: list[int] = []
        self.runs: list[tuple[int | None, bool]] = []

    def has_next(self) -> bool:
        return bool(self.waiting)

    def propose(self, limit: int) -> list[int]:
        keys, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return keys

    def build(self, keys):
        self.world.now += self.world.seconds_to_build * len(keys)
        return [f"code of {key}" for key in keys]

    def run(self, keys, built, on_result=None, *, most_ms=None, verify=False):
        assert built == [f"code of {key}" for key in keys]
        found = []
        self.runs.append((most_ms, verify))
        for key in keys:
            self.world.before_run()
            self.world.now += self.world.seconds_to_run
            self.world.times[self.size, key] += 1
            outcome = self.outcomes.get(key, Outcome.MEASURED)
            if outcome is Outcome.WRONG_RESULT and not verify:
                outcome = Outcome.MEASURED
            self.verified += [key] if verify else []
            ran = outcome is Outcome.MEASURED
            costs = (self.world.cost(self.size, key, self.world.times[self.size, key]),) if ran else ()
            found.append(Measurement(key, costs, outcome, "" if ran else "it went wrong", 0.1, self.world.now))
            if on_result is not None:
                on_result(found[-1])
        return found

    def learn(self, measurements) -> None:
        for measurement in measurements:
            self.learned.append(measurement.key)
            if measurement.key in self.waiting:
                self.waiting.remove(measurement.key)
            self.most_failures -= measurement.outcome is not Outcome.MEASURED
        if self.most_failures < 0:
            raise TuningError("the device is away")

    def read(self, rows, anywhere: bool = False) -> list[Measurement]:
        found: dict[int, Measurement] = {}
        for size, key, costs, outcome, elapsed, timestamp, final, place in rows:
            if size == self.size and (anywhere or place == "here"):
                found.pop(key, None)
                found[key] = Measurement(key, tuple(costs), Outcome(outcome), "", elapsed, timestamp, final)
        return list(found.values())

    def load(self, prior, resumed=()) -> None:
        for measurement in self.read([*prior, *resumed]):
            if measurement.key in self.waiting:
                self.waiting.remove(measurement.key)

    def encode(self, m: Measurement) -> str:
        row = [self.size, m.key, m.costs, m.outcome.value, m.elapsed, m.timestamp, m.final, "here"]
        return json.dumps({"fake": row})


def start(
    world: World, tmp_path, searches, name: str = "records.json", model=None, on_event=None, **budget
) -> TuningRun:
    """A run that has not begun yet."""
    budget.setdefault("trials", None if "seconds" in budget else 1000)
    return TuningRun(searches, TuningOptions(str(tmp_path / name), **budget), on_event, model, clock=world)


def tune(world: World, tmp_path, searches, **options) -> TuningRun:
    """A run that is over."""
    run = start(world, tmp_path, searches, **options)
    run.run()
    return run
