"""``tvmc tune --build-only``: candidates of all tasks as files, for a machine that only has the runtime."""

from __future__ import annotations

import time
from typing import Any

from ...autotvm.measure import LocalBuilder, MeasureInput
from ...autotvm.measure.folder import FolderWriter
from ...autotvm.measure.workers import close_pools
from ...autotvm.record import load_from_file
from .tuning import MANY_TRIALS, make_tuner
from .tuning_display import number_of

# Candidates of each task where nobody says how many of all.
PER_TASK = 32


def candidates_of(
    task: Any, count: int, tuner: str, records: list[tuple[Any, Any]], analytic_start: bool
) -> list[MeasureInput]:
    """What a tuner would measure first, knowing ``records``: the choice without tuning, then its next batch."""
    space = task.config_space
    searcher = make_tuner(tuner, task, analytic_start)
    known = {inp.config.index for inp in searcher.own_records(records, anywhere=True)[0]}
    searcher.load_history(records, min_seed_records=64)
    found = dict.fromkeys(i for i in space.start if space.is_index_valid(i))
    while len(found) < count and searcher.has_next():
        batch = searcher.next_batch(count - len(found))
        if not batch:
            break
        found.update(dict.fromkeys(config.index for config in batch))
    return [MeasureInput(task.target, task, space.get(i)) for i in found if i not in known][:count]


def build_candidates(
    tasks: list[Any], folder: str, trials: int, tuner: str, prior_records: str | None, measure: dict[str, Any],
    timeout: float, analytic_start: bool, seconds: float | None = None,
) -> tuple[int, int]:
    """Fill a folder: about ``trials`` candidates in all, as many of each task; how many were built and how many not."""
    records = list(load_from_file(prior_records)) if prior_records else []
    each = PER_TASK if trials >= MANY_TRIALS else max(trials // len(tasks), 1)
    # Kernels are compiled one after the other by a worker: a timeout for running is short for that.
    writer = FolderWriter(folder, measure, builder=LocalBuilder(timeout=max(timeout, 60.0)))
    built = failed = 0
    end = time.monotonic() + seconds if seconds else float("inf")
    try:
        for number, task in enumerate(tasks):
            if time.monotonic() > end:
                print(f"the time is up: {len(tasks) - number} tasks have no candidates")
                break
            made, refused = writer.write(candidates_of(task, each, tuner, records, analytic_start))
            built, failed = built + made, failed + refused
            print(f"[Task {number_of(task, number):2d}/{len(tasks):2d}] {task.name}: {made} candidates built, "
                  f"{refused} refused", flush=True)
    finally:
        close_pools()
    print(f"{built} candidates are in {folder}; python -m tvm.runtime.measure_files {folder} measures them")
    return built, failed


__all__ = ["build_candidates", "candidates_of"]
