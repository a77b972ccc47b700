"""Initial weights of AutoScheduler's cost model, for the machine family of this machine.

    python -m benchmarks.auto_scheduler_weights collect --log FILE [--target cuda] [--trials 48] [--seconds 300]
    python -m benchmarks.auto_scheduler_weights check --log FILE [--searches FILE ...] [--target cuda]
    python -m benchmarks.auto_scheduler_weights train --log FILE [--searches FILE ...] [--target cuda]

``collect`` measures states of tasks that are not layers of ResNet-50, half of them random, and writes records; the same
command continues an interrupted run. It needs only NumPy, llvmlite and xgboost. ``check`` prints the rank correlation
on tasks that were left out of training; ``train`` writes the weights into the package. ``--searches`` are records of
searches of whole models (``benchmarks.auto_scheduler_models tune``); their names identify the model:
MODEL_LAYOUT_START.json. They contain the states that searches propose, few of which are slow, as additional training
data.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from .auto_scheduler_tasks import training_tasks

DEPTH, TREES = 4, 120
PARAMETERS = {"max_depth": DEPTH, "eta": 0.08, "min_child_weight": 4, "lambda": 1.0, "subsample": 0.8,
              "colsample_bytree": 0.4, "tree_method": "hist", "base_score": 0.0, "seed": 0,
              "disable_default_eval_metric": 1}  # fmt: skip
# The share of tasks that ``check`` leaves out in turn.
FOLDS = 5
# The largest ratio between repeats; above it, other programs disturbed the measurement of a task, and it is not used.
DISAGREE = 1.15


def spearman(a: Any, b: Any) -> float:
    """Return Spearman's rank correlation; equal values share their mean rank."""

    def ranks(values: Any) -> np.ndarray:
        _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return (ends - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def collect(arguments: argparse.Namespace) -> None:
    import tvm
    from tvm import auto_scheduler

    deadline = time.monotonic() + arguments.seconds
    known: Counter[str] = Counter()
    if os.path.exists(arguments.log):
        known.update(inp.task.workload_key for inp, _ in auto_scheduler.RecordReader(arguments.log))
    # GPU kernels take microseconds.
    number = 20 if tvm.target.Target(arguments.target).features.is_gpu else 2
    measurer = auto_scheduler.measure.ProgramMeasurer(
        auto_scheduler.LocalBuilder(timeout=30),
        auto_scheduler.LocalRunner(number=number, repeat=2, min_repeat_ms=0),
        [auto_scheduler.RecordToFile(arguments.log)],
        verbose=0,
    )
    tasks = training_tasks(arguments.target)
    for number, task in enumerate(tasks):
        left = arguments.trials - known[task.workload_key]
        model = auto_scheduler.XGBModel(num_warmup_sample=16, pretrained=False)
        callbacks = [auto_scheduler.PreloadMeasuredStates(arguments.log)]
        policy = auto_scheduler.SketchPolicy(
            task, model, {"eps_greedy": 0.5}, seed=number, verbose=0, init_search_callbacks=callbacks
        )
        while left > 0 and time.monotonic() < deadline:
            inputs, _ = policy.continue_search_one_round(min(left, (arguments.trials + 1) // 2), measurer)
            if not inputs:
                break
            left -= len(inputs)
        if time.monotonic() > deadline:
            break
    print(f"{number + 1} of {len(tasks)} tasks, {measurer.ct} trials, {measurer.error_ct} failed")


def quietly_measured(log: str) -> set[str]:
    """Return the tasks whose repeats agree."""
    from tvm import auto_scheduler

    ratios: dict[str, list[float]] = {}
    for inp, res in auto_scheduler.RecordReader(log):
        if len(res.costs) > 1:
            ratios.setdefault(inp.task.workload_key, []).append(max(res.costs) / min(res.costs))
    return {key for key, found in ratios.items() if np.median(found) < DISAGREE}


class Samples:
    """Feature rows, the task of each state, its speed relative to the best of its task, and the training targets.

    Speeds are compared within one run over a task, since the machine may change between runs. ``runs`` identifies them.
    """

    def __init__(self, arguments: argparse.Namespace):
        from tvm.auto_scheduler.cost_model.xgb_model import relative_speeds, shortfall

        self.rows: list[np.ndarray] = []
        self.tasks: list[str] = []
        self.runs: list[str] = []
        self._costs: list[float] = []
        self._estimates: list[float] = []
        if os.path.exists(arguments.log):
            quiet = quietly_measured(arguments.log)
            tasks = {task.workload_key: task for task in training_tasks(arguments.target)}
            self._add(arguments.log, {key: task for key, task in tasks.items() if key in quiet})
        for path in arguments.searches:
            self._add(path, tasks_of_search(path, arguments.models, arguments.target))
        if not self.rows:
            raise SystemExit(f"no records in {', '.join([arguments.log, *arguments.searches])}")
        self.speeds, self.estimates = relative_speeds(self.runs, self._costs), np.array(self._estimates)
        self.wanted, _ = shortfall(self.runs, self.speeds, self.estimates)

    def _add(self, path: str, tasks: dict[str, Any]) -> None:
        """Add the records of a file that belong to these tasks and were measured on the same kind of machine."""
        from tvm import auto_scheduler
        from tvm.auto_scheduler.cost_model.xgb_model import estimate, extractor_of

        extractors: dict[str, Any] = {}
        for inp, res in auto_scheduler.RecordReader(path):
            key = inp.task.workload_key
            if key not in tasks:
                continue
            if key not in extractors:
                tasks[key].hardware_params = inp.task.hardware_params
                extractors[key] = extractor_of(tasks[key])
            self.rows.append(extractors[key].rows(inp.state))
            self.tasks.append(key)
            self.runs.append(f"{path} {key}")
            self._costs.append(res.mean_cost)
            self._estimates.append(float(estimate(tasks[key], self.rows[-1][None])[0]))


def tasks_of_search(path: str, models: str, target: str) -> dict[str, Any]:
    """Return the tasks of the model of a record file of ``benchmarks.auto_scheduler_models``, by their keys."""
    from tvm import auto_scheduler

    from .auto_scheduler_models import laid_out

    model, layout, _ = Path(path).stem.rsplit("_", 2)
    mod, params = laid_out(argparse.Namespace(model=model, layout=layout if layout != "plain" else "", models=models))
    tasks, _ = auto_scheduler.extract_tasks(mod, params, target)
    return {task.workload_key: task for task in tasks}


def fit(samples: Samples, which: np.ndarray) -> Any:
    """Train trees on some of the states, with the loss of the cost model."""
    import xgboost

    from tvm.auto_scheduler.cost_model.xgb_model import stage_loss

    rows = [samples.rows[n] for n in which]
    owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    loss = stage_loss(owner, samples.wanted[which], samples.speeds[which])
    return xgboost.train(PARAMETERS, xgboost.DMatrix(np.concatenate(rows)), TREES, obj=loss)


def forest_of(booster: Any, target: str) -> Any:
    import tvm
    from tvm.auto_scheduler.cost_model.forest import Forest
    from tvm.auto_scheduler.cost_model.weights import family_of, names_of

    return Forest.of_booster(booster, DEPTH, names_of(family_of(tvm.target.Target(target))))


def check(arguments: argparse.Namespace) -> None:
    samples = Samples(arguments)
    keys = list(dict.fromkeys(samples.tasks))
    owner = np.array([keys.index(key) for key in samples.tasks])
    found, estimated = {}, []
    for fold in range(FOLDS):
        forest = forest_of(fit(samples, np.flatnonzero(owner % FOLDS != fold)), arguments.target)
        for run in sorted({run for run, n in zip(samples.runs, owner) if n % FOLDS == fold}):
            own = np.flatnonzero(np.array(samples.runs) == run)
            scores = [forest.predict(samples.rows[n]).sum() + samples.estimates[n] for n in own]
            if len(own) > 8:
                estimated.append(spearman(samples.estimates[own], samples.speeds[own]))
                found[run] = spearman(scores, samples.speeds[own])
    for key, value in sorted(found.items(), key=lambda item: item[1]):
        print(f"{value:5.2f} {key[:100]}")
    values = list(found.values())
    print(
        f"{len(samples.rows)} states of {len(keys)} tasks; rank correlation on tasks left out: mean "
        f"{np.mean(values):.2f}, median {np.median(values):.2f}; of the estimate alone {np.mean(estimated):.2f}"
    )


def train(arguments: argparse.Namespace) -> None:
    import tvm
    from tvm.auto_scheduler.cost_model import weights

    samples = Samples(arguments)
    family = weights.family_of(tvm.target.Target(arguments.target))
    if not family:
        raise SystemExit(f"target {arguments.target} has no machine family with weights")
    path = weights.FOLDER / f"{family}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(forest_of(fit(samples, np.arange(len(samples.rows))), arguments.target).to_json(), encoding="utf-8")
    print(f"{len(samples.rows)} states: {path.name}, {path.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {"collect": collect, "check": check, "train": train}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--log", default="build/auto_scheduler_weights.json")
    parser.add_argument("--searches", nargs="*", default=[], help="record files of searches of whole models")
    parser.add_argument("--models", default="build/models", help="folder of those models")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--trials", type=int, default=48, help="number of measurements of each task")
    parser.add_argument("--seconds", type=float, default=300, help="start no new round after this number of seconds")
    arguments = parser.parse_args()
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
