"""A page about a tuning run: for each task its progress, the best kernel, and its speedup. One file, no network access.

The page depends only on the records (and the peaks of the machine): the same records give the same page.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from math import prod
from typing import Any

from ...auto_scheduler.choices import is_auto_scheduler_log
from ...auto_scheduler.search import SketchSearch
from ...autotvm.measure.measure import MeasureInput, MeasureResult
from ...autotvm.record import load_from_file
from ...autotvm.search import describe, number_of
from ...autotvm.task.dispatcher import mean_cost
from ...autotvm.task.task import Task, create
from ...autotvm.utils import get_const_tuple
from ...drawing.chart import roofline
from ...drawing.page import escape, table
from ...drawing.page import page as whole_page
from ...dtype import info
from ...error import TVMError
from . import report_chart as chart
from .errors import TVMCException
from .files import write_whole
from .report_sketches import stories_in, stories_of
from .roofline import Machine, machine
from .tuning_display import clock, milliseconds

# A longer time without a record is a pause: the run was stopped and continued later.
_PAUSE_SECONDS = 120.0
# Errors that a record of another version, or of an unknown template, may cause.
_NO_TEMPLATE = (TVMError, RuntimeError, TypeError, ValueError, AssertionError, LookupError, AttributeError)


class Story:
    """Facts about one task, extracted from the records."""

    def __init__(self, number: int, task: Any, rows: list[tuple[MeasureInput, MeasureResult]]):
        self.number, self.task, self.rows = number, task, rows
        self.trials = [pair for pair in rows if not pair[0].final]
        self.failed = sum(res.error_no != 0 for _, res in rows)
        self.flop: float = task.flop or 0.0
        # The last record of each configuration that ran without an error.
        self.latest = {str(inp.config.values()): (inp, res) for inp, res in rows if res.error_no == 0}
        final = [pair for pair in rows if pair[0].final and pair[1].error_no == 0]
        # The last winner of the final rounds, else the fastest candidate.
        self.best = final[-1] if final else min(self.latest.values(), key=lambda p: mean_cost(p[1]), default=None)
        self.seconds = None if self.best is None else mean_cost(self.best[1])
        self.untuned = self._untuned()

    @property
    def title(self) -> str:
        return describe(self.task)

    @property
    def count(self) -> int:
        """How often the model executes the task."""
        return self.task.count

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the choices of the best candidate by name."""
        values = self.best[0].config.values() if self.best else {}
        return [(f"knob {name}", str(value)) for name, value in values.items()]

    @property
    def cpus(self) -> set[str | None]:
        """Return the CPUs in the records; None for records that do not name one."""
        return {(inp.made_on or {}).get("cpu") for inp, _ in self.rows}

    def _untuned(self) -> float | None:
        """Return the seconds of the untuned kernel."""
        space = self.task._config_space
        for index in space.start if space is not None else ():
            found = self.latest.get(str(space.get(index).values()))
            if found is not None:
                return mean_cost(found[1])
        return None

    @functools.cached_property
    def moved(self) -> int:
        """Return the size of arguments and output in bytes; 0 if the template does not define it."""
        if self.best is None or self.task.target is None:
            return 0
        try:
            with self.task.target:
                _, arguments = self.task.instantiate(self.best[0].config)
            return sum(prod(get_const_tuple(t.shape)) * info(t.dtype).bits // 8 for t in arguments)
        except _NO_TEMPLATE:
            return 0

    @property
    def intensity(self) -> float | None:
        return self.flop / self.moved if self.flop and self.moved else None


# -- parts of the page -------------------------------------------------------------------------------------------------


def _total(stories: list[Story]) -> tuple[float, float]:
    """Return the total seconds of all tasks in the model, untuned and tuned."""
    known = [s for s in stories if s.seconds is not None]
    before = sum((s.untuned or s.seconds or 0.0) * s.count for s in known)
    return before, sum((s.seconds or 0.0) * s.count for s in known)


def _times(rows: Iterable[tuple[int, MeasureInput, MeasureResult]]) -> list[float]:
    """Return the elapsed tuning time at each record in seconds; pauses are not counted."""
    now, before, times = 0.0, None, []
    for _, _, res in rows:
        step = res.timestamp - before if before is not None else min(res.all_cost, _PAUSE_SECONDS)
        now += step if 0 <= step < _PAUSE_SECONDS else 0.0
        before = res.timestamp
        times.append(now)
    return times


def _model_over_time(stories: list[Story]) -> str:
    rows = sorted(
        ((s.number, inp, res) for s in stories for inp, res in s.rows), key=lambda row: (row[2].timestamp, row[0])
    )
    by_number = {s.number: s for s in stories}
    first = {s.number: s.untuned or s.seconds for s in stories if s.seconds is not None}
    held = {n: (seconds or 0.0) * by_number[n].count for n, seconds in first.items()}
    before, points = sum(held.values()) * 1e3, []
    for (number, inp, res), now in zip(rows, _times(rows)):
        cost = mean_cost(res) * by_number[number].count
        if number in held and (res.error_no == 0 and (inp.final or cost < held[number])):
            held[number] = cost
            points.append((now, sum(held.values()) * 1e3))
    end = _times(rows)[-1] if rows else 0.0
    points.append((end, _total(stories)[1] * 1e3))
    return chart.over_time("estimated time of the model's tasks over the time of tuning", points, before)


def _table(stories: list[Story], peaks: Machine | None) -> str:
    total = _total(stories)[1] or 1.0
    head = [
        "#",
        "task",
        "times",
        "share",
        "untuned",
        "best",
        "gain",
        "GFLOPS",
        *(["of peak"] if peaks else []),
        "FLOP/byte",
        *(["of roof"] if peaks else []),
        "trials",
    ]
    body = []
    for s in stories:
        link = f'<a href="#task-{s.number}">{escape(s.title)}</a>'
        row = [str(s.count), *_numbers(s, total, peaks), f"{len(s.trials)}{f', {s.failed} failed' if s.failed else ''}"]
        body.append([str(s.number), link, *map(escape, row)])
    caption = "All tasks: share of the model's time, time in the model without and with tuning, speed"
    return table(head, body, caption, name=1, key="tasks")


def _numbers(s: Story, total: float, peaks: Machine | None) -> list[str]:
    if s.seconds is None:
        return ["-"] * (8 if peaks else 6)
    cost, before = s.seconds * s.count, s.untuned * s.count if s.untuned else None
    speed = s.flop / s.seconds
    return [
        f"{cost / total:.1%}",
        milliseconds(before),
        milliseconds(cost),
        f"{before / cost:.2f}x" if before else "-",
        f"{speed / 1e9:.1f}",
        *([f"{speed / peaks.flops:.0%}"] if peaks else []),
        f"{s.intensity:.1f}" if s.intensity else "-",
        *([f"{speed / peaks.roof(s.intensity, s.moved):.0%}" if s.intensity else "-"] if peaks else []),
    ]


def _section(s: Story, peaks: Machine | None) -> str:
    title = f'<h3 id="task-{s.number}">{s.number}. {escape(s.title)}</h3>'
    if s.seconds is None or s.best is None:
        return f"{title}<p>{len(s.rows)} trials, none ran.</p>"
    unit, scale = ("GFLOPS", s.flop / 1e9) if s.flop else ("runs a second", 1.0)
    speeds = [scale / mean_cost(r) if r.error_no == 0 else 0.0 for _, r in s.trials]
    base = scale / s.untuned if s.untuned else None
    picture = chart.progress(f"speed of each trial of task {s.number}", speeds, base, unit)
    facts = [
        (
            "one run",
            f"{milliseconds(s.untuned)} untuned, {milliseconds(s.seconds)} with the best"
            if s.untuned
            else f"{milliseconds(s.seconds)} with the best; the untuned code was not measured",
        )
    ]
    if peaks and s.intensity:
        roof = peaks.roof(s.intensity, s.moved)
        bound = "arithmetic" if roof == peaks.flops else "moving data"
        facts.append(
            (
                "roofline",
                f"{s.intensity:.1f} operations per byte, so bound by {bound}: "
                f"{s.flop / s.seconds / roof:.0%} of the {roof / 1e9:.0f} GFLOPS this machine allows",
            )
        )
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts)
    rows += "".join(f"<dt>{escape(k)}</dt><dd><code>{escape(v)}</code></dd>" for k, v in s.choices)
    return f"{title}{picture}<dl>{rows}</dl>"


