"""What ``tvmc tune`` shows: a table that is drawn over itself on a terminal, the classic lines in a log."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ...autotvm.tuner.callback import Progress
from .roofline import Machine

if TYPE_CHECKING:
    from .tuning import Run, Work

_SECONDS_BETWEEN_DRAWINGS = 0.1
# The clock goes on while a batch is compiled and nothing else happens.
_TICK_SECONDS = 1.0
_LEAST_NAME = 18
_BOLD, _GREEN, _FAINT, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


def describe(task: Any) -> str:
    """A task in a few words: its name and shapes."""
    shapes = ["x".join(map(str, a[1])) for a in task.args if isinstance(a, tuple) and a and a[0] == "TENSOR"]
    times = f" (x{task.count})" if task.count > 1 else ""
    name = task.name
    for place in (".x86", ".cuda", ".gpu"):
        name = name.removesuffix(place)
    return f"{name} {' '.join(shapes)}{times}".strip()


def number_of(task: Any, place: int) -> int:
    """The number that --tasks takes for a task; its place where it was not found in a model."""
    return task.number if task.number is not None else place


def head(machine: Machine | None) -> str:
    """The names of the columns; without a peak to compare with there is no column for it."""
    peak = f" {'peak':>5}" if machine else ""
    return f"{'share':>6} {'untuned':>10} {'best':>10} {'gain':>6} {'GFLOPS':>8}{peak} {'trials':>6}"


def clock(seconds: float) -> str:
    """``4:05``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:.3f} s"


def totals(work: list[Work]) -> tuple[float, float]:
    """Seconds of all tasks in the model: untuned, and with the best so far. A task that never ran counts in neither."""
    ran = [w for w in work if w.best]
    before = sum((w.untuned * w.task.count if w.untuned else w.cost) for w in ran)
    return before, sum(w.cost for w in ran)


def columns(work: Work, total: float, machine: Machine | None) -> str:
    """The numbers of one task, each in its column."""
    if not work.best:
        peak = f" {'-':>5}" if machine else ""
        return f"{'-':>6} {'-':>10} {'-':>10} {'-':>6} {'-':>8}{peak} {work.tuned:>6}"
    count = work.task.count
    untuned = work.untuned * count if work.untuned else None
    gain = f"{untuned / work.cost:.2f}x" if untuned else "-"
    speed = (work.task.flop or 0.0) * count / work.cost
    peak = f" {speed / machine.flops:>5.0%}" if machine else ""
    return (f"{work.cost / total:>6.1%} {milliseconds(untuned):>10} {milliseconds(work.cost):>10} {gain:>6} "
            f"{speed / 1e9:>8.1f}{peak} {work.tuned:>6}")


def name_of(work: Work) -> str:
    return f"{work.number:>3} {describe(work.task)}{'' if work.best or not work.tuned else ': nothing ran'}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _style(work: Work) -> str:
    if not work.best:
        return _FAINT
    return _GREEN if work.untuned is not None and work.cost < 0.98 * work.untuned * work.task.count else ""


class Row(NamedTuple):
    """A task as it is drawn."""

    name: str
    numbers: str
    seconds: float
    style: str
    trials: int


def total_line(work: list[Work], machine: Machine | None) -> str:
    before, after = totals(work)
    peaks = f"; peak {machine.flops / 1e9:.0f} GFLOPS, {machine.bandwidth / 1e9:.0f} GB/s" if machine else ""
    if not after:
        return f"Estimated time in the model: not known yet{peaks}"
    return (f"Estimated time in the model: {milliseconds(before)} untuned, {milliseconds(after)} now "
            f"({before / after:.2f}x){peaks}")


def summary(work: list[Work], machine: Machine | None = None) -> str:
    """What was gained, task by task."""
    total = totals(work)[1] or 1.0
    names = [name_of(w) for w in work]
    width = max(len(n) for n in names)
    rows = [f"{'  # task':<{width}} {head(machine)}"]
    rows += [f"{name:<{width}} {columns(w, total, machine)}" for name, w in zip(names, work)]
    return "\n".join([*rows, total_line(work, machine)])


class Lines:
    """One mark for each trial, and the classic line when a task's turn ends."""

    def __init__(self, run: Run):
        self.run = run
        self.bar: Progress | None = None
        self.spent: dict[int, float] = {}

    def begin(self) -> None:
        pass

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def turn(self, work: Work, trials: int) -> None:
        self.bar = Progress(work.tuned + trials, work.prefix, "G")
        self.bar.count, self.bar.best = work.tuned, work.speed
        self.bar.start -= self.spent.get(id(work), 0.0)

    def refresh(self) -> None:
        pass

    def trial(self, work: Work, inp: Any, result: Any) -> None:
        if self.bar is not None:
            self.bar(work.tuner, [inp], [result])

    def end_turn(self, work: Work, current: float) -> None:
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.current = current
            bar.end()
            self.spent[id(work)] = time.time() - bar.start

    def close(self) -> None:
        """Leave a whole line, also when a turn was broken off."""
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.break_off()

    def end(self) -> None:
        self.close()
        self.say(summary(self.run.work, self.run.machine))


