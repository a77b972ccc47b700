"""The task scheduler tunes several tasks together: each round goes to the task with the largest expected saving."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from .cost_model import CostModel, RandomModel
from .cost_model.estimate import EstimateModel
from .cost_model.xgb_model import XGBModel
from .measure import MAX_FLOAT, ProgramMeasurer
from .measure_record import RecordReader
from .search_policy import PreloadMeasuredStates, SearchCallback, SearchPolicy, SketchPolicy
from .search_task import SearchTask, TuningOptions

STRATEGIES = ("gradient", "round-robin")
# The relative change of a task's cost from which the derivative of the objective is estimated.
_DELTA = 1e-4
# A task that has had this many more rounds than the fastest similar one, and is still slower, does not count as
# similar.
_MANY_ROUNDS = 5


class TaskSchedulerCallback:
    """Receives the events of tuning rounds."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Called before a round of a task, and with -1 before the first round.

        Parameters
        ----------
        task_scheduler : TaskScheduler
            The scheduler, with its counts and times so far.
        task_id : int
            The index of the task in the scheduler, or -1.
        """

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Called after a round of a task.

        Parameters
        ----------
        task_scheduler : TaskScheduler
            The scheduler, with its counts and times so far.
        task_id : int
            The index of the task in the scheduler.
        """


class PrintTableInfo(TaskSchedulerCallback):
    """A callback that prints a table of all tasks after the first rounds, and then periodically.

    Parameters
    ----------
    seconds : float
        The minimum number of seconds between two tables.
    """

    def __init__(self, seconds: float = 5.0):
        self.seconds, self._last = seconds, -math.inf

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if task_scheduler.verbose and time.monotonic() - self._last > self.seconds:
            self._last = time.monotonic()
            print(table(task_scheduler))


def table(scheduler: TaskScheduler) -> str:
    """A table of all tasks with their times, speeds and trials.

    Parameters
    ----------
    scheduler : TaskScheduler
        The scheduler.

    Returns
    -------
    str
        The table.
    """
    lines = ["|  ID  | Task                             | Latency (ms) | Speed (GFLOPS) | Trials |"]
    lines.append("-" * len(lines[0]))
    for number, task in enumerate(scheduler.tasks):
        cost = scheduler.best_costs[number]
        ran = cost < MAX_FLOAT
        speed = f"{task.compute_dag.flop_ct / cost / 1e9:.2f}" if ran else "-"
        name = (task.desc or task.workload_key)[:32]
        latency = f"{cost * 1e3:.3f}" if ran else "-"
        lines.append(f"| {number:4} | {name:32} | {latency:>12} | {speed:>14} | {scheduler.task_cts[number]:6} |")
    total = f"{scheduler.cur_score * 1e3:.3f} ms" if scheduler.cur_score < MAX_FLOAT else "not known yet"
    return "\n".join([*lines, f"Estimated total latency: {total}   Trials: {scheduler.ct}"])


class LogEstimatedLatency(TaskSchedulerCallback):
    """A callback that writes seconds, trials and the estimated latency to a file after each round.

    Parameters
    ----------
    log_file : str | os.PathLike
        The file.
    """

    def __init__(self, log_file: str | os.PathLike):
        self.log_file = log_file
        with open(log_file, "w", encoding="utf-8"):
            pass

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if all(cost < MAX_FLOAT for cost in task_scheduler.best_costs):
            latency = f"{task_scheduler.cur_score * 1e3:.3f}"
        else:
            latency = "N/A"
        elapsed = time.time() - task_scheduler.tic
        with open(self.log_file, "a", encoding="utf-8") as file:
            file.write(f"ElapsedTime(s)\t{elapsed:.0f}\tEstimatedLatency(ms)\t{latency}\tTrials\t{task_scheduler.ct}\n")


