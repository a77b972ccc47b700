"""The record file of a run: reading earlier records and appending new ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..error import TVMError
from ..runtime.measure.record_file import RecordFile
from .search import RecordFormat, Search

Guard = Callable[[], contextlib.AbstractContextManager]


class RunRecords:
    """Reads earlier records and appends new ones. Lines are written inside ``guard()``, which may delay signals."""

    def __init__(self, path: str, searches: Sequence[Search], guard: Guard):
        self.path, self.guard, self.format = path, guard, _format_of(searches)
        self.file = RecordFile(path, self.format.begin)

    def resumed(self) -> list[Any]:
        """Return the records of the output file. If the file contains other lines, an error is raised and nothing is
        written. A file without write permission is detected before the first measurement."""
        rows: list[Any] = []
        if os.path.isfile(self.path):
            rows, unreadable = self.format.load(self.path)
            # A crash may have truncated the last record.
            if unreadable > self.file.is_cut_short():
                raise TVMError(
                    f"'{self.path}' contains lines that are not tuning records; nothing was written to it; use "
                    "another file"
                )
        self.file.append(())
        return rows

    def prior(self, path: str | None) -> list[Any]:
        """Return the records of another file."""
        return self.format.load(path)[0] if path and path != self.path else []

    def append(self, lines: Sequence[str]) -> None:
        """Write complete lines, so that no record is lost if the run is interrupted."""
        with self.guard():
            self.file.append(lines)


def _format_of(searches: Sequence[Search]) -> RecordFormat:
    """Return the common record format of all searches of a run."""
    formats = {id(search.format): search.format for search in searches}
    if len(formats) != 1:
        raise TVMError(f"all tasks of a run must use the same record format; these tasks use {len(formats)} formats")
    return next(iter(formats.values()))


__all__ = ["Guard", "RunRecords"]