def _head(stories: list[Story], target: str, peaks: Machine | None, with_counts: bool) -> str:
    before, after = _total(stories)
    rows = sorted(((0, i, r) for s in stories for i, r in s.rows), key=lambda row: row[2].timestamp)
    spent = clock(_times(rows)[-1]) if rows else "0:00"
    trials, failed = sum(len(s.trials) for s in stories), sum(s.failed for s in stories)
    gain = (
        (
            f'<p class="large">Estimated time of these tasks in the model: {milliseconds(before)} untuned, '
            f"<strong>{milliseconds(after)}</strong> tuned ({before / after:.2f}x)</p>"
        )
        if after
        else ""
    )
    peak = (
        (
            f" Peaks of this machine ({escape(peaks.cpu)}, {peaks.cores} threads): {peaks.flops / 1e9:.0f} GFLOPS "
            f"in float32, {peaks.cache_bandwidth / 1e9:.0f} GB/s from caches, {peaks.bandwidth / 1e9:.0f} GB/s from "
            "memory."
        )
        if peaks
        else ""
    )
    counts = (
        "" if with_counts else (" Records do not say how often a model computes each task: every task counts once.")
    )
    return (
        f'<h1>Tuning report</h1><p class="soft">Target <code>{escape(target)}</code>; {len(stories)} tasks, '
        f"{trials} trials, {failed} failed, {spent} of measuring.{peak}{counts}</p>{gain}"
    )