class TaskScheduler:
    """Tunes tasks together: every round goes to one of them.

    Parameters
    ----------
    tasks : list of SearchTask
        The tasks.
    task_weights : list of float, optional
        The number of executions of each task in a run of the model.
    objective_func : Callable, optional
        The function that computes the objective from the seconds of all tasks; their weighted sum by default.
    strategy : str
        "gradient", for the task with the largest expected saving, or "round-robin".
    load_model_file : str, optional
        A file with a cost model to start from.
    load_log_file : str, optional
        A file with records to continue from.
    alpha : float
        The weight of the savings in the last rounds in the expected saving.
    beta : float
        The best time that a task is expected to reach, relative to its time at the speed of the fastest similar task.
    gamma : float
        A task whose speed stays below this fraction of that speed does not count as similar.
    backward_window_size : int
        The number of past rounds that are considered.
    callbacks : list of TaskSchedulerCallback, optional
        The callbacks for rounds; a table and total_latency.tsv by default.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ):
        if strategy not in STRATEGIES:
            raise ValueError(f"TaskScheduler: unknown strategy '{strategy}'; use one of {', '.join(STRATEGIES)}")
        if task_weights is not None and len(task_weights) != len(tasks):
            raise ValueError(
                f"TaskScheduler: the number of weights, {len(task_weights)}, differs from the number of tasks, "
                f"{len(tasks)}"
            )
        self.tasks, self.strategy = list(tasks), strategy
        weights = [1.0] * len(self.tasks) if task_weights is None else [float(w) for w in task_weights]
        self.objective_func = objective_func or (lambda costs: sum(c * w for c, w in zip(costs, weights)))
        self.load_model_file, self.load_log_file = load_model_file, load_log_file
        self.alpha, self.beta, self.gamma, self.backward_window_size = alpha, beta, gamma, backward_window_size
        self.callbacks = (
            [PrintTableInfo(), LogEstimatedLatency("total_latency.tsv")] if callbacks is None else list(callbacks)
        )
        self.verbose, self.tic = 1, 0.0
        count = len(self.tasks)
        # For each task: the number of rounds, the best time after each round, the best time so far, and the round in
        # which it was found.
        self.task_cts, self.task_best_cts = [0] * count, [0] * count
        self.task_costs_history: list[list[float]] = [[] for _ in range(count)]
        self.best_costs = [MAX_FLOAT] * count
        self.cur_score = MAX_FLOAT
        # The number of trials, the best score, and the number of trials before the best score was reached.
        self.ct, self.best_ct, self.best_score = 0, 0, MAX_FLOAT
        self.dead_tasks: set[int] = set()
        self.search_policies: list[SearchPolicy] = []

    # -- tuning ----------------------------------------------------------------------------------------------------

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: dict[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Tune all tasks; measurements are passed to the callbacks of the options.

        Parameters
        ----------
        tune_option : TuningOptions
            The trials and the round size for all tasks together, builder, runner and callbacks.
        search_policy : str or list of SearchPolicy, optional
            "sketch.xgb", "sketch.random", or "default", which depends on the targets; or a policy for each task.
        search_policy_params : dict, optional
            Values that replace the defaults of ``SketchPolicy``, by name.
        adaptive_training : bool, optional
            Whether the cost model is trained again only after the number of measurements has grown by a fifth.
        per_task_early_stopping : int, optional
            The number of trials without gain after which a task ends; no limit by default.

        Raises
        ------
        ValueError
            There are fewer trials than tasks, the policy is unknown, or the number of policies differs from that of
            tasks.
        """
        if not self.tasks:
            return
        self.tic, self.verbose, self.ct, self.best_ct = time.time(), tune_option.verbose, 0, 0
        self.dead_tasks.clear()
        size = min(tune_option.num_measures_per_round, tune_option.num_measure_trials // len(self.tasks))
        if size < 1:
            raise ValueError(
                f"TaskScheduler: num_measure_trials must be at least the number of tasks, {len(self.tasks)}, got "
                f"{tune_option.num_measure_trials}"
            )
        measurer = ProgramMeasurer(
            tune_option.builder, tune_option.runner, tune_option.measure_callbacks, tune_option.verbose
        )
        self.search_policies = self._policies(search_policy, search_policy_params, size, adaptive_training)
        for policy in self.search_policies:
            if isinstance(policy, SketchPolicy):
                policy.siblings = self.search_policies
        self._restore()
        for callback in self.callbacks:
            callback.pre_tune(self, -1)
        # Every task gets a first round, because the saving of a task that was never measured cannot be estimated.
        for number in range(len(self.tasks)):
            if not self.task_cts[number]:
                self._round(number, size, measurer, per_task_early_stopping)
        while self.ct < tune_option.num_measure_trials and len(self.dead_tasks) < len(self.tasks):
            left = min(size, tune_option.num_measure_trials - self.ct)
            self._round(self._next(), left, measurer, per_task_early_stopping)
            patience = tune_option.early_stopping
            if patience is not None and self.ct - self.best_ct >= patience:
                break

    def _policies(
        self, policy: str | Sequence[SearchPolicy], params: dict[str, Any] | None, size: int, adaptive: bool
    ) -> list[SearchPolicy]:
        if not isinstance(policy, str):
            if len(policy) != len(self.tasks):
                raise ValueError(
                    f"TaskScheduler: the number of policies, {len(policy)}, differs from the number of tasks, "
                    f"{len(self.tasks)}"
                )
            return list(policy)
        on_gpus = all(task.target.features.is_gpu for task in self.tasks)
        if policy == "default" and on_gpus and not self.load_model_file:
            model: CostModel = EstimateModel()
        else:
            model = self._model("sketch.xgb" if policy == "default" else policy, size, adaptive)
        callbacks: list[SearchCallback] = [PreloadMeasuredStates(self.load_log_file)] if self.load_log_file else []
        return [
            SketchPolicy(task, model, params, verbose=self.verbose, init_search_callbacks=callbacks)
            for task in self.tasks
        ]

    def _model(self, policy: str, size: int, adaptive: bool) -> CostModel:
        """Return the cost model that all tasks share, given the name of a policy."""
        kind, _, model = policy.partition(".")
        if kind != "sketch" or model not in ("xgb", "random"):
            raise ValueError(
                f"TaskScheduler: unknown search_policy '{policy}'; use default, sketch.xgb or sketch.random"
            )
        if model == "random":
            if self.load_model_file:
                raise ValueError(
                    "TaskScheduler: sketch.random has no cost model; load_model_file is not supported with it"
                )
            return RandomModel()
        return XGBModel(
            num_warmup_sample=len(self.tasks) * size, model_file=self.load_model_file, adaptive_training=adaptive
        )

    def _restore(self) -> None:
        """Load the best times of earlier records."""
        if not self.load_log_file or not os.path.exists(self.load_log_file):
            return
        places = {(task.workload_key, str(task.target)): number for number, task in enumerate(self.tasks)}
        for inp, res in RecordReader(self.load_log_file):
            number = places.get((inp.task.workload_key, inp.task.target_text))
            if number is not None and res.error_no == 0:
                self.best_costs[number] = min(self.best_costs[number], res.mean_cost)
                self.task_cts[number] = max(self.task_cts[number], 1)
        for number, cost in enumerate(self.best_costs):
            if self.task_cts[number] and not self.task_costs_history[number]:
                self.task_costs_history[number] = [cost]
        self.cur_score = self.best_score = self._score(self.best_costs)

    def _score(self, costs: Sequence[float]) -> float:
        return float(self.objective_func(costs))

    def _round(self, number: int, size: int, measurer: ProgramMeasurer, patience: int | None) -> None:
        """Run more trials of a task."""
        for callback in self.callbacks:
            callback.pre_tune(self, number)
        inputs, results = self.search_policies[number].continue_search_one_round(size, measurer)
        self.task_cts[number] += 1
        self.ct += len(inputs)
        best = min((res.mean_cost for res in results), default=MAX_FLOAT)
        if best < self.best_costs[number]:
            self.best_costs[number], self.task_best_cts[number] = best, self.task_cts[number]
        self.task_costs_history[number].append(self.best_costs[number])
        stalled = (self.task_cts[number] - self.task_best_cts[number]) * size
        if not inputs or patience is not None and stalled >= patience:
            self.dead_tasks.add(number)
        self.cur_score = self._score(self.best_costs)
        if self.cur_score < self.best_score:
            self.best_score, self.best_ct = self.cur_score, self.ct
        for callback in self.callbacks:
            callback.post_tune(self, number)

    # -- task selection ------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        alive = [number for number in range(len(self.tasks)) if number not in self.dead_tasks]
        if self.strategy == "round-robin":
            return min(alive, key=lambda number: self.task_cts[number])
        savings = {number: self._expected_saving(number) for number in alive}
        most = max(savings.values())
        return random.choice([number for number in alive if savings[number] == most])

    def _expected_saving(self, number: int) -> float:
        """Return the expected saving of the objective by another round of a task."""
        cost, history, window = self.best_costs[number], self.task_costs_history[number], self.backward_window_size
        if cost >= MAX_FLOAT:
            # The objective is unknown as long as one task has no valid measurement.
            return math.inf
        less = list(self.best_costs)
        less[number] = cost * (1 - _DELTA)
        weight = (self._score(self.best_costs) - self._score(less)) / (cost * _DELTA)
        saved = (history[-1 - window] - history[-1]) / window if len(history) > window else 0.0
        saved = 0.0 if saved > cost else saved
        expected = max(cost / self.task_cts[number], cost - self._reachable(number))
        return weight * (self.alpha * saved + (1 - self.alpha) * expected)

    def _reachable(self, number: int) -> float:
        """Return ``beta`` times the seconds of a task at the speed of the fastest similar task; its own time without
        a similar task. A task that has had many more rounds and is still slower by ``gamma`` does not count as
        similar."""
        structure, flop = _structure(self.tasks[number]), self.tasks[number].compute_dag.flop_ct
        speeds = {
            i: task.compute_dag.flop_ct / self.best_costs[i]
            for i, task in enumerate(self.tasks)
            if i != number and _structure(task) == structure
        }
        if not speeds or flop <= 0:
            return self.best_costs[number]
        fastest = max(speeds, key=speeds.__getitem__)
        had_many = self.task_cts[number] > self.task_cts[fastest] + _MANY_ROUNDS
        if speeds[fastest] <= 0 or had_many and flop / self.best_costs[number] < self.gamma * speeds[fastest]:
            return self.best_costs[number]
        return self.beta * flop / speeds[fastest]


def _structure(task: SearchTask) -> tuple[str, ...]:
    """Return a key that is equal for tasks with the same operations of other sizes."""
    return tuple(op.tag or op.name for op in task.compute_dag.ops)


__all__ = ["LogEstimatedLatency", "PrintTableInfo", "TaskScheduler", "TaskSchedulerCallback", "table"]
