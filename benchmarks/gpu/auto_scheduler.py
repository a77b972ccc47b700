"""Schedules that AutoScheduler finds on the GPU of this machine, beside templates and PyTorch.

    python -m benchmarks.gpu.auto_scheduler [GROUP ...] [--quick] [--seconds 540] [--json FILE] [--records FILE]

Groups: resnet50 and bert (layers with templates, in float32), half (float16 matmuls on tensor cores), operators (ten
without a template). ``half --quick --seconds 150`` takes less than four minutes. All tasks are tuned in turn until the
time limit; tasks that are furthest behind their references get more rounds. Several processes propose and build
candidates, and one process at a time runs its candidates. ``--quick`` takes fewer layers and 300 seconds. Times are
microseconds of one call by the device's clock; outputs are compared with those of PyTorch or, without PyTorch, of
default schedules.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import fcntl
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.measure import ProgramMeasurer
from tvm.auto_scheduler.search_policy import default_policy
from tvm.tuning.errors import MeasureErrorNo

from ..harness import save
from .auto_scheduler_cases import GROUPS, Case, cases
from .turns import wait_for_turn

ERROR = 1e-3
QUICK_SECONDS = 300.0


class Timed:
    """A case on this machine: its arrays, its functions, and their times."""

    def __init__(self, case: Case, target: tvm.target.Target, rng: np.random.Generator):
        self.case, self.target, self.device = case, target, tvm.device(target.kind.name, 0)
        self.inputs = [rng.standard_normal(shape, dtype="float32").astype(case.dtype) for shape in case.shapes]
        self.row: dict[str, Any] = {"name": case.name, "group": case.group}
        self.wanted: np.ndarray | None = None
        self.task = task_of(case, target)
        self.dag = self.task.compute_dag

    def build_default(self) -> Any:
        """Return the function without a search: from the template, or from the default GPU schedule."""
        with self.target:
            tensors = [te.placeholder(shape, self.case.dtype) for shape in self.case.shapes]
            out = (self.case.template or self.case.compute)(*tensors)
            return tvm.build(topi.schedule.schedule_for([out], self.target), [*tensors, out], self.target)

    def time(self, function: Any) -> tuple[float, np.ndarray]:
        """Return the microseconds of one call, and its output."""
        out = self.dag.tensors[-1]
        result = tvm.nd.array(np.zeros([int(d) for d in out.shape], out.dtype), self.device)
        arrays = [*(tvm.nd.array(x, self.device) for x in self.inputs), result]
        function(*arrays)
        got = result.numpy()
        timer = function.time_evaluator(function.entry_name, self.device, number=10, repeat=5, min_repeat_ms=10)
        return statistics.median(timer(*arrays).results) * 1e6, got

    def note(self, name: str, function: Any) -> None:
        """Time a function and compare its output."""
        self.row[f"{name}_us"], got = self.time(function)
        if self.wanted is None:
            self.wanted = got
        difference = np.linalg.norm(got.astype("float64") - self.wanted) / max(np.linalg.norm(self.wanted), 1e-30)
        self.row[f"{name}_error"] = float(difference)

    def finish(self, records: str, rounds: int) -> None:
        """Build the best state again, compare its output and time it beside the others."""
        self.row.update(rounds=rounds, found_us=None)
        best, _ = auto_scheduler.load_best_record(records, self.task.workload_key, self.target)
        if best is not None:
            self.note("found", tvm.build(*self.dag.apply_steps_from_state(best.state), self.target))

    @property
    def reference(self) -> float:
        """Return the microseconds to reach: those of the template, or 70 % of PyTorch's."""
        if self.case.template is None and "torch_us" in self.row:
            return 0.7 * self.row["torch_us"]
        return self.row["default_us"]


