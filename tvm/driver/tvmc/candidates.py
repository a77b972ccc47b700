"""``tvmc tune --build-only``: candidates of all tasks as files, for a machine that only has the runtime."""

from __future__ import annotations

import time
from typing import Any

from ...autotvm.measure import LocalBuilder
from ...autotvm.measure.folder import FolderWriter
from ...autotvm.record import load_from_file
from ...autotvm.search import number_of
from ...tuning.search import first_candidates
from ...tuning.workers import close_pools

# Candidates of each task where nobody says how many of all.
PER_TASK = 32


def build_candidates(
    tasks: list[Any], folder: str, trials: int | None, tuner: str, prior_records: str | None, measure: dict[str, Any],
    timeout: float, analytic_start: bool, seconds: float | None = None,
) -> tuple[int, int]:
    """Fill a folder: about ``trials`` candidates in all, as many of each task; how many were built and how many not."""
    records = list(load_from_file(prior_records)) if prior_records else []
    each = PER_TASK if trials is None else max(trials // len(tasks), 1)
    # Kernels are compiled one after the other by a worker: a timeout for running is short for that.
    writer = FolderWriter(folder, measure, builder=LocalBuilder(timeout=max(timeout, 60.0)))
    built = failed = 0
    end = time.monotonic() + seconds if seconds else float("inf")
    try:
        for number, task in enumerate(tasks):
            if time.monotonic() > end:
                print(f"the time is up: {len(tasks) - number} tasks have no candidates")
                break
            search = task.start_search(tuner, baseline_first=analytic_start)
            made, refused = writer.write(search.inputs(first_candidates(search, each, records)))
            built, failed = built + made, failed + refused
            print(f"[Task {number_of(task, number):2d}/{len(tasks):2d}] {task.name}: {made} candidates built, "
                  f"{refused} refused", flush=True)
    finally:
        close_pools()
    print(f"{built} candidates are in {folder}; python -m tvm.runtime.measure_files {folder} measures them")
    return built, failed


__all__ = ["build_candidates"]
