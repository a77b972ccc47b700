"""Tuning benchmarks: trials per second, proposal time, rank correlation of the cost model, memory.

    python -m benchmarks.tuning throughput [--model FILE] [--trials 8]     random configurations of all tasks of a model
    python -m benchmarks.tuning propose                                   64 candidates from a space of millions
    python -m benchmarks.tuning rank [--trials 256] [--held-out 128]      rank correlation on unseen configurations
    python -m benchmarks.tuning against-random [--tasks 10] [--trials 96] search with the model against random search
    python -m benchmarks.tuning memory [--trials 2000]                    memory of the tuner and its workers

``rank --prepare`` only builds the candidates, so that they can be measured later on an idle machine. ``against-random``
starts no task after ``--seconds``; the same command continues an interrupted run.

Failures and the writing of records count as part of the time.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
import time
from typing import Any

from .tuning_memory import memory
from .tuning_search import against_random, rank
from .tuning_tasks import model_tasks


def measure_option() -> dict[str, Any]:
    from tvm import autotvm

    return autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner())


def throughput(arguments: argparse.Namespace) -> None:
    from tvm import autotvm

    tasks = model_tasks(arguments.model, arguments.target)
    option = measure_option()
    failed = done = 0
    memory = []

    def count(tuner: Any, inputs: Any, results: Any) -> None:
        nonlocal failed, done
        done += len(results)
        failed += sum(r.error_no != 0 for r in results)

    with tempfile.TemporaryDirectory() as folder:
        log = autotvm.callback.log_to_file(os.path.join(folder, "records.log"))
        started = time.monotonic()
        for task in tasks:
            autotvm.tuner.RandomTuner(task).tune(arguments.trials, option, callbacks=[count, log])
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        seconds = time.monotonic() - started
    print(f"| trials | failed | seconds | trials a second (target 4) | memory, MiB: first task, last |\n"
          f"| --- | --- | --- | --- | --- |\n"
          f"| {done} of {len(tasks)} tasks | {failed} | {seconds:.1f} | {done / seconds:.1f} "
          f"| {memory[0]:.0f}, {memory[-1]:.0f} |")  # fmt: skip


def wide_template():
    """Define a matmul whose loops are split in many ways: millions of configurations."""
    from tvm import autotvm, te

    @autotvm.template("benchmarks/wide")
    def wide(n: int, m: int, length: int):
        a, b = te.placeholder((n, length), name="a"), te.placeholder((length, m), name="b")
        k = te.reduce_axis((0, length), name="k")
        c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
        s = te.create_schedule(c.op)
        config = autotvm.get_config()
        y, x = s[c].op.axis
        (k,) = s[c].op.reduce_axis
        config.define_split("tile_y", y, num_outputs=4)
        config.define_split("tile_x", x, num_outputs=4)
        config.define_split("tile_k", k, num_outputs=2)
        config.define_knob("unroll", [0, 16, 64, 256])
        ys, xs = config["tile_y"].apply(s, c, y), config["tile_x"].apply(s, c, x)
        ks = config["tile_k"].apply(s, c, k)
        s[c].reorder(ys[0], xs[0], ys[1], xs[1], ks[0], ys[2], xs[2], ks[1], ys[3], xs[3])
        return s, [a, b, c]

    return wide


def propose(arguments: argparse.Namespace) -> None:
    from tvm import autotvm

    wide_template()
    task = autotvm.task.create("benchmarks/wide", (1024, 1024, 1024), arguments.target)
    tuner = autotvm.tuner.XGBTuner(task)
    rng = random.Random(arguments.seed)
    flop = task.flop or 1.0
    batch = [task.config_space.get(i) for i in {task.config_space.get_rand_index() for _ in range(64)}]
    inputs = [autotvm.MeasureInput(task.target, task, c) for c in batch]
    results = [autotvm.MeasureResult((flop / (1 + rng.random()) * 1e-10,), 0, 0.1, time.time()) for _ in batch]
    tuner.visited.update(c.index for c in batch)
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        tuner.update(inputs, results)
        batch = tuner.next_batch(64)
        seconds.append(time.monotonic() - started)
        inputs = [autotvm.MeasureInput(task.target, task, c) for c in batch]
        results = [autotvm.MeasureResult((flop / (1 + rng.random()) * 1e-10,), 0, 0.1, time.time()) for _ in batch]
    print(f"a space of {len(task.config_space):,}: 64 candidates in {sorted(seconds)[2]:.2f} s (target 1), "
          f"including learning from the last 64; slowest {max(seconds):.2f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {"throughput": throughput, "propose": propose, "rank": rank, "against-random": against_random}
    commands["memory"] = memory
    parser.add_argument("command", choices=commands)
    parser.add_argument("--model", default="demo/mobilenet_v2.onnx")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--trials", type=int, default=0, help="trials of each task (8; rank 256; against-random 96)")
    parser.add_argument("--held-out", type=int, default=128)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--task", type=int, default=0, help="rank: number of the convolution; 0 has the largest space")
    parser.add_argument("--feature", default="itervar", help="rank: itervar, knob or curve")
    parser.add_argument("--loss", default="reg", help="rank: reg, rank or rank-binary")
    parser.add_argument("--folder", default="build/tuning_candidates", help="rank: folder for built candidates")
    parser.add_argument("--prepare", action="store_true", help="rank: build candidates and stop")
    parser.add_argument("--json", default="", help="rank, against-random: file for the rows")
    parser.add_argument("--seconds", type=float, default=1e9, help="against-random: start no task after this time")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.trials = arguments.trials or {"rank": 256, "against-random": 96, "memory": 2000}.get(arguments.command, 8)
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
