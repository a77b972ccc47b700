"""The auto-scheduler's search for the tuning engine: states of a task, proposed by a search policy.

If the untuned baseline is known, it is a candidate too: it is measured like the others, and wins if no state is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..tuning.errors import outcome_of
from ..tuning.measure import Built, Failed
from ..tuning.search import Measurement, Outcome, TuningError
from .choices import Row, encode_row, load_rows
from .measure import LocalBuilder, LocalRunner, MeasureInput, MeasureResult
from .measure_record import RECORD_BEGIN
from .search_policy import SearchPolicy
from .search_task import SearchTask
from .state import StateObject

# The key of the untuned baseline; the keys of states are their steps.
UNTUNED = "untuned"
# The number of states that a policy proposes at once. It evolves a population for each proposal, and the engine gives a
# task this many trials per round.
_BATCH = 32
# The number of consecutive failures after which a search stops.
_MOST_FAILURES = 96

# A function that creates the schedule of a kernel.
Instantiation = Callable[[], tuple[Any, list[Any]]]


class Records:
    """The record format of Ansor, with the choices of tuning runs."""

    begin = RECORD_BEGIN

    def load(self, path: str) -> tuple[list[Row], int]:
        return load_rows(path)


RECORDS = Records()


def describe(task: SearchTask, count: int = 1) -> str:
    """Return a short description of a task: its operators and the shapes of its inputs."""
    name = (task.desc or "computation").partition(",")[0].removeprefix("fused_")
    inputs = [op.output(0) for op in task.compute_dag.ops if not op.input_tensors]
    shapes = ["x".join(map(str, tensor.shape)) for tensor in inputs if len(tensor.shape) > 1]
    times = f" (x{count})" if count > 1 else ""
    return f"{name} {' '.join(shapes)}{times}".strip()


class SketchSearch:
    """A task and its policy, as a search of ``tvm.tuning``. ``untuned`` contains the kernels of the baseline; ``count``
    is the number of executions in a run of the model."""

    format = RECORDS

    def __init__(
        self,
        task: SearchTask,
        policy: SearchPolicy,
        builder: LocalBuilder | None = None,
        runner: LocalRunner | None = None,
        *,
        untuned: Sequence[Instantiation] = (),
        count: int = 1,
        number: int | None = None,
    ):
        self.task, self.policy, self.untuned = task, policy, list(untuned)
        self.builder, self.runner = builder or LocalBuilder(), runner or LocalRunner()
        self.title, self.number, self.count = describe(task, count), number, count
        self.flop = max(task.compute_dag.flop_ct, 0.0)
        self.baseline = [UNTUNED] if self.untuned else []
        self.batch_size, self.min_repeat_ms = _BATCH, self.runner.min_repeat_ms
        self._states: dict[Any, StateObject] = {}
        self._is_exhausted = False
        self._failures = 0

    def has_next(self) -> bool:
        return not self._is_exhausted

    def propose(self, limit: int) -> list[Any]:
        states = self.policy.propose(limit)
        self._is_exhausted = not states
        return [self._known(state) for state in states]

    def _known(self, state: StateObject) -> Any:
        self._states[state.transform_steps] = state
        return state.transform_steps

    def state_of(self, key: Any) -> StateObject:
        """Return the state of a key that was proposed or read from a record."""
        return self._states[key]

    # -- measuring -------------------------------------------------------------------------------------------------

    def build(self, keys: Sequence[Any]) -> list[Any]:
        """Compile the kernels of each candidate: one kernel for a state, possibly several for the baseline."""
        kernels = [self.instantiations(key) for key in keys]
        made = iter(self.builder.make([(one, self.task.target) for row in kernels for one in row]))
        return [[next(made) for _ in row] for row in kernels]

    def instantiations(self, key: Any) -> list[Instantiation]:
        """Return the functions that create the schedules of a candidate: one for a state, possibly several for the
        baseline."""
        if key == UNTUNED:
            return self.untuned
        return [
            lambda: self.task.compute_dag.apply_steps_from_state(self._states[key], self.task.layout_rewrite_option)
        ]

    def run(
        self,
        keys: Sequence[Any],
        built: Sequence[Any],
        on_result: Callable[[Measurement], None] | None = None,
        *,
        most_ms: int | None = None,
        verify: bool = False,
    ) -> list[Measurement]:
        measurements: list[Measurement] = []
        if most_ms is not None:
            self.runner.min_repeat_ms = min(self.min_repeat_ms, most_ms)
        # As many candidates are measured at once as the runner has devices.
        step = self.runner.parallel(self.task)
        try:
            for first in range(0, len(keys), step):
                part = keys[first : first + step]
                for key, result in zip(part, self._measure_all(part, built[first : first + step], verify)):
                    measurements.append(self._measurement(key, result))
                    if on_result is not None:
                        on_result(measurements[-1])
        finally:
            self.runner.min_repeat_ms = self.min_repeat_ms
        return measurements

    def _measure_all(self, keys: Sequence[Any], built: Sequence[Any], verify: bool) -> list[MeasureResult]:
        if len(keys) == 1:
            return [self._measured(keys[0], built[0], verify)]
        with ThreadPoolExecutor(len(keys)) as threads:
            return list(threads.map(lambda key, kernels: self._measured(key, kernels, verify), keys, built))

    def _measured(self, key: Any, kernels: Sequence[Built | Failed], verify: bool) -> MeasureResult:
        if key != UNTUNED:
            # The outputs of a GPU are compared with those of the CPU.
            verify = verify and self.task.target.features.is_gpu
            if not verify:
                return self.runner.measure(self.task, kernels[0])
            layouts = self.task.compute_dag.layouts_key(self._states[key], self.task.layout_rewrite_option)
            return self.runner.measure(self.task, kernels[0], self.instantiations(key)[0], layouts=layouts)
        results = [self.runner.measure(self.task, kernel, is_whole=False) for kernel in kernels]
        failed = next((result for result in results if result.error_no != 0), None)
        if failed is not None:
            return failed
        costs = [sum(parts) for parts in zip(*(result.costs for result in results))]
        return MeasureResult(costs, 0, "", sum(result.all_cost for result in results), time.time())

    def _measurement(self, key: Any, result: MeasureResult, final: bool = False) -> Measurement:
        outcome = outcome_of(result.error_no)
        costs = tuple(float(cost) for cost in result.costs) if outcome is Outcome.MEASURED else ()
        return Measurement(key, costs, outcome, result.error_msg, result.all_cost, result.timestamp, final, result)

    # -- learning and records --------------------------------------------------------------------------------------

    def learn(self, measurements: Sequence[Measurement]) -> None:
        found = [m for m in measurements if m.key != UNTUNED]
        inputs = [MeasureInput(self.task, self._states[m.key]) for m in found]
        self.policy.learn(inputs, [m.origin for m in found])
        # States are rebuilt from their steps on demand, because storing all of them would need too much memory.
        self._states.update({m.key: StateObject((), m.key) for m in found})
        for measurement in found:
            self._failures = 0 if measurement.outcome is Outcome.MEASURED else self._failures + 1
        if self._failures >= _MOST_FAILURES:
            raise TuningError(
                f"{self._failures} consecutive candidates of {self.title} failed; the last error: {found[-1].error}"
            )

    def owns(self, row: Row, anywhere: bool = False) -> bool:
        """Return whether a record belongs to this task, and was measured on a machine like this one unless
        ``anywhere``."""
        task, here = row.task, self.task
        if task.workload_key != here.workload_key or task.target_kind != here.target_kind:
            return False
        is_here = task.target_text.split() == here.target_text.split() and task.hardware_params == here.hardware_params
        return anywhere or is_here

    def read(self, rows: Sequence[Row], anywhere: bool = False) -> list[Measurement]:
        found: dict[Any, Measurement] = {}
        for row in rows:
            if not self.owns(row, anywhere) or row.state is None and not self.baseline:
                continue
            key = UNTUNED if row.state is None else self._known(row.state)
            found.pop(key, None)
            found[key] = self._measurement(key, row.result, row.final)
        return list(found.values())

    def load(self, prior: Sequence[Row], resumed: Sequence[Row] = ()) -> None:
        ours = [row for row in (*prior, *resumed) if row.state is not None and self.owns(row, True)]
        last = {row.state.transform_steps: row for row in ours if row.state is not None}
        self.policy.learn(
            [MeasureInput(self.task, self._states.get(key) or row.state) for key, row in last.items()],
            [row.result for row in last.values()],
        )

    def encode(self, measurement: Measurement) -> str:
        result = measurement.origin
        costs = measurement.costs or result.costs
        made = MeasureResult(costs, result.error_no, result.error_msg, measurement.elapsed, measurement.timestamp)
        state = None if measurement.key == UNTUNED else self._states[measurement.key]
        return encode_row(Row(self.task, state, made, measurement.final))


__all__ = ["RECORDS", "UNTUNED", "SketchSearch", "describe"]
