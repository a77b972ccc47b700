"""Operators without templates, searched by AutoScheduler: Ansor's single-operator test.

    python -m benchmarks.auto_scheduler_ops [--trials 200] [--kinds C2D,GMM] [--batches 1,16] [--peer-python PATH]
    python -m benchmarks.auto_scheduler_ops --jobs 8 --seconds 540        eight cases at once, two cores each

The test has ten operator classes (``auto_scheduler_cases``), with three shapes each at batch 1 and 16. Each case is
tuned with ``--trials`` trials and timed in turn with our default schedule and with PyTorch: eager in two dimension
orders, and compiled. Each program has its own process. ``python -m tools peers`` makes a Python with torch; programs
that cannot run are listed. Records and rows are stored in the folder ``--records``: a case that has enough records is
not tuned again, and a case that has a row is not timed again. The same command therefore continues after ``--seconds``
or an interruption. With ``--jobs``, each case has its own cores, for its search and for the programs that it is timed
with.

The search needs numpy, llvmlite and xgboost; an unpacked wheel of xgboost-cpu on PYTHONPATH is enough.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tvm
from tvm import auto_scheduler
from tvm.topi import schedule as topi_schedule

from . import harness, result_file
from .auto_scheduler_cases import CLASSES, SHAPES, Case, cases, operator_of_ansor
from .auto_scheduler_torch import CASE, rounds_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "build", "auto_scheduler_ops.json")
RECORDS = os.path.join(ROOT, "build", "auto_scheduler_ops")
PEER_PYTHON = os.path.join(ROOT, "build", "peers", "bin", "python")
OURS, DEFAULT = "searched", "default schedule"
# Trials per round: few, so that previous measurements determine most of them.
ROUND = 32
# The number of best records that are timed in turn to choose one, and the number of rounds: a single measurement on a
# shared machine may favour any of them.
FINALISTS, FINAL_ROUNDS = 5, 7
# The first candidates of a large convolution may be a hundred times slower than the best.
SLOWEST_SECONDS = 20
# Seconds after which a timing starts no new round: default schedules of large convolutions take seconds per run.
ROUNDS_SECONDS = 20
FRAMEWORKS = {
    "torch": "benchmarks.auto_scheduler_torch:eager",
    "torch, channels last": "benchmarks.auto_scheduler_torch:channels_last",
    "torch.compile": "benchmarks.auto_scheduler_torch:compiled"}  # fmt: skip


# -- our side ------------------------------------------------------------------------------------------------------


def task_of(case: Case) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=operator_of_ansor, args=case.args, target="llvm", desc=case.name)


def log_of(case: Case, folder: str) -> str:
    return os.path.join(folder, case.name.replace(" ", "_") + ".json")


def tune(case: Case, trials: int, folder: str) -> int:
    """Search until a case has its trials, and return the number of records."""
    task, log = task_of(case), log_of(case, folder)
    done = len(auto_scheduler.load_records(log)) if os.path.exists(log) else 0
    if done < trials:
        model = auto_scheduler.XGBModel(num_warmup_sample=ROUND)
        if done:
            model.update_from_file(log)
        policy = auto_scheduler.SketchPolicy(
            task, model, verbose=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
        )
        task.tune(
            auto_scheduler.TuningOptions(
                num_measure_trials=trials - done,
                num_measures_per_round=ROUND,
                verbose=0,
                runner=auto_scheduler.LocalRunner(timeout=SLOWEST_SECONDS),
                measure_callbacks=[auto_scheduler.RecordToFile(log)],
            ),
            policy,
        )
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
    """Return a round of the fastest of the best records of a case, after a check of its output against the default
    schedule."""
    case, given = _case()
    task = task_of(case)
    tensors = task.compute_dag.tensors
    arrays, expected = _arrays(tensors), _arrays(tensors)
    function = _winner(task, log_of(case, given["records"]), arrays)
    function(*arrays)
    tvm.build(*_default(task), "llvm")(*expected)
    scale = float(np.abs(expected[-1].numpy()).max())
    np.testing.assert_allclose(arrays[-1].numpy(), expected[-1].numpy(), rtol=1e-3, atol=1e-4 * scale)
    return rounds_of(lambda: function(*arrays))


def _winner(task: auto_scheduler.SearchTask, log: str, arrays: Sequence[Any]) -> Callable[..., Any]:
    """Return the fastest of the best records, by the median of rounds in turn."""
    measured = [(inp, res) for inp, res in auto_scheduler.load_records(log) if res.error_no == 0]
    best = sorted(measured, key=lambda record: record[1].mean_cost)[:FINALISTS]
    functions = [tvm.build(*task.compute_dag.apply_steps_from_state(inp.state), "llvm") for inp, _ in best]
    rounds = [rounds_of(lambda own=own: own(*arrays)) for own in functions]
    times = [[run() for run in rounds] for _ in range(FINAL_ROUNDS)]
    return functions[int(np.argmin(np.median(times, axis=0)))]


# -- all programs --------------------------------------------------------------------------------------------------


def missing(python: str) -> str | None:
    """Return the reason why a Python cannot run PyTorch, or None."""
    if not os.path.exists(python):
        return f"there is no {python}; python -m tools peers"
    done = subprocess.run([python, "-c", "import torch"], capture_output=True)
    return f"{python} has no torch" if done.returncode else None


def measure(case: Case, options: argparse.Namespace, frameworks: Sequence[str]) -> dict[str, Any]:
    """Return one row: the seconds of each program."""
    records = tune(case, options.trials, options.records)
    inputs = [[int(d) for d in t.shape] for t in task_of(case).compute_dag.tensors[:-1]]
    given = {
        "kind": case.kind,
        "batch": case.batch,
        "numbers": case.shape,
        "inputs": inputs,
        "records": options.records,
    }
    environment = {CASE: json.dumps(given)}
    peers: dict[str, Any] = {
        OURS: ("benchmarks.auto_scheduler_ops:searched", environment),
        DEFAULT: ("benchmarks.auto_scheduler_ops:default", environment),
    }
    peers.update({name: (FRAMEWORKS[name], environment, options.peer_python) for name in frameworks})
    row = {"case": case.name, "kind": case.kind, "batch": case.batch, "records": records}
    problems: list[str] = []
    while peers:
        try:
            timed = harness.interleave(peers, options.rounds, seconds=ROUNDS_SECONDS)
            row["seconds"] = {name: result.p20 for name, result in timed.items()}
            break
        except harness.PeerEnded as error:
            # A program that does not run is left out; the others are still timed.
            problems.append(str(error))
            del peers[error.name]
    return {"seconds": {}, **row, **({"problem": "; ".join(problems)} if problems else {})}


def ratio(row: dict[str, Any], others: Sequence[str]) -> float | None:
    """Return our time divided by the best time of some other programs; None where none of them ran."""
    known = [row["seconds"][name] for name in others if name in row["seconds"]]
    return row["seconds"][OURS] / min(known) if known and OURS in row["seconds"] else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = [OURS, DEFAULT, *FRAMEWORKS]
    lines = [
        f"| case | {' | '.join(f'{name}, ms' for name in names)} | of PyTorch | of default |",
        "|---" * (len(names) + 3) + "|",
    ]
    for row in rows:
        times = [f"{row['seconds'][name] * 1e3:.3f}" if name in row["seconds"] else "-" for name in names]
        shares = [f"{share:.2f}" if (share := ratio(row, others)) else "-" for others in (list(FRAMEWORKS), [DEFAULT])]
        problem = f" ({row['problem']})" if "problem" in row else ""
        lines.append(f"| {row['case']}{problem} | {' | '.join([*times, *shares])} |")
    return "\n".join([*lines, "", *summary(rows)])


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return, for all cases and for each class, how often ours is faster, and the geometric mean of the ratios."""
    lines = []
    for title, others in (("PyTorch (its best)", list(FRAMEWORKS)), ("default schedules", [DEFAULT])):
        shares = {row["case"]: share for row in rows if (share := ratio(row, others)) is not None}
        if not shares:
            lines.append(f"against {title}: not measured")
            continue
        faster = sum(share < 1 for share in shares.values())
        by_kind = {
            kind: [shares[row["case"]] for row in rows if row["kind"] == kind and row["case"] in shares]
            for kind in SHAPES
        }
        means = ", ".join(f"{kind} {geometric_mean(some):.2f}" for kind, some in by_kind.items() if some)
        lines.append(
            f"against {title}: faster on {faster} of {len(shares)}, geometric mean of times "
            f"{geometric_mean(list(shares.values())):.2f} ({means})"
        )
    return lines


