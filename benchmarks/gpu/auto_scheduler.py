"""Schedules that AutoScheduler finds on the GPU of this machine, beside templates and PyTorch.

    python -m benchmarks.gpu.auto_scheduler [GROUP ...] [--quick] [--seconds 540] [--json FILE] [--records FILE]

Groups: resnet50 and bert (layers that have templates, in float32), operators (ten that have none). All tasks are tuned
in turn until the time is over, those that are furthest behind their references more often. ``--quick`` takes fewer
layers and 300 seconds. Times are of one call in microseconds, by the device's clock; results are compared with
PyTorch's, or where it is not there with those of default schedules.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import time
from typing import Any

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
    """A case on this machine: its arrays, what computes it, and how long each takes."""

    def __init__(self, case: Case, target: tvm.target.Target, rng: np.random.Generator):
        self.case, self.target, self.device = case, target, tvm.device(target.kind.name, 0)
        self.inputs = [rng.standard_normal(shape, dtype="float32") for shape in case.shapes]
        self.row: dict[str, Any] = {"name": case.name, "group": case.group}
        self.wanted: np.ndarray | None = None
        tensors = self._placeholders()
        self.dag = auto_scheduler.ComputeDAG([*tensors, case.compute(*tensors)])
        self.task = auto_scheduler.SearchTask(
            compute_dag=self.dag, workload_key=json.dumps([case.name]), target=target, desc=case.name)

    def _placeholders(self) -> list[Any]:
        return [te.placeholder(shape, "float32", name=f"in{n}") for n, shape in enumerate(self.case.shapes)]

    def build_default(self) -> Any:
        """What is made without a search: by the template, or by the schedule for anything."""
        with self.target:
            tensors = self._placeholders()
            out = (self.case.template or self.case.compute)(*tensors)
            return tvm.build(topi.schedule.schedule_for([out], self.target), [*tensors, out], self.target)

    def time(self, function: Any) -> tuple[float, np.ndarray]:
        """Microseconds of one call, and its result."""
        out = self.dag.tensors[-1]
        result = tvm.nd.array(np.zeros([int(d) for d in out.shape], out.dtype), self.device)
        arrays = [*(tvm.nd.array(x, self.device) for x in self.inputs), result]
        function(*arrays)
        got = result.numpy()
        timer = function.time_evaluator(function.entry_name, self.device, number=10, repeat=5, min_repeat_ms=10)
        return statistics.median(timer(*arrays).results) * 1e6, got

    def note(self, name: str, function: Any) -> None:
        """Time a function and compare its result."""
        self.row[f"{name}_us"], got = self.time(function)
        if self.wanted is None:
            self.wanted = got
        difference = np.linalg.norm(got.astype("float64") - self.wanted) / max(np.linalg.norm(self.wanted), 1e-30)
        self.row[f"{name}_error"] = float(difference)

    @property
    def reference(self) -> float:
        """Microseconds to be reached: those of the template, or seven tenths of PyTorch's."""
        if self.case.template is None and "torch_us" in self.row:
            return 0.7 * self.row["torch_us"]
        return self.row["default_us"]


def torch_time(timed: Timed, is_compiled: bool) -> None:
    """The same by PyTorch: one call of many in a captured graph."""
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


class Tuning:
    """Tunes cases in turn."""

    def __init__(self, timed: list[Timed], records: str, per_round: int, min_repeat_ms: int, population: int):
        self.timed, self.per_round = timed, per_round
        self.errors: collections.Counter[str] = collections.Counter()
        self.policies = [default_policy(one.task) for one in timed]
        for policy in self.policies:
            policy.verbose = 0
            policy.params.update(evolutionary_search_population=population, evolutionary_search_num_iters=3)
        self.rounds = [0] * len(timed)
        self.over = [False] * len(timed)
        self.measurer = ProgramMeasurer(
            auto_scheduler.LocalBuilder(timeout=30),
            auto_scheduler.LocalRunner(timeout=10, number=3, repeat=1, min_repeat_ms=min_repeat_ms),
            [auto_scheduler.RecordToFile(records)], verbose=0)

    def best(self, number: int) -> float:
        return self.measurer.best_cost.get(self.timed[number].task.workload_key, float("inf")) * 1e6

    def next(self) -> int | None:
        """The case that is furthest behind, of those that had the fewest rounds sooner."""
        waiting = [n for n, over in enumerate(self.over) if not over]
        fresh = [n for n in waiting if self.rounds[n] < 2]
        if fresh:
            return min(fresh, key=lambda n: self.rounds[n])
        return max(waiting, key=lambda n: self.best(n) / self.timed[n].reference / self.rounds[n], default=None)

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and (number := self.next()) is not None:
            one = self.timed[number]
            begin = time.monotonic()
            inputs, results = self.policies[number].continue_search_one_round(self.per_round, self.measurer)
            self.rounds[number] += 1
            self.over[number] = not inputs
            self.errors.update(MeasureErrorNo(result.error_no).name for result in results)
            print(f"{until - time.monotonic():5.0f} s left  {one.case.name}: round {self.rounds[number]}, "
                  f"{len(inputs)} trials in {time.monotonic() - begin:.1f} s, best {self.best(number):.1f} us, "
                  f"to reach {one.reference:.1f} us", flush=True)  # fmt: skip

    def finish(self) -> None:
        """Build the best state of each case once more, compare its result and time it beside the others."""
        for number, one in enumerate(self.timed):
            state = self.measurer.best_state.get(one.task.workload_key)
            one.row.update(rounds=self.rounds[number], found_us=None)
            if state is not None:
                one.note("found", tvm.build(*one.dag.apply_steps_from_state(state), one.target))


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
            ratios = [row["found_us"] / row[f"{name}_us"] for row in rows
                      if row["group"] == group and row.get("found_us") and row.get(f"{name}_us")]
            if ratios:
                lines.append(f"{group}: found/{name} geometric mean {statistics.geometric_mean(ratios):.2f}, worst "
                             f"{max(ratios):.2f}, of {len(ratios)}")  # fmt: skip
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=list(GROUPS))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--seconds", type=float, help=f"of tuning (540; with --quick {QUICK_SECONDS:.0f})")
    parser.add_argument("--trials-per-round", type=int, default=32)
    parser.add_argument("--population", type=int, default=128)
    parser.add_argument("--min-repeat-ms", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="also compare with torch.compile")
    parser.add_argument("--records", default="auto_scheduler_gpu.json")
    parser.add_argument("--json", help="a file for the rows")
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
    tuning = Tuning(timed, arguments.records, arguments.trials_per_round, arguments.min_repeat_ms, arguments.population)
    tuning.run(arguments.seconds or (QUICK_SECONDS if arguments.quick else 540.0))
    spent = time.monotonic() - begin
    tuning.finish()
    rows = [one.row for one in timed]
    trials = tuning.measurer.ct
    results = ", ".join(f"{name} {count}" for name, count in tuning.errors.most_common())
    lines = [*map(shown, rows), *summary(rows),
             f"{trials} trials in {spent:.0f} s, {trials / spent:.1f} a second: {results}"]  # fmt: skip
    print("\n".join(lines), flush=True)
    if arguments.json:
        save(os.path.abspath(arguments.json), {"target": str(target), "seconds": spent, "trials": trials,
                                               "results": dict(tuning.errors), "rows": rows})  # fmt: skip
    return 1 if any(row.get(f"{name}_error", 0.0) > ERROR for row in rows for name in ("found", "default")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
