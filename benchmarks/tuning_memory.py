"""Memory of the tuner and its workers over a long tuning run, sampled every few trials."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

# A convolution small enough for many trials per second, with more configurations than trials.
CONVOLUTION = (
    ("TENSOR", (1, 64, 8, 8), "float32"), ("TENSOR", (64, 64, 5, 5), "float32"), (1, 1), (2, 2, 2, 2), (1, 1),
    "NCHW", "NCHW", "float32",
)  # fmt: skip
ROWS = 10


def resident(pid: int) -> float:
    """Return the MiB of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


class Watch:
    """A tuner callback that samples the memory every ``step`` trials."""

    def __init__(self, step: int):
        self.step, self.done, self.failed = step, 0, 0
        self.rows: list[tuple[int, float, list[float]]] = []
        self.workers: set[int] = set()

    def __call__(self, tuner: Any, inputs: Any, results: Any) -> None:
        from tvm.tuning.workers import shared_pool

        self.done += len(results)
        self.failed += sum(r.error_no != 0 for r in results)
        pids = [worker.process.pid for worker in shared_pool(2).workers]
        self.workers.update(pids)
        if self.done >= self.step * (len(self.rows) + 1):
            self.rows.append((self.done, resident(os.getpid()), [resident(pid) for pid in pids]))

    def growth(self) -> tuple[float, float]:
        """Return the MiB that the tuner and its largest worker gained from the first row to the last."""
        (_, tuner, workers), (_, last, last_workers) = self.rows[0], self.rows[-1]
        return last - tuner, max(last_workers) - max(workers)

    def table(self) -> str:
        lines = ["| trials | tuner, MiB | workers, MiB |", "| --- | --- | --- |"]
        for trials, tuner, workers in self.rows:
            lines.append(f"| {trials} | {tuner:.0f} | {', '.join(f'{w:.0f}' for w in workers)} |")
        return "\n".join(lines)


def watch(trials: int, target: str) -> Watch:
    """Tune with the default tuner, write records, and sample the memory."""
    from tvm import autotvm
    from tvm.topi.cpu import tasks  # noqa: F401  (registers the templates)

    task = autotvm.task.create("conv2d_NCHWc.x86", CONVOLUTION, target)
    runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0)
    seen = Watch(max(trials // ROWS, 1))
    with tempfile.TemporaryDirectory() as folder:
        log = autotvm.callback.log_to_file(os.path.join(folder, "records.log"))
        tuner = autotvm.tuner.XGBTuner(task, plan_size=32)
        tuner.tune(trials, autotvm.measure_option(autotvm.LocalBuilder(), runner), callbacks=[log, seen])
    return seen


def memory(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    seen = watch(arguments.trials, arguments.target)
    tuner, worker = seen.growth()
    print(f"{seen.table()}\n\n{seen.done} trials in {time.monotonic() - started:.0f} s, {seen.failed} failed, "
          f"{len(seen.workers)} worker processes in all; from the first row to the last the tuner gained {tuner:.1f} "
          f"MiB, its largest worker {worker:.1f} MiB")  # fmt: skip
