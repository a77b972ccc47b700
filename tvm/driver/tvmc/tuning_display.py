"""The display of ``tvmc tune``: a table that is updated in place on a terminal, or log lines."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...autotvm.tuner.callback import Progress
from ...tuning import Outcome, TaskStatus, events
from ...tuning.events import Stage
from .roofline import Machine, machine_of
from .terminal import BOLD, FAINT, GREEN, PLAIN

_SECONDS_BETWEEN_DRAWINGS = 0.1
# Update interval of the clock while a batch is compiled and no events occur.
_TICK_SECONDS = 1.0
_LEAST_NAME = 18
# The text of each stage that is shown between the rounds of tasks.
_STAGES = {
    Stage.BASELINE: "measuring the code without tuning",
    Stage.SEARCH: "",
    Stage.CONFIRM: "measuring the leaders side by side",
    Stage.WHOLE_MODEL: "comparing the model as a whole",
}
# The loggers that may warn while a model is tuned.
_LOGGERS = ("autotvm", "auto_scheduler")
_MARKS = {Outcome.MEASURED: ".", Outcome.TIMED_OUT: "T"}


def head(machine: Machine | None) -> str:
    """Return the table header; without the machine's peaks, their column is omitted."""
    peak = f" {'peak':>5}" if machine else ""
    return f"{'share':>6} {'untuned':>10} {'best':>10} {'gain':>6} {'GFLOPS':>8}{peak} {'trials':>6}"


def clock(seconds: float) -> str:
    """Format a duration, such as ``4:05`` or ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:.3f} s"


def totals(tasks: Sequence[TaskStatus]) -> tuple[float, float]:
    """Return total seconds of all tasks: untuned, and with the best candidates. Tasks without a result are left out."""
    ran = [(task, task.cost) for task in tasks if task.cost is not None]
    return (
        sum((task.baseline_cost or cost) * task.count for task, cost in ran),
        sum(cost * task.count for task, cost in ran),
    )


def columns(task: TaskStatus, total: float, machine: Machine | None) -> str:
    """Format the numbers of one task as table columns."""
    seconds = task.model_seconds
    if seconds is None:
        peak = f" {'-':>5}" if machine else ""
        return f"{'-':>6} {'-':>10} {'-':>10} {'-':>6} {'-':>8}{peak} {task.trials:>6}"
    untuned = task.baseline_cost * task.count if task.baseline_cost else None
    gain = f"{untuned / seconds:.2f}x" if untuned else "-"
    peak = f" {task.flops / machine.flops:>5.0%}" if machine else ""
    return (
        f"{seconds / total:>6.1%} {milliseconds(untuned):>10} {milliseconds(seconds):>10} {gain:>6} "
        f"{task.flops / 1e9:>8.1f}{peak} {task.trials:>6}"
    )


def name_of(task: TaskStatus) -> str:
    return f"{task.number:>3} {task.title}{': nothing ran' if task.cost is None and task.trials else ''}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _style(task: TaskStatus) -> str:
    if task.cost is None:
        return FAINT
    return GREEN if task.baseline_cost is not None and task.cost < 0.98 * task.baseline_cost else ""


class Row(NamedTuple):
    """A task as shown in the table."""

    name: str
    numbers: str
    seconds: float
    style: str


def total_line(tasks: Sequence[TaskStatus], machine: Machine | None) -> str:
    before, after = totals(tasks)
    peaks = f"; peak {machine.flops / 1e9:.0f} GFLOPS, {machine.bandwidth / 1e9:.0f} GB/s" if machine else ""
    if not after:
        return f"Estimated time in the model: not known yet{peaks}"
    return (
        f"Estimated time in the model: {milliseconds(before)} untuned, {milliseconds(after)} now "
        f"({before / after:.2f}x){peaks}"
    )


def summary(tasks: Sequence[TaskStatus], machine: Machine | None = None) -> str:
    """Format the speedup of each task."""
    total = totals(tasks)[1] or 1.0
    names = [name_of(task) for task in tasks]
    width = max(len(n) for n in names)
    rows = [f"{'  # task':<{width}} {head(machine)}"]
    rows += [f"{name:<{width}} {columns(task, total, machine)}" for name, task in zip(names, tasks)]
    return "\n".join([*rows, total_line(tasks, machine)])


def verdict(event: events.ModelCompared) -> str:
    """Describe the comparison of whole models in one line."""
    untuned, tuned = milliseconds(event.seconds), milliseconds(event.seconds * event.ratio)
    text = f"The whole model: {untuned} untuned, {tuned} tuned ({1 / event.ratio:.2f}x)"
    if not event.used:
        return f"{text}; the gains of single tasks do not show there, so the records keep the code without tuning"
    if event.used == event.found:
        return text
    return f"{text}; of {event.found} tasks only the {event.used} with a clear gain are used"


def _prefix(task: TaskStatus, total: int) -> str:
    return f"[Task {task.number:2d}/{total:2d}] "


def remark(event: events.Event, total: int) -> str:
    """Return the remark for an event, shown next to the numbers of its task, or "". ``total`` is the number of
    tasks."""
    if isinstance(event, events.RunStarted) and event.records_found:
        is_spent = event.trials_left is not None and event.trials_left <= 0
        spent = "; all trials are spent, a larger --trials goes on" if is_spent else ""
        return f"{event.records_found} records found, going on{spent}"
    if isinstance(event, events.SearchAbandoned):
        return f"{_prefix(event.task, total)} given up: {event.reason}"
    if isinstance(event, events.CandidateRejected):
        return f"{_prefix(event.task, total)} a configuration is left out: {event.reason}"
    return verdict(event) if isinstance(event, events.ModelCompared) else ""


class Lines:
    """Prints one mark per trial, and a line at the end of a task's round."""

    def __init__(self, machine: Machine | None = None):
        self.machine, self.total = machine, 0
        self.bar: Progress | None = None
        self.spent: dict[int, float] = {}

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self.total = len(event.tasks)
        elif isinstance(event, events.RoundStarted):
            self._begin_round(event)
        elif isinstance(event, events.TrialFinished) and self.bar is not None and not event.is_baseline:
            self.bar.advance([_speed(event.task, event.cost)], _MARKS.get(event.outcome, "E"))
        elif isinstance(event, events.RoundFinished):
            self._end_round(event)
        elif isinstance(event, events.RunFinished):
            self.close()
            self.say(summary(event.tasks, self.machine))
        text = remark(event, self.total)
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def _begin_round(self, event: events.RoundStarted) -> None:
        task = event.task
        self.bar = Progress(task.trials + event.trials, _prefix(task, self.total), "G")
        self.bar.count, self.bar.best = task.trials, task.flops
        self.bar.start -= self.spent.get(task.index, 0.0)

    def _end_round(self, event: events.RoundFinished) -> None:
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.current = _speed(event.task, event.cost)
            bar.end()
            self.spent[event.task.index] = time.time() - bar.start

    def close(self) -> None:
        """Complete the current line, even if a round was interrupted."""
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.break_off()


