"""``tvmc tune --enable-autoscheduler``: searches for schedules of a model's computations without templates."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...auto_scheduler.cost_model import CostModel, RandomModel, XGBModel
from ...auto_scheduler.hardware import HardwareParams
from ...auto_scheduler.measure import LocalBuilder, LocalRunner, RPCRunner
from ...auto_scheduler.ray_measure import RayBuilder, RayRunner
from ...auto_scheduler.relay_integration import ModelTask, model_tasks, search_task, untuned_kernels
from ...auto_scheduler.search import SketchSearch
from ...auto_scheduler.search_policy import SearchPolicy, SketchPolicy
from ...auto_scheduler.search_task import SearchTask
from ...relay.build_module import all_targets
from ...tuning import events
from ...tuning.state import TaskStatus
from .errors import TVMCException
from .farm import Farm

# The file for the latency after each round.
LATENCY_FILE = "total_latency.tsv"
# Number of trials before a cost model is trained.
_WARMUP_TRIALS = 64


class TasksOfModel:
    """The tasks of a model, each with the kernels that compute it untuned."""

    def __init__(
        self, mod: Any, params: Any, target: Any, hardware_params: HardwareParams | None, include_simple_tasks: bool
    ):
        self.found: list[ModelTask] = model_tasks(mod, params, all_targets(target, None)[0], include_simple_tasks)
        self.tasks: list[SearchTask] = [search_task(task, hardware_params) for task in self.found]

    def starts(
        self, chosen: Sequence[SearchTask], tuner: str, options: dict[str, Any], farm: Farm | None = None
    ) -> list[Callable[[], SketchSearch]]:
        """Return functions that create the searches of some tasks, which share one cost model."""
        model = cost_model(tuner, len(chosen))
        seconds = max(options["timeout"], 15)
        builder: LocalBuilder
        runner: LocalRunner
        if farm:
            builder, runner = RayBuilder(seconds, farm.address), RayRunner(farm.address, farm.resource, **options)
        else:
            builder = LocalBuilder(timeout=seconds)
            runner = (RPCRunner if "host" in options else LocalRunner)(**options)

        policies: list[SearchPolicy] = []

        def search(number: int, found: ModelTask, task: SearchTask) -> SketchSearch:
            policy = SketchPolicy(task, model, verbose=0)
            policy.siblings = policies
            policies.append(policy)
            return SketchSearch(
                task, policy, builder, runner, untuned=untuned_kernels(found), count=found.weight, number=number
            )

        return [
            partial(search, number, found, task)
            for number, (found, task) in enumerate(zip(self.found, self.tasks))
            if any(task is one for one in chosen)
        ]


def cost_model(tuner: str, tasks: int) -> CostModel:
    """Return the cost model of a tuner name; a random model if the required package is not installed."""
    if tuner not in ("random", "xgb") and not tuner.startswith("xgb_"):
        raise TVMCException(f"--tuner {tuner} searches templates; with --enable-autoscheduler use xgb or random")
    if tuner == "random":
        return RandomModel()
    try:
        return XGBModel(num_warmup_sample=max(_WARMUP_TRIALS, 4 * tasks), adaptive_training=True)
    except ImportError:
        return RandomModel()


def hardware_of(target: Any, given: dict[str, int | None]) -> HardwareParams | None:
    """Return the hardware parameters given by options, or None if there are none."""
    said = {name: value for name, value in given.items() if value is not None}
    return HardwareParams(**said, target=target) if said else None


class LatencyLog:
    """Writes the estimated latency of the model to a file after each round, and passes events on."""

    def __init__(self, then: Callable[[events.Event], None], path: str | os.PathLike = LATENCY_FILE):
        self.then, self.path = then, path
        self.begin = self.elapsed = 0.0
        self.tasks: dict[int, TaskStatus] = {}
        with open(path, "w", encoding="utf-8"):
            pass

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self.begin = time.monotonic() - event.elapsed
            self.tasks = {task.index: task for task in event.tasks}
        elif isinstance(event, events.RoundFinished):
            self.tasks[event.task.index] = event.task
            self._write(time.monotonic() - self.begin)
        self.then(event)

    def _write(self, seconds: float) -> None:
        costs = [task.model_seconds for task in self.tasks.values()]
        known = [cost for cost in costs if cost is not None]
        latency = f"{sum(known) * 1e3:.3f}" if len(known) == len(costs) else "N/A"
        trials = sum(task.trials for task in self.tasks.values())
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"ElapsedTime(s)\t{seconds:.0f}\tEstimatedLatency(ms)\t{latency}\tTrials\t{trials}\n")


__all__ = ["LATENCY_FILE", "LatencyLog", "TasksOfModel", "cost_model", "hardware_of"]
