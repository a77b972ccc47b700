"""Rank correlation of the cost model, and its search against random search; called by ``python -m benchmarks.tuning``.

Both can run in parts: finished rows are stored in a JSON file and not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from .tuning_tasks import measured, model_tasks

# Candidates built at once.
BATCH = 16
# Rounds in which held-out configurations and leaders are measured in turn; the median counts.
ROUNDS = 5
# The number of best candidates of a search that are measured again in turn to choose one.
LEADERS = 5


def load(path: str) -> list[dict[str, Any]]:
    return json.loads(Path(path).read_text()) if path and Path(path).exists() else []


def keep(path: str, rows: list[dict[str, Any]]) -> None:
    if path:
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")


def runner() -> Any:
    from tvm import autotvm

    return autotvm.LocalRunner(cooldown_interval=0)


def inputs_of(task: Any, indexes: list[int]) -> list[Any]:
    from tvm import autotvm

    return [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in indexes]


class Candidates:
    """Built configurations of a task, stored in a folder so that they can be measured later."""

    def __init__(self, task: Any, folder: Path):
        self.task, self.folder = task, folder
        self.table = folder / "built.json"
        self.rows: dict[str, Any] = json.loads(self.table.read_text()) if self.table.exists() else {}

    def build(self, indexes: list[int]) -> None:
        from tvm import autotvm
        from tvm.autotvm.measure.measure import MeasureResult

        self.folder.mkdir(parents=True, exist_ok=True)
        builder = autotvm.LocalBuilder(timeout=60)
        builder.set_task(self.task)
        missing = [i for i in indexes if str(i) not in self.rows]
        for at in range(0, len(missing), BATCH):
            part = missing[at : at + BATCH]
            for index, made in zip(part, builder.build(inputs_of(self.task, part))):
                if isinstance(made, MeasureResult):
                    self.rows[str(index)] = None
                    continue
                (self.folder / f"{index}.o").write_bytes(made.code.object)
                self.rows[str(index)] = [made.code.names, made.arg_info]
            self.table.write_text(json.dumps(self.rows))

    def result(self, index: int) -> Any:
        """Return the input of a runner; None for a configuration that could not be built."""
        from tvm.autotvm.measure.measure import BuildResult
        from tvm.tuning.candidate import ENTRY, Code

        row = self.rows[str(index)]
        if row is None:
            return None
        made = BuildResult(None, row[1], None, 0.0)
        made.code = Code((self.folder / f"{index}.o").read_bytes(), tuple(row[0]), ENTRY)
        return made

    def speeds(self, indexes: list[int], how: Any) -> np.ndarray:
        """Return the speeds of one round; 0 for failures."""
        found = []
        for index in indexes:
            made = self.result(index)
            (result,) = how.run(inputs_of(self.task, [index]), [made]) if made is not None else (None,)
            found.append(1.0 / float(np.mean(result.costs)) if result is not None and result.error_no == 0 else 0.0)
        return np.array(found)


def rank(arguments: argparse.Namespace) -> None:
    """Fit the model to ``trials`` measurements as a tuner does, and compare its predictions with held-out
    configurations that are measured several times."""
    from tvm.autotvm.tuner.metric import spearman
    from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel

    tasks = [t for t in model_tasks(arguments.model, arguments.target) if t.name.startswith("conv2d_NCHWc")]
    tasks.sort(key=lambda t: (-len(t.config_space), -t.flop))
    task = tasks[min(arguments.task, len(tasks) - 1)]
    random.seed(arguments.seed)
    chosen = task.config_space.sample_ints(arguments.trials + arguments.held_out)
    candidates = Candidates(task, Path(arguments.folder) / f"rank_{arguments.task}_{arguments.seed}")
    candidates.build(chosen)
    if arguments.prepare:
        return
    seen, held = chosen[: arguments.trials], chosen[arguments.trials :]
    how = runner()
    how.set_task(task)
    speeds = candidates.speeds(seen, how)
    model = XGBoostCostModel(task, arguments.feature, arguments.loss)
    model.fit(seen, speeds, 64)
    guess = model.predict(held)
    rounds = np.array([candidates.speeds(held, how) for _ in range(ROUNDS)])
    row = {
        "task": task.name, "data": task.args[0][1], "kernel": task.args[1][1], "configurations": len(task.config_space),
        "seed": arguments.seed, "trials": len(seen), "held_out": len(held), "feature": arguments.feature,
        "loss": arguments.loss, "spearman": round(spearman(guess, np.median(rounds, axis=0)), 3),
        "spearman_one_round": round(float(np.mean([spearman(guess, r) for r in rounds])), 3),
        "rounds_agree": round(float(np.mean([spearman(a, b) for a, b in zip(rounds, rounds[1:])])), 3),
    }  # fmt: skip
    rows = load(arguments.json)
    keep(arguments.json, [*rows, row])
    print(f"{task.name} {row['data']} {row['kernel']}, {len(task.config_space):,} configurations, seed "
          f"{arguments.seed}: Spearman {row['spearman']:.3f} on {len(held)} after {len(seen)} trials (target 0.8); "
          f"rounds agree with each other at {row['rounds_agree']:.3f}")  # fmt: skip


def leaders(tuner: Any) -> list[int]:
    """Return the fastest measured configurations of a search."""
    order = np.argsort(-np.array(tuner.speeds))
    return [tuner.indexes[i] for i in order[:LEADERS]]


def searched(kind: Any, task: Any, trials: int, option: dict[str, Any], **options: Any) -> list[int]:
    tuner = kind(task, **options)
    tuner.indexes, tuner.speeds = [], []

    def note(_: Any, inputs: Any, results: Any) -> None:
        tuner.indexes += [inp.config.index for inp in inputs]
        tuner.speeds += [1.0 / float(np.mean(r.costs)) if r.error_no == 0 else 0.0 for r in results]

    tuner.tune(trials, option, callbacks=[note])
    return leaders(tuner)


def against_random(arguments: argparse.Namespace) -> None:
    """Search with the model, without its analytic start, and at random; the best candidates of both are measured in
    the same rounds. Tasks that the JSON file has are skipped; no task starts after ``seconds``."""
    from tvm import autotvm

    started = time.monotonic()
    tasks = model_tasks(arguments.model, arguments.target)
    tasks = sorted(tasks, key=lambda t: -(t.flop or 0) * t.count)[: arguments.tasks]
    rows = load(arguments.json)
    option = {"builder": autotvm.LocalBuilder(), "runner": runner()}
    option = autotvm.measure_option(**option)
    for task in tasks:
        key = json.loads(json.dumps(task.workload))
        if any(row["workload"] == key for row in rows):
            continue
        if time.monotonic() - started > arguments.seconds:
            break
        random.seed(arguments.seed)
        picks = [
            searched(autotvm.tuner.XGBTuner, task, arguments.trials, option, plan_size=32, start=False),
            searched(autotvm.tuner.RandomTuner, task, arguments.trials, option),
        ]
        both = list(dict.fromkeys([*picks[0], *picks[1], *task.config_space.start]))
        rounds = np.median([measured(task, both, option) for _ in range(ROUNDS)], axis=0)
        speed = dict(zip(both, rounds))
        model, chance = (max(speed[i] for i in own) for own in picks)
        row = {"workload": key, "trials": arguments.trials, "ratio": round(float(model / chance), 3),
               "to_analytic": round(float(model / max(speed[i] for i in task.config_space.start)), 3)}  # fmt: skip
        rows.append(row)
        keep(arguments.json, rows)
        print(f"{task.name} {task.args[0][1]} {task.args[1][1]}: {row['ratio']:.3f} of random search's speed, "
              f"{row['to_analytic']:.3f} of the analytic choice", flush=True)  # fmt: skip
    won = sum(row["ratio"] > 1 for row in rows)
    level = sum(0.99 <= row["ratio"] <= 1 for row in rows)
    print(f"{len(rows)} of {len(tasks)} tasks done: faster on {won}, within 1 % on {level} more (target 8 of 10)")