def page(stories: list[Story], peaks: Machine | None, with_counts: bool = True) -> str:
    """Return the complete page."""
    target = str(stories[0].task.target).strip() if stories else ""
    body = _head(stories, target, peaks, with_counts)
    if any(s.seconds is not None for s in stories):
        body += f"<h2>The model over time</h2>{_model_over_time(stories)}"
    body += f"<h2>Tasks</h2>{_table(stories, peaks)}" if stories else "<p>There was nothing to tune.</p>"
    points = [
        (s.number, s.intensity, s.flop / s.seconds / 1e9, s.flop / s.untuned / 1e9 if s.untuned else None)
        for s in stories
        if s.seconds and s.intensity
    ]
    if peaks and points:
        label = "speed of each task over its operations per byte, below the roofline of the machine"
        roofs = [("caches", peaks.cache_bandwidth / 1e9), ("memory", peaks.bandwidth / 1e9)]
        body += (
            f"<h2>Roofline</h2>{roofline(label, peaks.flops / 1e9, roofs, points)}"
            '<p class="soft">Each task by its number: a small dot without tuning, a large one with the best. '
            "Winograd's algorithm needs fewer operations than are counted here and may lie above the roofline.</p>"
        )
    if stories:
        body += (
            '<h2>Each task</h2><p class="soft">Dots are trials, the line is the best so far, the dashed line is '
            f"the code without tuning.</p>{''.join(_section(s, peaks) for s in stories)}"
        )
    return whole_page("Tuning report", body)


# -- creating the page ------------------------------------------------------------------------------------------------


def write_report(path: str, records: str | None, tasks: list[Any]) -> None:
    """Write the page of these tasks or auto-scheduler searches, using a file of records."""
    if tasks and isinstance(tasks[0], SketchSearch):
        _write(path, stories_of(tasks, records), True)
        return
    rows: dict[Any, list] = {task.workload: [] for task in tasks}
    for inp, result in load_from_file(records) if records and os.path.isfile(records) else ():
        if inp.task.workload in rows:
            rows[inp.task.workload].append((inp, result))
    _write(path, [Story(number_of(task, n), task, rows[task.workload]) for n, task in enumerate(tasks)], True)


def report_of_records(path: str, records: str) -> None:
    """Write the page of every task in a file of records."""
    if is_auto_scheduler_log(records):
        _write(path, stories_in(records), False)
        return
    rows: dict[Any, list[tuple[MeasureInput, MeasureResult]]] = {}
    for inp, result in load_from_file(records):
        rows.setdefault((inp.task.workload, str(inp.target)), []).append((inp, result))
    if not rows:
        raise TVMCException(f"{records} contains no tuning records")
    _write(path, [Story(n, _task_of(own[0][0]), own) for n, own in enumerate(rows.values())], False)


def _task_of(inp: MeasureInput) -> Task:
    """Return the task of a record with its operation count and its untuned kernel, if its template is known."""
    from ...autotvm.task import relay_integration  # noqa: F401  (registers the templates)

    try:
        return create(inp.task.name, inp.task.args, inp.target)
    except _NO_TEMPLATE:
        return inp.task


def _write(path: str, stories: list[Story], with_counts: bool) -> None:
    text = page(stories, _peaks_for(stories), with_counts)
    write_whole(path, lambda file: file.write(text.encode()))


def _peaks_for(stories: list[Story]) -> Machine | None:
    """Return the peaks of this machine, if the records were made on a machine of the same type."""
    made_on = set().union(*(s.cpus for s in stories))
    here = machine() if made_on else None
    return here if here is not None and made_on == {here.cpu} else None


__all__ = ["Story", "page", "report_of_records", "write_report"]