# -- stored rows, and cases side by side ---------------------------------------------------------------------------


def row_of(case: Case, folder: str) -> str:
    return os.path.join(folder, case.name.replace(" ", "_") + ".row.json")


def known_row(case: Case, options: argparse.Namespace, frameworks: Sequence[str]) -> dict[str, Any] | None:
    """Return the row of an earlier run with the same number of trials and the same programs."""
    path = row_of(case, options.records)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        row = json.load(file)
    is_whole = row["trials"] == options.trials and set(frameworks) <= set(row["seconds"])
    return row if is_whole or "problem" in row else None


def measured_row(case: Case, options: argparse.Namespace, frameworks: Sequence[str]) -> dict[str, Any]:
    """Measure a case, store its row and return it."""
    row = known_row(case, options, frameworks)
    if row is None:
        row = {**measure(case, options, frameworks), "trials": options.trials, "cores": len(os.sched_getaffinity(0))}
        harness.save(row_of(case, options.records), row)
    return row


def core_groups(jobs: int, each: int) -> list[list[int]]:
    """Return the cores of each job; cores with adjacent numbers are together."""
    cores = sorted(os.sched_getaffinity(0))
    if jobs * each > len(cores):
        raise SystemExit(f"{jobs} jobs with {each} cores each need {jobs * each} cores; this process has {len(cores)}")
    return [cores[number * each : (number + 1) * each] for number in range(jobs)]


