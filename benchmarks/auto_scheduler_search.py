"""AutoScheduler's search: proposal time, trials per second, rank correlation of the cost model, memory.

    python -m benchmarks.auto_scheduler_search propose                       64 candidates of a convolution
    python -m benchmarks.auto_scheduler_search throughput [--trials 16]      trials of all tasks of ResNet-50
    python -m benchmarks.auto_scheduler_search rank --task 10 --log FILE     rank correlation on unseen states
    python -m benchmarks.auto_scheduler_search memory [--trials 2000]        memory of the search and its workers
    python -m benchmarks.auto_scheduler_search memory --fake                 the same with made-up times and no builds

Failures and the writing of records count as part of the time. ``rank`` continues an interrupted run. The commands print
the share of the machine that other processes used: on a busy machine the results are too low.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .auto_scheduler_tasks import benchmark_conv2d, resnet50_tasks, task
from .auto_scheduler_weights import spearman
from .tuning_memory import Watch

# The number of trials that the cost model learns from before it ranks, and the number of states that it ranks.
LEARNED, RANKED = 256, 128
# The number of random divisions of the states into these two sets.
SPLITS = 4


class Others:
    """The share of this machine's cores that other processes used."""

    def __init__(self) -> None:
        self.start = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        ticks = [float(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        busy = sum(ticks) - ticks[3] - ticks[4]
        return busy / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]), time.monotonic()

    def share(self) -> float:
        """Return the share. Call it after the workers have exited: their processor time is known only then."""
        busy, own, now = (b - a for a, b in zip(self.start, self._now()))
        return max(busy - own, 0.0) / (now * (os.cpu_count() or 1))


def propose(arguments: argparse.Namespace) -> None:
    from tvm import auto_scheduler

    chosen = resnet50_tasks(arguments.target)[arguments.task]
    policy = auto_scheduler.SketchPolicy(chosen, auto_scheduler.XGBModel(), seed=arguments.seed, verbose=0)
    scored, chance, evaluated = policy.space.scored, random.Random(0), []

    def counted(population: Any, score: Any) -> Any:
        found = scored(population, score)
        evaluated.append(len(found[0]))
        return found

    policy.space.scored = counted
    for _ in range(4):
        evaluated.clear()
        start, wall = time.process_time(), time.monotonic()
        states = policy.propose(64)
        seconds, wall = time.process_time() - start, time.monotonic() - wall
        inputs = [auto_scheduler.MeasureInput(chosen, state) for state in states]
        results = [auto_scheduler.MeasureResult([chance.uniform(1e-3, 1e-2)], 0, "", 0.1, 0.0) for _ in states]
        start = time.process_time()
        policy.learn(inputs, results)
        print(f"{len(states)} of {sum(evaluated):,} evaluated candidates in {seconds:.2f} s of processor "
              f"time (target 3; {wall:.2f} s wall), learning {time.process_time() - start:.2f} s")  # fmt: skip


