"""How far long work is: a line that moves on a terminal, and nothing in a file.

from tvm.utils import progress

with progress() as show:
    lib = relay.build(mod, target="llvm", params=params, progress=show)
with progress() as show:
    tuning.tune(tasks, options, show.event)
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Work that is done sooner needs no display.
_QUIET_SECONDS = 1.0
_SECONDS_BETWEEN_DRAWINGS = 0.1
# A stage that cannot say how far it is still shows that time passes.
_TICK_SECONDS = 0.25
_WHEEL = "|/-\\"
_BAR = 20


class Progress:
    """Shows the stage that work is in: redrawn in place on a terminal.

    Parameters
    ----------
    stream : file, optional
        Where the line is drawn; the error stream by default. What is no terminal gets nothing.
    said : callable, optional
        Gets a line of text when a stage has ended.
    clock : callable
        The seconds that have passed.
    ticks : bool
        Whether the line moves by itself; not where times are measured meanwhile.
    """

    def __init__(
        self,
        stream: Any = None,
        said: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        ticks: bool = True,
    ):
        self.stream = stream if stream is not None else sys.stderr
        is_terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.is_terminal = is_terminal and os.environ.get("TERM", "dumb") != "dumb"
        self.said = said
        self.clock = clock
        self.begin = self.stage_begin = clock()
        self.stage, self.done, self.total = "", 0, 0
        # Trials of a tuning run so far, and those it may make (0: as many as its time allows).
        self.tuned, self.budget = 0, 0
        self.drawn = 0.0
        self.turns = 0
        self.screen = threading.RLock()
        self.closing = threading.Event()
        # Where times are measured nothing may wake up meanwhile.
        self.ticks = ticks
        self.ticker: threading.Thread | None = None

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """``done`` of ``total`` parts of ``stage`` are finished; a total of 0 means unknown."""
        now = self.clock()
        with self.screen:
            is_new = stage != self.stage
            if is_new:
                self._end_stage(now)
                self.stage, self.stage_begin = stage, now
            self.done, self.total = done, total
            # A new stage is always drawn: nothing may follow for a while.
            self._draw(now, at_once=is_new)

    def event(self, event: Any) -> None:
        """Show what happens in a tuning run: to be given to ``tuning.tune``.

        Parameters
        ----------
        event : Event
            What happened; trials that ended and stages that began are shown.
        """
        from ..tuning import events

        if isinstance(event, events.RunStarted):
            self.tuned, self.budget = sum(task.trials for task in event.tasks), event.trials or 0
        if isinstance(event, events.TrialFinished):
            self.tuned += 1
            self(f"tuning task {event.task.number}", self.tuned, self.budget)
        elif isinstance(event, events.StageStarted):
            self(f"tuning: {event.stage.value}", 0, 0)

    def line(self, now: float) -> str:
        """Format the stage: its progress if known, and the seconds since the start.

        Parameters
        ----------
        now : float
            The current time of ``clock``.

        Returns
        -------
        str
        """
        count = ""
        if self.total:
            full = min(self.done, self.total) * _BAR // self.total
            count = f" [{'#' * full}{'.' * (_BAR - full)}] {self.done}/{self.total}"
        return f"{_WHEEL[self.turns % len(_WHEEL)]} {self.stage}{count}, {now - self.begin:.0f} s"

    def _draw(self, now: float, at_once: bool = False) -> None:
        if not self.is_terminal or not self.stage or now - self.begin < _QUIET_SECONDS:
            return
        if at_once or now - self.drawn > _SECONDS_BETWEEN_DRAWINGS:
            self.drawn = now
            self.turns += 1
            self._write(self.line(now))

    def _write(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()

    def _end_stage(self, now: float) -> None:
        if not self.stage:
            return
        if self.drawn:
            self._write("")
        if self.said is not None:
            self.said(f"{self.stage}: {now - self.stage_begin:.2f} s")

    def _tick(self) -> None:
        while not self.closing.wait(_TICK_SECONDS):
            with self.screen:
                if not self.closing.is_set():
                    self._draw(self.clock())

    def __enter__(self) -> Progress:
        if self.is_terminal and self.ticks:
            self.ticker = threading.Thread(target=self._tick, daemon=True)
            self.ticker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Write an empty line; a failed stage has no end."""
        self.closing.set()
        with self.screen:
            if exc[0] is None:
                self._end_stage(self.clock())
            elif self.drawn:
                self._write("")
            self.stage = ""
        if self.ticker is not None:
            self.ticker.join()


def progress(stream: Any = None) -> Progress:
    """A display for ``relay.build(..., progress=show)`` and ``tuning.tune(tasks, options, show.event)``.

    Parameters
    ----------
    stream : file, optional
        The output stream; standard error by default.

    Returns
    -------
    Progress
        A context manager whose value is the callback for the long-running work.
    """
    return Progress(stream)


__all__ = ["Progress", "progress"]
