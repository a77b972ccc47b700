"""Callbacks that are called after each batch of measurements: they write records and show progress."""

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
    """Append every record to a file (a path, or an open file), as complete lines.

    Parameters
    ----------
    file_out : str or file
        The file.
    protocol : str, optional
        The format; only "json" is supported.

    Returns
    -------
    callable
        A callback for ``Tuner.tune``.

    Raises
    ------
    RuntimeError
        The protocol is not "json".
    """
    if protocol != "json":
        raise RuntimeError(f"log_to_file: records can only be written as json, not as '{protocol}'")
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
    """Store every record in a database: one of ``autotvm.database``, or the path of an SQLite file.

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
    """A callback that stores the speed of every trial and the best speed so far."""

    def __init__(self):
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for result in results:
            self.scores.append(tuner.flops(result))
            self.timestamps.append(result.timestamp)

    def reset(self) -> None:
        """Remove the stored trials."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> Any:
        """The speed of every trial, in operations per second; 0 for a failed trial.

        Returns
        -------
        ndarray
        """
        import numpy as np

        return np.array(self.scores)

    def trial_timestamps(self) -> Any:
        """The time of every trial, in seconds since 1970.

        Returns
        -------
        ndarray
        """
        import numpy as np

        return np.array(self.timestamps)


_TIMEOUTS = (MeasureErrorNo.BUILD_TIMEOUT, MeasureErrorNo.RUN_TIMEOUT)


def mark(result: Any) -> str:
    """One letter for a trial in plain logs: ``.`` measured, ``T`` timed out, ``E`` any other error.

    Parameters
    ----------
    result : MeasureResult
        The result of the trial.

    Returns
    -------
    str
    """
    return "." if result.error_no == 0 else "T" if result.error_no in _TIMEOUTS else "E"


class Progress:
    """The progress line of a task. On a terminal the line is updated in place; in a log each trial is one letter.

    Parameters
    ----------
    total : int
        The total number of trials.
    prefix : str
        The text at the start of the line.
    si_prefix : str
        The unit prefix of the speed: "G" for GFLOPS, "T", "M", "K".
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
        """The text of the line: the speeds of the last trials and of the best one, the number of trials, and the
        elapsed seconds.

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
        """Show more trials. Nothing is shown if the log prints every trial.

        Parameters
        ----------
        flops : sequence of float
            The operations per second of each trial.
        marks : str
            The letter of each trial, as returned by ``mark``.
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
        """Write the letters of trials to a log, a hundred per line.

        Parameters
        ----------
        marks : str
            The letter of each trial.
        """
        for letter in marks:
            self.out.write(letter)
            self.column += 1
            if self.column == 100:
                self.out.write("\n")
                self.column = 0

    def end(self) -> None:
        """Print the last line of the task."""
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
        """End without the last line, because the task was not finished."""
        if not self.ended:
            self.ended = True
            self.out.write("\n" if self.live or self.column else "")
            self.out.flush()

    def __del__(self):
        self.end()


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Progress:
    """A callback that shows the current and best speed and the number of completed trials out of ``total``.

    Parameters
    ----------
    total : int
        The total number of trials.
    prefix : str, optional
        The text at the start of the line.
    si_prefix : str, optional
        The unit prefix of the speed: "G" for GFLOPS, "T", "M", "K".

    Returns
    -------
    Progress
        A callback for ``Tuner.tune``.
    """
    format_si_prefix(0, si_prefix)
    return Progress(total, prefix, si_prefix)