def torch_time(timed: Timed, is_compiled: bool) -> None:
    """Return the microseconds of PyTorch: one call of many in a captured graph."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    inputs = [torch.from_numpy(x).cuda() for x in timed.inputs]
    timed.wanted = timed.case.torch(torch, *inputs).cpu().numpy().astype("float64")
    timed.row["torch_us"] = _graph_us(torch, lambda: timed.case.torch(torch, *inputs))
    if is_compiled:
        compiled = torch.compile(lambda *args: timed.case.torch(torch, *args))
        timed.row["torch_compiled_us"] = _graph_us(torch, lambda: compiled(*inputs))
        timed.row["torch_us"] = min(timed.row["torch_us"], timed.row["torch_compiled_us"])


def _graph_us(torch: Any, call: Any, calls: int = 20) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    times = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / calls * 1e3)
    return statistics.median(times[2:])


class SharedRunner(auto_scheduler.LocalRunner):
    """Runs candidates while no other tuning process does."""

    def __init__(self, lock: str, **options: Any):
        super().__init__(**options)
        self.lock = lock

    def run(self, *arguments: Any, **options: Any) -> list[Any]:
        with open(self.lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return super().run(*arguments, **options)


class Options(NamedTuple):
    """Options of tuning; ``cores`` are those of each process."""

    target: str
    seconds: float
    per_round: int
    population: int
    min_repeat_ms: int
    cores: int
    lock: str


class Tuning:
    """Tunes some cases in turn; ``references`` are the microseconds to reach."""

    def __init__(self, tasks: list[Any], references: list[float], options: Options, records: str):
        self.tasks, self.references, self.options = tasks, references, options
        self.errors: collections.Counter[str] = collections.Counter()
        self.policies = [default_policy(task) for task in tasks]
        for policy in self.policies:
            policy.params.update(evolutionary_search_population=options.population)
        self.rounds = [0] * len(tasks)
        self.over = [False] * len(tasks)
        runner = SharedRunner(options.lock, timeout=10, number=3, repeat=1, min_repeat_ms=options.min_repeat_ms)
        self.measurer = ProgramMeasurer(
            auto_scheduler.LocalBuilder(timeout=30, n_parallel=options.cores),
            runner,
            [auto_scheduler.RecordToFile(records)],
            verbose=0,
        )

    def best(self, number: int) -> float:
        return self.measurer.best_cost.get(self.tasks[number].workload_key, float("inf")) * 1e6

    def next(self) -> int | None:
        """Return the case that is furthest behind its reference; cases with the fewest rounds come first."""
        waiting = [n for n, over in enumerate(self.over) if not over]
        fresh = [n for n in waiting if self.rounds[n] < 2]
        if fresh:
            return min(fresh, key=lambda n: self.rounds[n])
        return max(waiting, key=lambda n: self.best(n) / self.references[n] / self.rounds[n], default=None)

    def run(self) -> None:
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until and (number := self.next()) is not None:
            begin = time.monotonic()
            inputs, results = self.policies[number].continue_search_one_round(self.options.per_round, self.measurer)
            self.rounds[number] += 1
            self.over[number] = not inputs
            self.errors.update(MeasureErrorNo(result.error_no).name for result in results)
            print(f"{until - time.monotonic():5.0f} s left  {self.tasks[number].desc}: round {self.rounds[number]}, "
                  f"{len(inputs)} trials in {time.monotonic() - begin:.1f} s, best {self.best(number):.1f} us, "
                  f"to reach {self.references[number]:.1f} us", flush=True)  # fmt: skip


def task_of(case: Case, target: Any) -> Any:
    tensors = [te.placeholder(shape, case.dtype, name=f"in{n}") for n, shape in enumerate(case.shapes)]
    dag = auto_scheduler.ComputeDAG([*tensors, case.compute(*tensors)])
    return auto_scheduler.SearchTask(
        compute_dag=dag, workload_key=json.dumps([case.name]), target=target, desc=case.name
    )


def tune_some(names: list[str], references: list[float], options: Options, records: str) -> tuple[dict, list[int]]:
    """Tune cases by name in this process; return the outcomes of trials, and the rounds of each case."""
    known = {case.name: case for case in cases(GROUPS, False)}
    target = tvm.target.Target(options.target, host="llvm")
    tuning = Tuning([task_of(known[name], target) for name in names], references, options, records)
    tuning.run()
    return dict(tuning.errors), tuning.rounds


def tune_all(timed: list[Timed], options: Options, processes: int, records: str) -> collections.Counter[str]:
    """Tune in several processes: each has some of the cases, and the GPU while no other process runs candidates."""
    errors: collections.Counter[str] = collections.Counter()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        shares = [timed[first::processes] for first in range(processes)]
        done = [pool.submit(tune_some, [one.case.name for one in share], [one.reference for one in share], options,
                            f"{records}.{number}") for number, share in enumerate(shares) if share]  # fmt: skip
        for number, (share, future) in enumerate(zip(shares, done)):
            found, rounds = future.result()
            errors.update(found)
            for one, count in zip(share, rounds):
                one.finish(f"{records}.{number}", count)
    return errors


def shown(row: dict[str, Any]) -> str:
    cells = [f"{row['name']:44}"]
    for name in ("found", "default", "torch"):
        us = row.get(f"{name}_us")
        cells.append(f"{name} {us:9.1f}" if us else f"{name} {'-':>9}")
    for name in ("default", "torch"):
        if row.get("found_us") and row.get(f"{name}_us"):
            cells.append(f"found/{name} {row['found_us'] / row[f'{name}_us']:.2f}")
    wrong = [name for name in ("found", "default") if row.get(f"{name}_error", 0.0) > ERROR]
    return "  ".join([*cells, *(f"WRONG {name}: {row[f'{name}_error']:.1e}" for name in wrong)])


def summary(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for group in GROUPS:
        for name in ("default", "torch"):
            ratios = [
                row["found_us"] / row[f"{name}_us"]
                for row in rows
                if row["group"] == group and row.get("found_us") and row.get(f"{name}_us")
            ]
            if ratios:
                lines.append(f"{group}: found/{name} geometric mean {statistics.geometric_mean(ratios):.2f}, worst "
                             f"{max(ratios):.2f}, of {len(ratios)}")  # fmt: skip
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=list(GROUPS))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--seconds", type=float, help=f"time limit of tuning (540; with --quick {QUICK_SECONDS:.0f})")
    parser.add_argument("--processes", type=int, default=4, help="processes that propose and build (default: 4)")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trials-per-round", type=int, default=32)
    parser.add_argument("--population", type=int, default=128)
    parser.add_argument("--min-repeat-ms", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="also compare with torch.compile")
    parser.add_argument("--records", default="auto_scheduler_gpu.json")
    parser.add_argument("--json", help="JSON file for the rows")
    arguments = parser.parse_args(argv)
    target = tvm.target.Target(arguments.target, host="llvm")
    rng = np.random.default_rng(0)
    timed = [Timed(case, target, rng) for case in cases(arguments.groups, arguments.quick)
             if arguments.only in case.name]  # fmt: skip
    defaults = [one.build_default() for one in timed]
    wait_for_turn()
    try:
        import torch

        has_torch = torch.cuda.is_available()
    except ImportError:
        has_torch = False
    for one, default in zip(timed, defaults):
        if has_torch:
            torch_time(one, arguments.compile)
        one.note("default", default)
        print(shown(one.row), flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        options = Options(
            arguments.target,
            arguments.seconds or (QUICK_SECONDS if arguments.quick else 540.0),
            arguments.trials_per_round,
            arguments.population,
            arguments.min_repeat_ms,
            max(arguments.cores // arguments.processes, 2),
            os.path.join(folder, "lock"),
        )
        errors = tune_all(timed, options, arguments.processes, os.path.abspath(arguments.records))
    spent = time.monotonic() - begin
    rows, trials = [one.row for one in timed], sum(errors.values())
    results = ", ".join(f"{name} {count}" for name, count in errors.most_common())
    lines = [*map(shown, rows), *summary(rows),
             f"{trials} trials in {spent:.0f} s, {trials / spent:.1f} a second: {results}"]  # fmt: skip
    print("\n".join(lines), flush=True)
    if arguments.json:
        save(os.path.abspath(arguments.json), {"target": str(target), "seconds": spent, "trials": trials,
                                               "results": dict(errors), "rows": rows})  # fmt: skip
    return 1 if any(row.get(f"{name}_error", 0.0) > ERROR for row in rows for name in ("found", "default")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
