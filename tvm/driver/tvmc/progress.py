"""What a compile says while it works: notes with -v, and a line that moves on a terminal."""

from __future__ import annotations

import logging
import sys
import time

logger = logging.getLogger("TVMC")
# A compile that is done sooner needs no display.
_QUIET_SECONDS = 1.0
_SECONDS_BETWEEN_DRAWINGS = 0.1


def note(text: str) -> None:
    """A line for those who asked with -v. A logger nobody has set a level for stays silent: Python's own default
    would show it to every script that calls ``tvmc.compile``."""
    if logger.level != logging.NOTSET:
        logger.warning(text)


class Progress:
    """Shows how far a compile is: redrawn in place on a terminal, and one line a stage in a log (-v)."""

    def __init__(self, stream=None):
        self.stream = stream if stream is not None else sys.stderr
        self.is_terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.begin = self.stage_begin = time.monotonic()
        self.drawn = 0.0
        self.stage = ""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """``done`` of ``total`` parts of ``stage`` are finished."""
        now = time.monotonic()
        is_new = stage != self.stage
        if is_new:
            self._end_stage(now)
            self.stage, self.stage_begin = stage, now
        if not self.is_terminal or now - self.begin < _QUIET_SECONDS:
            return
        # A new stage is always drawn: nothing may follow for a while.
        if is_new or now - self.drawn > _SECONDS_BETWEEN_DRAWINGS:
            self.drawn = now
            count = f" {done}/{total}" if total else ""
            self._draw(f"{stage}{count}, {now - self.begin:.0f} s")

    def _draw(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()

    def _end_stage(self, now: float) -> None:
        if self.stage:
            if self.drawn:
                self._draw("")
            note(f"{self.stage}: {now - self.stage_begin:.2f} s")

    def close(self) -> None:
        """Leave an empty line."""
        self._end_stage(time.monotonic())
        self.stage = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc) -> None:
        if exc[0] is not None and self.drawn:
            self._draw("")
        elif exc[0] is None:
            self.close()


__all__ = ["Progress", "note"]
