"""Operators that nobody wrote a template for, by search: Ansor's single-operator test.

    python -m benchmarks.auto_scheduler_ops [--trials 200] [--kinds C2D,GMM] [--batches 1,16] [--peer-python PATH]

Ten classes of operators (``auto_scheduler_cases``), three shapes each with batch 1 and 16. Each is tuned with at most
so many trials, and timed in turn with our own default schedule and with PyTorch, eager and compiled, each in a process
of its own. A Python with torch is made by ``make peers``; what is missing is named. Records are kept in the folder
``--records``: a case that has had its trials is not tuned again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tvm
from tvm import auto_scheduler
from tvm.topi import schedule as topi_schedule

from . import harness
from .auto_scheduler_cases import SHAPES, Case, cases, operator_of_ansor
from .auto_scheduler_torch import CASE, rounds_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "benchmarks", "results", "auto_scheduler_ops.json")
RECORDS = os.path.join(ROOT, "build", "auto_scheduler_ops")
PEER_PYTHON = os.path.join(ROOT, "build", "peers", "bin", "python")
OURS, DEFAULT = "searched", "default schedule"
# The first candidates of a large convolution may be a thousand times slower than the best.
SLOWEST_SECONDS = 60
FRAMEWORKS = {
    "torch": "benchmarks.auto_scheduler_torch:eager", "torch.compile": "benchmarks.auto_scheduler_torch:compiled"}


# -- our side ------------------------------------------------------------------------------------------------------


def task_of(case: Case) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=operator_of_ansor, args=case.args, target="llvm", desc=case.name)


def log_of(case: Case, folder: str) -> str:
    return os.path.join(folder, case.name.replace(" ", "_") + ".json")


def tune(case: Case, trials: int, folder: str) -> int:
    """Search until a case has had its trials; how many records it has."""
    task, log = task_of(case), log_of(case, folder)
    done = len(auto_scheduler.load_records(log)) if os.path.exists(log) else 0
    if done < trials:
        model = auto_scheduler.XGBModel()
        if done:
            model.update_from_file(log)
        policy = auto_scheduler.SketchPolicy(
            task, model, verbose=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
        task.tune(auto_scheduler.TuningOptions(
            num_measure_trials=trials - done, verbose=0, runner=auto_scheduler.LocalRunner(timeout=SLOWEST_SECONDS),
            measure_callbacks=[auto_scheduler.RecordToFile(log)]), policy)
    return len(auto_scheduler.load_records(log))


def _default(task: auto_scheduler.SearchTask) -> tuple[Any, list[Any]]:
    tensors = task.compute_dag.tensors
    return topi_schedule.schedule_for([tensors[-1]], task.target), tensors


def _arrays(tensors: Sequence[Any]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [tvm.nd.array(rng.uniform(-1, 1, [int(d) for d in t.shape]).astype(t.dtype)) for t in tensors]


def _case() -> tuple[Case, dict[str, Any]]:
    given = json.loads(os.environ[CASE])
    return Case(given["kind"], given["batch"], tuple(given["numbers"])), given


def default() -> Callable[[], float]:
    case, _ = _case()
    schedule, tensors = _default(task_of(case))
    function, arrays = tvm.build(schedule, tensors, "llvm"), _arrays(tensors)
    return rounds_of(lambda: function(*arrays))


def searched() -> Callable[[], float]:
    """The best record of a case, whose result is that of the default schedule."""
    case, given = _case()
    task = task_of(case)
    schedule, tensors = task.apply_best(log_of(case, given["records"]))
    function, arrays = tvm.build(schedule, tensors, "llvm"), _arrays(tensors)
    function(*arrays)
    expected = _arrays(tensors)
    tvm.build(*_default(task), "llvm")(*expected)
    scale = float(np.abs(expected[-1].numpy()).max())
    np.testing.assert_allclose(arrays[-1].numpy(), expected[-1].numpy(), rtol=1e-3, atol=1e-4 * scale)
    return rounds_of(lambda: function(*arrays))


# -- all of them ---------------------------------------------------------------------------------------------------


def missing(python: str) -> str | None:
    """Why a Python cannot run PyTorch, or None."""
    if not os.path.exists(python):
        return f"there is no {python}; make peers"
    done = subprocess.run([python, "-c", "import torch"], capture_output=True)
    return f"{python} has no torch" if done.returncode else None


def measure(case: Case, options: argparse.Namespace, frameworks: Sequence[str]) -> dict[str, Any]:
    """One row: seconds of each program."""
    records = tune(case, options.trials, options.records)
    inputs = [[int(d) for d in t.shape] for t in task_of(case).compute_dag.tensors[:-1]]
    given = {"kind": case.kind, "batch": case.batch, "numbers": case.shape, "inputs": inputs,
             "records": options.records}
    environment = {CASE: json.dumps(given)}
    peers: dict[str, Any] = {OURS: ("benchmarks.auto_scheduler_ops:searched", environment),
                             DEFAULT: ("benchmarks.auto_scheduler_ops:default", environment)}
    peers.update({name: (FRAMEWORKS[name], environment, options.peer_python) for name in frameworks})
    row = {"case": case.name, "kind": case.kind, "batch": case.batch, "records": records, "seconds": {}}
    try:
        timed = harness.interleave(peers, options.rounds)
    except RuntimeError as error:
        # A program that does not run costs its row.
        return {**row, "problem": str(error)}
    return {**row, "seconds": {name: result.p20 for name, result in timed.items()}}


def ratio(row: dict[str, Any], others: Sequence[str]) -> float | None:
    """Our time as a share of the best of some others; None where none ran."""
    known = [row["seconds"][name] for name in others if name in row["seconds"]]
    return row["seconds"][OURS] / min(known) if known and OURS in row["seconds"] else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = [OURS, DEFAULT, *FRAMEWORKS]
    lines = [f"| case | {' | '.join(f'{name}, ms' for name in names)} | of PyTorch | of default |",
             "|---" * (len(names) + 3) + "|"]
    for row in rows:
        times = [f"{row['seconds'][name] * 1e3:.3f}" if name in row["seconds"] else "-" for name in names]
        shares = [f"{share:.2f}" if (share := ratio(row, others)) else "-" for others in (list(FRAMEWORKS), [DEFAULT])]
        problem = f" ({row['problem']})" if "problem" in row else ""
        lines.append(f"| {row['case']}{problem} | {' | '.join([*times, *shares])} |")
    return "\n".join([*lines, "", *summary(rows)])


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How often we are faster, and by how much in the geometric mean, of all and by class."""
    lines = []
    for title, others in (("PyTorch (best of eager and compiled)", list(FRAMEWORKS)), ("default schedules", [DEFAULT])):
        shares = {row["case"]: share for row in rows if (share := ratio(row, others)) is not None}
        if not shares:
            lines.append(f"against {title}: not measured")
            continue
        faster = sum(share < 1 for share in shares.values())
        by_kind = {kind: [shares[row["case"]] for row in rows if row["kind"] == kind and row["case"] in shares]
                   for kind in SHAPES}
        means = ", ".join(f"{kind} {geometric_mean(some):.2f}" for kind, some in by_kind.items() if some)
        lines.append(f"against {title}: faster on {faster} of {len(shares)}, geometric mean of times "
                     f"{geometric_mean(list(shares.values())):.2f} ({means})")
    return lines


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--batches", type=lambda text: tuple(map(int, text.split(","))), default=(1, 16))
    parser.add_argument("--shapes", type=int, default=3, help="how many shapes of each class")
    parser.add_argument("--records", default=RECORDS)
    parser.add_argument("--output", default=RESULTS)
    parser.add_argument("--peer-python", default=PEER_PYTHON)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.kinds) - set(SHAPES))
    if unknown:
        parser.error(f"the class {unknown[0]} is not known; there are {', '.join(SHAPES)}")
    return options


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    options = parsed(arguments)
    os.makedirs(options.records, exist_ok=True)
    problem = missing(options.peer_python)
    if problem:
        print(f"left out: {', '.join(FRAMEWORKS)} ({problem})")
    frameworks = [] if problem else list(FRAMEWORKS)
    rows = []
    for case in cases(options.kinds, options.batches):
        if case.shape not in SHAPES[case.kind][: options.shapes]:
            continue
        rows.append(measure(case, options, frameworks))
        print(table(rows[-1:]).splitlines()[2], flush=True)
        facts = {"commit": harness.commit(), "trials": options.trials, "left out": problem or "", "rows": rows}
        harness.save(options.output, facts)
    print(table(rows))
    return rows


if __name__ == "__main__":
    main()
    sys.exit()