def throughput(arguments: argparse.Namespace) -> None:
    from tvm import auto_scheduler
    from tvm.tuning.workers import close_pools

    others, start = Others(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = auto_scheduler.RecordToFile(os.path.join(folder, "records.json"))
        measurer = auto_scheduler.measure.ProgramMeasurer(
            auto_scheduler.LocalBuilder(), auto_scheduler.LocalRunner(), [log], verbose=0
        )
        model = auto_scheduler.XGBModel()
        for one in resnet50_tasks(arguments.target):
            before, begun = measurer.ct, time.monotonic()
            policy = auto_scheduler.SketchPolicy(one, model, seed=arguments.seed, verbose=0)
            policy.continue_search_one_round(arguments.trials, measurer)
            rate = (measurer.ct - before) / (time.monotonic() - begun)
            print(f"{rate:5.1f} a second, best {measurer.best_cost[one.workload_key] * 1e3:8.3f} ms  "
                  f"{one.workload_key[:90]}", flush=True)  # fmt: skip
    seconds = time.monotonic() - start
    close_pools()
    print(
        f"{measurer.ct} trials of ResNet-50's tasks, {measurer.error_ct} failed, in {seconds:.1f} s: "
        f"{measurer.ct / seconds:.2f} trials a second (target 4); other processes used {others.share():.0%} of the "
        "machine"
    )


def measured(chosen: Any, arguments: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Return random states of a task with their measurements: those of the log, and new ones as far as some are
    missing."""
    from tvm import auto_scheduler

    log, wanted = arguments.log or "build/auto_scheduler_rank.json", LEARNED + RANKED
    Path(log).parent.mkdir(parents=True, exist_ok=True)

    def known() -> list[tuple[Any, Any]]:
        rows = auto_scheduler.RecordReader(log) if os.path.exists(log) else ()
        return [(auto_scheduler.MeasureInput(chosen, inp.state), res) for inp, res in rows
                if inp.task.workload_key == chosen.workload_key]  # fmt: skip

    missing = wanted - len(known())
    if missing > 0:
        policy = auto_scheduler.SketchPolicy(
            chosen,
            params={"eps_greedy": 1.0, "evolutionary_search_num_iters": 0},
            seed=random.randrange(1 << 30),
            verbose=0,
            init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)],
        )
        measurer = auto_scheduler.measure.ProgramMeasurer(
            auto_scheduler.LocalBuilder(), auto_scheduler.LocalRunner(), [auto_scheduler.RecordToFile(log)], verbose=0
        )
        deadline = time.monotonic() + arguments.seconds
        while missing > 0 and time.monotonic() < deadline:
            missing -= len(policy.continue_search_one_round(min(missing, 32), measurer)[0])
    rows = known()[:wanted]
    return [inp for inp, _ in rows], [res for _, res in rows]


def rank(arguments: argparse.Namespace) -> None:
    from tvm import auto_scheduler
    from tvm.auto_scheduler.measure import MAX_FLOAT

    chosen = resnet50_tasks(arguments.target)[arguments.task]
    inputs, results = measured(chosen, arguments)
    learned = len(inputs) - RANKED
    if learned < LEARNED:
        raise SystemExit(f"{len(inputs)} of {LEARNED + RANKED} states are measured; repeat the command to continue")
    costs = np.array([res.mean_cost for res in results])
    spread = ", ".join(f"{cost * 1e3:.2f}" for cost in np.quantile(costs[costs < MAX_FLOAT], [0, 0.1, 0.5, 0.9, 1]))
    print(f"{chosen.workload_key}: ms at the minimum, 10th, 50th and 90th percentile and maximum: {spread}")
    found: dict[str, list[float]] = {"shipped weights": [], "learned on them": [], "learned from nothing": []}
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(inputs))
        known, unseen = order[:learned], order[learned:]
        states, speeds = [inputs[n].state for n in unseen], 1 / costs[unseen]
        shipped, alone = auto_scheduler.XGBModel(), auto_scheduler.XGBModel(pretrained=False)
        found["shipped weights"].append(spearman(shipped.predict(chosen, states), speeds))
        for name, model in (("learned on them", shipped), ("learned from nothing", alone)):
            model.update([inputs[n] for n in known], [results[n] for n in known])
            found[name].append(spearman(model.predict(chosen, states), speeds))
    print(f"rank correlation on {RANKED} unseen states after {learned} trials, mean of {SPLITS} splits (least to "
          "most); targets 0.5, 0.8: " + ", ".join(f"{name} {np.mean(some):.2f} ({min(some):.2f} to {max(some):.2f})"
                                          for name, some in found.items()))  # fmt: skip


def made_up() -> dict[str, Any]:
    """Return a builder that builds nothing and a runner that makes up times from the steps, to measure the search
    alone."""
    from tvm.auto_scheduler.measure import BuildResult, MeasureResult, ProgramBuilder, ProgramRunner
    from tvm.tuning.measure import Built

    class Builder(ProgramBuilder):
        def build(self, measure_inputs: Any, verbose: int = 1) -> list[Any]:
            return [BuildResult(Built("", [], 0.0)) for _ in measure_inputs]

    class Runner(ProgramRunner):
        def run(self, measure_inputs: Any, build_results: Any, verbose: int = 1) -> list[Any]:
            chances = [random.Random(str(inp.state.transform_steps)) for inp in measure_inputs]
            return [MeasureResult([chance.uniform(1e-3, 1e-2)], 0, "", 0.0, time.time()) for chance in chances]

    return {"builder": Builder(), "runner": Runner()}


def memory(arguments: argparse.Namespace) -> None:
    from tvm import auto_scheduler

    seen = Watch(max(arguments.trials // 10, 1))

    class Callback(auto_scheduler.measure.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: Any, results: Any) -> None:
            seen(policy, inputs, results)

    start, small = time.monotonic(), task(benchmark_conv2d, 8, 32, 32, 3, 1, target=arguments.target)
    how = made_up() if arguments.fake else {"runner": auto_scheduler.LocalRunner(min_repeat_ms=1)}
    with tempfile.TemporaryDirectory() as folder:
        options = auto_scheduler.TuningOptions(
            num_measure_trials=arguments.trials,
            verbose=0,
            **how,
            measure_callbacks=[auto_scheduler.RecordToFile(os.path.join(folder, "records.json")), Callback()],
        )
        small.tune(options, auto_scheduler.SketchPolicy(small, auto_scheduler.XGBModel(), seed=0, verbose=0))
    search, worker = seen.growth()
    print(
        f"{seen.table()}\n\n{seen.done} trials in {time.monotonic() - start:.0f} s, {seen.failed} failed; from the "
        f"first row to the last the search gained {search:.1f} MiB, its largest worker {worker:.1f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {"propose": propose, "throughput": throughput, "rank": rank, "memory": memory}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--trials", type=int, default=0, help="throughput: of each task (16); memory: of all (2000)")
    parser.add_argument("--task", type=int, default=2, help="propose, rank: number of the layer of ResNet-50")
    parser.add_argument("--log", default="", help="rank: file for the measurements")
    parser.add_argument("--seconds", type=float, default=120, help="rank: start no measurement after this time")
    parser.add_argument("--fake", action="store_true", help="memory: build nothing and make up times")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.trials = arguments.trials or {"memory": 2000}.get(arguments.command, 16)
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