def run_jobs(todo: Sequence[Case], options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure cases in their own processes, ``jobs`` at once, until the time has passed."""
    free = core_groups(options.jobs, options.cores_each)
    waiting, running = list(todo), {}
    deadline = time.monotonic() + options.seconds
    try:
        while waiting or running:
            is_run_time_value = time.monotonic() > deadline
            if is_run_time_value:
                print(f"time limit: {len(waiting) + len(running)} cases are left; repeat the command to continue")
                return
            while waiting and free:
                case, cores = waiting.pop(0), free.pop()
                command = [
                    "taskset",
                    "-c",
                    ",".join(map(str, cores)),
                    sys.executable,
                    "-m",
                    "benchmarks.auto_scheduler_ops",
                    *arguments,
                    "--only",
                    case.name,
                ]
                # Otherwise PyTorch starts a compile process for each core of the machine.
                environment = {**os.environ, "TVM_NUM_THREADS": str(len(cores)), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
                process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
                running[process] = case, cores
            for process in [one for one in running if one.poll() is not None]:
                case, cores = running.pop(process)
                free.append(cores)
                if process.returncode:
                    print(f"{case.name}: failed with exit code {process.returncode}", flush=True)
            time.sleep(0.2)
    finally:
        for process in running:
            # The searches and timings of a case are processes of its session.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--batches", type=lambda text: tuple(map(int, text.split(","))), default=(1, 16))
    parser.add_argument("--shapes", type=int, default=3, help="number of shapes of each class")
    parser.add_argument("--records", default=RECORDS)
    parser.add_argument("--output", default=RESULTS)
    parser.add_argument("--peer-python", default=PEER_PYTHON)
    parser.add_argument("--jobs", type=int, default=1, help="number of cases at once, each on its own cores")
    parser.add_argument("--cores-each", type=int, default=2, help="cores of each job, where there are several")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit; repeat the command to continue")
    parser.add_argument("--only", help="name of the only case to measure")
    result_file.add_option(parser)
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.kinds) - set(SHAPES))
    if unknown:
        parser.error(f"unknown class {unknown[0]}; known: {', '.join(SHAPES)}")
    return options


def result_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a result file; PyTorch is the fastest of its programs."""
    seconds = row["seconds"]
    values = {"ours": seconds[OURS] * 1e3, DEFAULT: seconds[DEFAULT] * 1e3}
    others = [seconds[name] for name in FRAMEWORKS if name in seconds]
    if others:
        values["PyTorch"] = min(others) * 1e3
    return {"name": row["case"], "group": f"{CLASSES[row['kind']]} ({row['kind']})", "values": values, "details": row}


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    found = [
        case
        for case in cases(options.kinds, options.batches)
        if case.shape in SHAPES[case.kind][: options.shapes] and options.only in (None, case.name)
    ]
    if not found:
        raise SystemExit(f"unknown case '{options.only}'")
    return found


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    given = sys.argv[1:] if arguments is None else arguments
    options = parsed(given)
    os.makedirs(options.records, exist_ok=True)
    problem = missing(options.peer_python)
    if problem and options.only is None:
        print(f"not measured: {', '.join(FRAMEWORKS)} ({problem})")
    frameworks = [] if problem else list(FRAMEWORKS)
    found, deadline = chosen_cases(options), time.monotonic() + options.seconds
    if options.jobs > 1 and options.only is None:
        todo = [case for case in found if known_row(case, options, frameworks) is None]
        # The longest cases start first, so that no long case runs alone at the end.
        run_jobs(sorted(todo, key=lambda case: -task_of(case).compute_dag.flop_ct), options, given)
    rows = []
    is_measured_here = options.jobs == 1 or options.only is not None
    for case in found:
        may_begin = is_measured_here and time.monotonic() < deadline
        row = measured_row(case, options, frameworks) if may_begin else known_row(case, options, frameworks)
        if row is not None:
            rows.append(row)
            if is_measured_here:
                print(table(rows[-1:]).splitlines()[2], flush=True)
    if options.only is None:
        facts = {"commit": harness.commit(), "trials": options.trials, "left out": problem or "", "rows": rows}
        harness.save(options.output, facts)
        print(table(rows))
        result_file.record(
            options.record, "auto-scheduler-ops", list(map(result_row, rows)), unit="ms",
            command=f"python -m benchmarks.auto_scheduler_ops --trials {options.trials}",
            versions=result_file.installed({"PyTorch": "torch"}, options.peer_python) if frameworks else {},
            method=f"Ansor's single-operator test; {options.trials} trials for each case; PyTorch is the fastest of "
            "its own layout, channels last and torch.compile",
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
    sys.exit()
