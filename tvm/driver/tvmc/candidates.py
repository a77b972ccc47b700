"""``tvmc tune --build-only``: writes candidates of all tasks as files, for a machine that has only the runtime."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...tuning.search import Search, first_candidates
from ...tuning.workers import close_pools

# Number of candidates per task if the number of trials is not given.
PER_TASK = 32
# A worker compiles kernels one after another, which takes longer than the timeout of one measurement.
_LEAST_SECONDS = 60.0
# Writes candidates of a search, given by their keys, to a folder; returns how many were built and how many failed.
Write = Callable[[Any, Sequence[Any]], tuple[int, int]]


def template_writer(folder: str, measure: dict[str, Any], timeout: float) -> Write:
    """Return the function that writes configurations of templates."""
    from ...autotvm.measure import LocalBuilder
    from ...autotvm.measure.folder import FolderWriter

    writer = FolderWriter(folder, measure, builder=LocalBuilder(timeout=max(timeout, _LEAST_SECONDS)))
    return lambda search, keys: writer.write(search.inputs(keys))


def sketch_writer(folder: str, measure: dict[str, Any], timeout: float) -> Write:
    """Return the function that writes schedules of the auto-scheduler."""
    from ...auto_scheduler.folder import FolderWriter
    from ...auto_scheduler.measure import LocalBuilder

    writer = FolderWriter(folder, measure, builder=LocalBuilder(timeout=max(timeout, _LEAST_SECONDS)))
    return writer.write_search


def build_candidates(
    searches: Sequence[Callable[[], Search]],
    write: Write,
    folder: str,
    trials: int | None,
    prior_records: str | None,
    seconds: float | None = None,
) -> tuple[int, int]:
    """Fill a folder with about ``trials`` candidates, equally many of each task; return how many were built and how
    many failed. Each search is created only when its candidates are built."""
    each = PER_TASK if trials is None else max(trials // len(searches), 1)
    built = failed = 0
    rows: list[Any] | None = None
    end = time.monotonic() + seconds if seconds else float("inf")
    try:
        for place, start in enumerate(searches):
            if time.monotonic() > end:
                print(f"the time budget is used up: {len(searches) - place} tasks have no candidates")
                break
            search = start()
            if rows is None:
                rows = _prior(search, prior_records)
            made, refused = write(search, first_candidates(search, each, rows))
            built, failed = built + made, failed + refused
            number = place if search.number is None else search.number
            print(
                f"[Task {number:2d}/{len(searches):2d}] {search.title}: {made} candidates built, {refused} failed",
                flush=True,
            )
    finally:
        close_pools()
    print(f"{built} candidates are in {folder}; python -m tvm.runtime.measure_files {folder} measures them")
    return built, failed


def _prior(search: Search, path: str | None) -> list[Any]:
    """The records of a file; prints a warning about lines that are not records of this kind of search."""
    rows, unreadable = search.format.load(path) if path else ([], 0)
    if unreadable:
        print(f"{path}: ignored {unreadable} lines that are not records of this kind of search", file=sys.stderr)
    return rows


__all__ = ["build_candidates", "sketch_writer", "template_writer"]
