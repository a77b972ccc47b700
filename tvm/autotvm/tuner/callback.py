"""Callbacks after each batch of measurements: records are written, progress is shown."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import record
from ..measure.measure import MeasureErrorNo
from ..utils import format_si_prefix


def log_to_file(file_out: Any, protocol: str = "json") -> Callable:
    """Append every record to a file (a path, or an open file), whole lines at a time.

    Parameters
    ----------
    file_out : str or file
        The file.
    protocol : str, optional
        The format; "json" is the one there is.

    Returns
    -------
    callable
        A callback for ``Tuner.tune``.

    Raises
    ------
    RuntimeError
        The protocol is not json.
    """
    if protocol != "json":
        raise RuntimeError(f"log_to_file: records are written as json, not as '{protocol}'")
    append = record.RecordFile(file_out).append if isinstance(file_out, (str, os.PathLike)) else _appender(file_out)

    def write(_: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        append([record.encode(inp, result, protocol) for inp, result in zip(inputs, results)])

    return write


def _appender(file: Any) -> Callable[[list[str]], None]:
    def append(lines: list[str]) -> None:
        file.write("".join(line + "\n" for line in lines))
        file.flush()

    return append


def log_to_database(db: Any) -> Callable:
    """Keep every record in a database: one of ``autotvm.database``, or the path of an SQLite file.

    Parameters
    ----------
    db : database or str
        The database, or a path.

    Returns
    -------
    callable
        A callback for ``Tuner.tune``.
    """
    from ..database import SQLiteDatabase

    store = SQLiteDatabase(db) if isinstance(db, (str, os.PathLike)) else db

    def write(_: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for inp, result in zip(inputs, results):
            store.save(inp, result)

    return write


class Monitor:
    """Keeps the speed of every trial and the best so far."""

    def __init__(self):
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for result in results:
            self.scores.append(tuner.flops(result))
            self.timestamps.append(result.timestamp)

    def reset(self) -> None:
        """Forget the trials so far."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> Any:
        """The speed of every trial, in operations a second; 0 for one that failed.

        Returns
        -------
        ndarray
        """
        import numpy as np

        return np.array(self.scores)

    def trial_timestamps(self) -> Any:
        """When every trial was measured, in seconds since 1970.

        Returns
        -------
        ndarray
        """
        import numpy as np

        return np.array(self.timestamps)


_TIMEOUTS = (MeasureErrorNo.BUILD_TIMEOUT, MeasureErrorNo.RUN_TIMEOUT)


def mark(result: Any) -> str:
    """One letter for a trial in plain logs: ``.`` measured, ``T`` took too long, ``E`` any other error.

    Parameters
    ----------
    result : MeasureResult
        What came of the trial.

    Returns
    -------
    str
    """
    return "." if result.error_no == 0 else "T" if result.error_no in _TIMEOUTS else "E"


class Progress:
    """The line of one task. On a terminal it is written over itself; in a log each trial is one mark.

    Parameters
    ----------
    total : int
        How many trials there will be.
    prefix : str
        What the line begins with.
    si_prefix : str
        The unit of speed: "G" for GFLOPS, "T", "M", "K".
    """

    def __init__(self, total: int, prefix: str, si_prefix: str):
        self.total, self.prefix, self.si_prefix = total, prefix, si_prefix
        self.current = self.best = 0.0
        self.count = 0
        self.start = time.time()
        self.out = sys.stdout
        self.live = self.out.isatty()
        self.ended = False
        self.column = 0
        if self.live:
            self.out.write("\r" + self.line())
            self.out.flush()

    def line(self) -> str:
        """The text of the line: the speed of the last trials and of the best, how many there were, and the seconds so
        far.

        Returns
        -------
        str
        """
        current, best = (format_si_prefix(x, self.si_prefix) for x in (self.current, self.best))
        return (
            f"{self.prefix} Current/Best: {current:7.2f}/{best:7.2f} {self.si_prefix}FLOPS "
            f"| Progress: ({self.count}/{self.total}) | {time.time() - self.start:.2f} s"
        )

    def __call__(self, tuner: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self.best = max(self.best, getattr(tuner, "best_flops", 0.0))
        self.advance([tuner.flops(r) for r in results], "".join(mark(r) for r in results))

    def advance(self, flops: Sequence[float], marks: str) -> None:
        """Show some more trials; nothing is shown where the log of every trial is printed.

        Parameters
        ----------
        flops : sequence of float
            The operations a second of each.
        marks : str
            The mark of each, as ``mark`` gives it.
        """
        if logging.getLogger("autotvm").level == logging.DEBUG and logging.getLogger("autotvm").handlers:
            return
        self.current = max(flops, default=0.0)
        self.best = max(self.best, self.current)
        self.count += len(marks)
        if self.live:
            self.out.write("\r" + self.line())
        else:
            self.write_marks(marks)
        self.out.flush()

    def write_marks(self, marks: str) -> None:
        """Write the marks of trials to a log, a hundred to a line.

        Parameters
        ----------
        marks : str
            The mark of each.
        """
        for letter in marks:
            self.out.write(letter)
            self.column += 1
            if self.column == 100:
                self.out.write("\n")
                self.column = 0

    def end(self) -> None:
        """The last line of the task."""
        if self.ended:
            return
        self.ended = True
        lead = "\r" if self.live else "\n" if self.column else ""
        try:
            self.out.write(f"{lead}{self.line()} Done.\n")
            self.out.flush()
        except (OSError, ValueError):
            pass

    def break_off(self) -> None:
        """End without the last line: the task was not finished."""
        if not self.ended:
            self.ended = True
            self.out.write("\n" if self.live or self.column else "")
            self.out.flush()

    def __del__(self):
        self.end()


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Progress:
    """Shows current and best speed and how many of ``total`` trials are done.

    Parameters
    ----------
    total : int
        How many trials there will be.
    prefix : str, optional
        What the line begins with.
    si_prefix : str, optional
        The unit of speed: "G" for GFLOPS, "T", "M", "K".

    Returns
    -------
    Progress
        A callback for ``Tuner.tune``.
    """
    format_si_prefix(0, si_prefix)
    return Progress(total, prefix, si_prefix)
