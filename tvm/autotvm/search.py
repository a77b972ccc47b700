"""AutoTVM's search for the tuning engine: configurations of a template, which a tuner proposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..runtime.measure.record_file import RECORD_BEGIN
from ..tuning.errors import outcome_of
from ..tuning.search import Measurement, Outcome
from .env import GLOBAL_SCOPE
from .measure.measure import MeasureInput, MeasureResult, measure_option
from .measure.measure_methods import LocalBuilder, LocalRunner
from .record import encode, load_from_file
from .task.dispatcher import Unread
from .tuner import GATuner, GridSearchTuner, RandomTuner, Tuner
from .tuner.failures import Failures

# Number of configurations that a model proposes between two trainings: the number that the engine gives a task in a
# round.
_PLAN_SIZE = 32
# Minimum number of records of other tasks for training a base model.
_LEAST_SEED_RECORDS = 64


def make_tuner(name: str, task: Any, start: bool = True) -> Tuner:
    """Return a tuner by its name: ga, random, gridsearch, or xgb with a loss and features (xgb_rank_knob).

    ``start`` makes a tuner with a cost model begin with the default configuration.
    """
    if name == "ga":
        return GATuner(task, pop_size=50)
    if name == "random":
        return RandomTuner(task)
    if name == "gridsearch":
        return GridSearchTuner(task)
    from .tuner.xgboost_tuner import XGBTuner

    kind, _, rest = name.partition("_")
    loss = next((text for text in ("rank_binary", "rank") if rest.startswith(text)), "")
    feature = rest.removeprefix(loss).strip("_") or "itervar"
    if kind != "xgb" or feature not in ("itervar", "knob", "curve"):
        raise ValueError(f"unknown tuner '{name}'; use ga, gridsearch, random, xgb, xgb_rank, xgb_knob, ...")
    return XGBTuner(
        task, plan_size=_PLAN_SIZE, feature_type=feature, loss_type=loss.replace("_", "-") or "reg", start=start
    )


def describe(task: Any) -> str:
    """Return a short description of a task: its name and shapes."""
    shapes = ["x".join(map(str, a[1])) for a in task.args if isinstance(a, tuple) and a and a[0] == "TENSOR"]
    times = f" (x{task.count})" if task.count > 1 else ""
    name = task.name
    for place in (".x86", ".cuda", ".gpu"):
        name = name.removesuffix(place)
    return f"{name} {' '.join(shapes)}{times}".strip()


def number_of(task: Any, place: int) -> int:
    """Return the number under which the user knows a task; its index if it was not extracted from a model."""
    return task.number if task.number is not None else place


def local_measure_option(
    target: Any, number: int = 10, repeat: int = 1, min_repeat_ms: int | None = None, timeout: float = 10
) -> dict[str, Any]:
    """Return the measurement options of this machine for a target. Devices other than CPUs need longer repeats because
    of the resolution of their timers."""
    if min_repeat_ms is None:
        min_repeat_ms = 0 if target.features.is_cpu else 1000
    runner = LocalRunner(
        timeout=timeout, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms, cooldown_interval=0
    )
    return measure_option(LocalBuilder(timeout=timeout), runner)


class Records:
    """The record format of AutoTVM."""

    begin = RECORD_BEGIN

    def load(self, path: str) -> tuple[list[tuple[MeasureInput, MeasureResult]], int]:
        unread = Unread()
        return list(load_from_file(path, unread)), unread.no_records


RECORDS = Records()


class TemplateSearch:
    """A task and its tuner for ``tvm.tuning``; the key of a candidate is its index in the configuration space."""

    format = RECORDS

    def __init__(
        self,
        task: Any,
        tuner: str | Tuner = "xgb",
        measure_option: dict[str, Any] | None = None,
        baseline_first: bool = True,
    ):
        self.task, self.space = task, task.config_space
        self.tuner = make_tuner(tuner, task, baseline_first) if isinstance(tuner, str) else tuner
        option = measure_option or local_measure_option(task.target)
        self.builder, self.runner = option["builder"], option["runner"]
        self.title, self.number, self.count, self.flop = describe(task), task.number, task.count, task.flop or 0.0
        self.baseline = [i for i in self.space.start if self.space.is_index_valid(i)]
        # Batches that are several times larger than the number of builders keep all builders busy.
        self.batch_size = 8 * self.builder.n_parallel
        self.min_repeat_ms = getattr(self.runner, "min_repeat_ms", 0)
        self.failures = Failures(task.name, self.tuner.error_ct_threshold)
        self._proposed: set[int] = set()

    def has_next(self) -> bool:
        return self.tuner.has_next()

    def propose(self, limit: int) -> list[int]:
        indices = [config.index for config in self.tuner.next_batch(limit)]
        self._proposed.update(indices)
        return indices

    def inputs(self, keys: Sequence[int]) -> list[MeasureInput]:
        """Return candidates as inputs of AutoTVM's builders and runners."""
        return [MeasureInput(self.task.target, self.task, self.space.get(key)) for key in keys]

    def build(self, keys: Sequence[int]) -> list[Any]:
        self.runner.set_task(self.task)
        self.builder.set_task(self.task, self.runner.get_build_kwargs())
        GLOBAL_SCOPE.in_tuning, before = True, GLOBAL_SCOPE.in_tuning
        try:
            inputs = self.inputs(keys)
            return list(zip(inputs, self.builder.build(inputs)))
        finally:
            GLOBAL_SCOPE.in_tuning = before

    def run(
        self,
        keys: Sequence[int],
        built: Sequence[Any],
        on_result: Callable[[Measurement], None] | None = None,
        *,
        most_ms: int | None = None,
        verify: bool = False,
    ) -> list[Measurement]:
        runner, measurements = self.runner, []
        if most_ms is not None:
            runner.min_repeat_ms = min(self.min_repeat_ms, most_ms)
        # The outputs of a GPU are compared with those of the CPU.
        runner.verify = verify and self.task.target.features.is_gpu
        try:
            for first in range(0, len(keys), runner.n_parallel):
                inputs, code = zip(*built[first : first + runner.n_parallel])
                for key, inp, result in zip(keys[first:], inputs, runner.run(inputs, code)):
                    measurements.append(measurement_of(key, inp, result))
                    if on_result is not None:
                        on_result(measurements[-1])
        finally:
            runner.min_repeat_ms, runner.verify = self.min_repeat_ms, False
        return measurements

    def learn(self, measurements: Sequence[Measurement]) -> None:
        given = [pair_of(m) for m in measurements if m.key not in self._proposed]
        if given:
            self.tuner.load_history(given)
        proposed = [pair_of(m) for m in measurements if m.key in self._proposed]
        if proposed:
            self.tuner.learn(*map(list, zip(*proposed)))
            self.failures.note([result for _, result in proposed])

    def read(self, rows: Sequence[Any], anywhere: bool = False) -> list[Measurement]:
        pairs = zip(*self.tuner.own_records(rows, anywhere))
        return [measurement_of(inp.config.index, inp, result) for inp, result in pairs]

    def load(self, prior: Sequence[Any], resumed: Sequence[Any] = ()) -> None:
        ours = [pair for pair in resumed if pair[0].task.workload == self.task.workload]
        self.tuner.load_history([*prior, *ours], min_seed_records=_LEAST_SEED_RECORDS)

    def encode(self, measurement: Measurement) -> str:
        return encode(*pair_of(measurement))


def measurement_of(key: int, inp: MeasureInput, result: MeasureResult) -> Measurement:
    """Convert a result of AutoTVM to a measurement of the engine."""
    outcome = outcome_of(result.error_no)
    ran = outcome is Outcome.MEASURED
    costs = tuple(float(cost) for cost in result.costs) if ran else ()
    error = "" if ran else str(result.costs[0] if result.costs else "")
    return Measurement(key, costs, outcome, error, result.all_cost, result.timestamp, inp.final, (inp, result))


def pair_of(measurement: Measurement) -> tuple[MeasureInput, MeasureResult]:
    """Convert a measurement of the engine to an AutoTVM record."""
    inp, result = measurement.origin
    made = MeasureInput(*inp)
    # The record names the device that measured it; None means this machine.
    made.made_on, made.final = inp.made_on or None, measurement.final
    costs = measurement.costs or result.costs
    return made, MeasureResult(costs, result.error_no, measurement.elapsed, measurement.timestamp)


__all__ = ["TemplateSearch", "describe", "local_measure_option", "make_tuner", "number_of"]