def _speed(task: TaskStatus, cost: float | None) -> float:
    """Return the operations per second of a candidate; 0 for a failed one."""
    return (task.flop or 1.0) / cost if cost else 0.0


class LiveTable(logging.Handler):
    """A table of all tasks that is updated in place; other messages are printed above it."""

    def __init__(self, machine: Machine | None = None, stream: Any = None):
        super().__init__(logging.WARNING)
        self.machine = machine
        self.stream = stream or sys.stdout
        self.tasks: list[TaskStatus] = []
        self.started: events.RunStarted | None = None
        self.begin = time.monotonic()
        self.stage = ""
        self.rows: list[Row] = []
        self.total = ""
        self.propagated: dict[str, bool] = {}
        self.drawn_lines = 0
        self.drawn_at = 0.0
        self.current: TaskStatus | None = None
        self.until = 0
        self.screen = threading.RLock()
        self.closing = threading.Event()
        self.colours = not os.environ.get("NO_COLOR")
        self.ticker = threading.Thread(target=self._tick, daemon=True)

    # -- events ----------------------------------------------------------------------------------------------

    def __call__(self, event: events.Event) -> None:
        at_once = not isinstance(event, events.TrialFinished | events.RoundFinished)
        with self.screen:
            self._note(event)
            text = remark(event, len(self.tasks))
            self._refresh(at_once, *text.splitlines())
        if isinstance(event, events.RunStarted):
            self.ticker.start()
        elif isinstance(event, events.RunFinished):
            self.close()

    def _note(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self._listen()
            self.started, self.begin = event, time.monotonic() - event.elapsed
        elif isinstance(event, events.StageStarted):
            self.stage = _STAGES[event.stage]
        elif isinstance(event, events.RoundStarted):
            self.until = event.task.trials + event.trials
        elif isinstance(event, events.RunFinished):
            self.stage = ""
        if isinstance(event, events.RunStarted | events.RunFinished):
            self.tasks, self.current = list(event.tasks), None
            return
        task: TaskStatus | None = getattr(event, "task", None)
        if task is not None:
            self.tasks[task.index] = task
            if isinstance(event, events.RoundFinished):
                self.current = None
            elif isinstance(event, events.RoundStarted) or self.current is not None:
                self.current = task

    def _listen(self) -> None:
        """Redirect warnings of the tuners to lines above the table, which would otherwise overwrite them."""
        for logger in map(logging.getLogger, _LOGGERS):
            logger.addHandler(self)
            self.propagated[logger.name], logger.propagate = logger.propagate, False

    def emit(self, record: logging.LogRecord) -> None:
        with self.screen:
            self._draw(*record.getMessage().splitlines())

    def close(self) -> None:
        """Draw the final table."""
        if self.closing.is_set():
            return
        self.closing.set()
        if self.started is None:
            return
        for logger in map(logging.getLogger, _LOGGERS):
            logger.removeHandler(self)
            logger.propagate = self.propagated[logger.name]
        with self.screen:
            self._write(self._lines(None))

    # -- drawing ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self.closing.wait(_TICK_SECONDS):
            with self.screen:
                if not self.closing.is_set():
                    self._draw()

    def _refresh(self, at_once: bool, *above: str) -> None:
        """Redraw the parts that have changed."""
        now = time.monotonic()
        if not at_once and now - self.drawn_at < _SECONDS_BETWEEN_DRAWINGS:
            return
        total = totals(self.tasks)[1] or 1.0
        self.rows = [
            Row(name_of(task), columns(task, total, self.machine), task.model_seconds or 0.0, _style(task))
            for task in self.tasks
        ]
        self.total, self.drawn_at = total_line(self.tasks, self.machine), now
        self._draw(*above)

    def _status(self) -> str:
        started, task = self.started, self.current
        seconds, trials = (started.seconds, started.trials) if started else (None, None)
        budget = f" of {clock(seconds)}" if seconds else ""
        done = sum(task.trials for task in self.tasks)
        parts = [
            f"tvmc tune  {clock(time.monotonic() - self.begin)}{budget}",
            f"{done} of {trials} trials" if trials is not None else f"{done} trials",
        ]
        if task is not None:
            parts.append(f"now task {task.number}, trial {min(task.trials + 1, self.until)} of {self.until}")
        else:
            parts.append(self.stage)
        return ", ".join(part for part in parts if part)

    def _shown(self, room: int | None) -> list[int]:
        """Return the indices of the tasks that fit on the screen: those with the largest share of time, and the current
        one."""
        numbers = range(len(self.rows))
        if room is None or len(self.rows) <= room:
            return list(numbers)
        now = self.current.index if self.current is not None else -1
        return sorted(sorted(numbers, key=lambda n: (n != now, -self.rows[n].seconds, n))[: max(room - 1, 1)])

    def _lines(self, room: int | None) -> list[str]:
        width = self._size().columns - 1
        titles = head(self.machine)
        name = max(min(max((len(row.name) for row in self.rows), default=8), width - len(titles) - 1), _LEAST_NAME)
        lines = [
            self._paint(BOLD, self._status()[:width]),
            self.total[:width],
            self._paint(FAINT, f"{'  # task':<{name}} {titles}"[:width]),
        ]
        shown = self._shown(room)
        for number in shown:
            row = self.rows[number]
            text = f"{_cut(row.name, name):<{name}} {row.numbers}"[:width]
            is_current = self.current is not None and self.current.index == number
            lines.append(self._paint(BOLD if is_current else row.style, text))
        if len(shown) < len(self.rows):
            lines.append(self._paint(FAINT, f"    and {len(self.rows) - len(shown)} tasks that take less time"))
        return lines

    def _paint(self, style: str, text: str) -> str:
        return f"{style}{text}{PLAIN}" if style and self.colours else text

    def _size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError, AttributeError):
            return os.terminal_size((100, 40))

    def _draw(self, *above: str) -> None:
        # Three lines for the header, one for the cursor.
        lines = self._lines(max(self._size().lines - 4, 1))
        self._write([*above, *lines])
        self.drawn_lines = len(lines)

    def _write(self, lines: list[str]) -> None:
        """Overwrite the last drawing in a single write, to avoid flicker. Lines are cleared one by one, because some
        terminals keep text in the scrollback when the whole screen is cleared."""
        up = f"\r\x1b[{self.drawn_lines}A" if self.drawn_lines else ""
        self.stream.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self.stream.flush()


def display_for(tasks: Sequence[Any]) -> Lines | LiveTable:
    """Return a live table for a terminal, otherwise a display that prints lines."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    peaks = machine_of(tasks)
    return LiveTable(peaks) if is_terminal else Lines(peaks)


__all__ = ["Lines", "LiveTable", "clock", "display_for", "milliseconds", "summary", "totals"]