class LiveTable(logging.Handler):
    """All tasks in a table that stays in place; what is said meanwhile goes above it."""

    def __init__(self, run: Run, stream: Any = None):
        super().__init__(logging.WARNING)
        self.run = run
        self.stream = stream or sys.stdout
        self.rows: list[Row] = []
        self.total = ""
        self.propagated = True
        self.drawn_lines = 0
        self.drawn_at = 0.0
        self.current: Work | None = None
        self.until = 0
        self.screen = threading.RLock()
        self.closing = threading.Event()
        self.colours = not os.environ.get("NO_COLOR")
        self.ticker = threading.Thread(target=self._tick, daemon=True)

    # -- what happens ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        # Warnings of the tuners would be drawn over.
        logger = logging.getLogger("autotvm")
        logger.addHandler(self)
        self.propagated, logger.propagate = logger.propagate, False
        self._refresh(True)
        self.ticker.start()

    def emit(self, record: logging.LogRecord) -> None:
        self.say(record.getMessage())

    def say(self, text: str) -> None:
        with self.screen:
            self._draw(*text.splitlines())

    def refresh(self) -> None:
        self._refresh(False)

    def turn(self, work: Work, trials: int) -> None:
        self.current, self.until = work, work.tuned + trials
        self._refresh(True)

    def trial(self, work: Work, inp: Any, result: Any) -> None:
        self._refresh(False)

    def end_turn(self, work: Work, current: float) -> None:
        self.current = None
        self._refresh(False)

    def close(self) -> None:
        """Leave the whole table behind."""
        if self.closing.is_set():
            return
        self.closing.set()
        logger = logging.getLogger("autotvm")
        logger.removeHandler(self)
        logger.propagate = self.propagated
        with self.screen:
            self._write(self._lines(None))

    def end(self) -> None:
        self.current = None
        self._refresh(True)
        self.close()

    # -- drawing ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self.closing.wait(_TICK_SECONDS):
            with self.screen:
                if not self.closing.is_set():
                    self._draw()

    def _refresh(self, at_once: bool) -> None:
        """Take in what has changed. Only this thread reads the tasks: another may not while they change."""
        now = time.monotonic()
        if not at_once and now - self.drawn_at < _SECONDS_BETWEEN_DRAWINGS:
            return
        work = self.run.work
        total = totals(work)[1] or 1.0
        rows = [
            Row(name_of(w), columns(w, total, self.run.machine), w.cost if w.best else 0.0, _style(w), w.tuned)
            for w in work
        ]
        with self.screen:
            self.rows, self.total, self.drawn_at = rows, total_line(work, self.run.machine), now
            self._draw()

    def _status(self) -> str:
        run, work = self.run, self.current
        budget = f" of {clock(run.settings.seconds)}" if run.settings.seconds else ""
        done = sum(row.trials for row in self.rows)
        parts = [f"tvmc tune  {clock(run.elapsed)}{budget}",
                 f"{done} of {run.settings.trials} trials" if run.is_counted else f"{done} trials"]
        if work is not None:
            parts.append(f"now task {work.number}, trial {min(work.tuned + 1, self.until)} of {self.until}")
        else:
            parts.append(run.stage)
        return ", ".join(part for part in parts if part)

    def _shown(self, room: int | None) -> list[int]:
        """Numbers of the tasks there is room for: those that take most of the model's time, and the current one."""
        numbers = range(len(self.rows))
        if room is None or len(self.rows) <= room:
            return list(numbers)
        now = self.current.number if self.current is not None else -1
        return sorted(sorted(numbers, key=lambda n: (n != now, -self.rows[n].seconds, n))[: max(room - 1, 1)])

    def _lines(self, room: int | None) -> list[str]:
        width = self._size().columns - 1
        titles = head(self.run.machine)
        name = max(min(max((len(row.name) for row in self.rows), default=8), width - len(titles) - 1), _LEAST_NAME)
        lines = [self._paint(_BOLD, self._status()[:width]), self.total[:width],
                 self._paint(_FAINT, f"{'  # task':<{name}} {titles}"[:width])]
        shown = self._shown(room)
        for number in shown:
            row = self.rows[number]
            text = f"{_cut(row.name, name):<{name}} {row.numbers}"[:width]
            is_current = self.current is not None and self.current.number == number
            lines.append(self._paint(_BOLD if is_current else row.style, text))
        if len(shown) < len(self.rows):
            lines.append(self._paint(_FAINT, f"    and {len(self.rows) - len(shown)} tasks that take less time"))
        return lines

    def _paint(self, style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if style and self.colours else text

    def _size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError, AttributeError):
            return os.terminal_size((100, 40))

    def _draw(self, *above: str) -> None:
        # Three lines of head, one for the cursor.
        lines = self._lines(max(self._size().lines - 4, 1))
        self._write([*above, *lines])
        self.drawn_lines = len(lines)

    def _write(self, lines: list[str]) -> None:
        """Write over the last drawing, in one piece: a terminal shows nothing in between. Some terminals keep what is
        cleared from the top of the screen, so each line is cleared by itself."""
        up = f"\r\x1b[{self.drawn_lines}A" if self.drawn_lines else ""
        self.stream.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self.stream.flush()


def display_for(run: Run) -> Lines | LiveTable:
    """The table where somebody watches, lines where they are kept."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return LiveTable(run) if is_terminal else Lines(run)


__all__ = ["Lines", "LiveTable", "clock", "describe", "display_for", "milliseconds", "summary", "totals"]
