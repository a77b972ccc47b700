"""The record file of a run: what it holds already, and lines that are appended as results come in."""

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
    """Reads earlier records and appends new ones. Lines are written inside ``guard()``, which may hold back signals."""

    def __init__(self, path: str, searches: Sequence[Search], guard: Guard):
        self.path, self.guard, self.format = path, guard, _format_of(searches)
        self.file = RecordFile(path, self.format.begin)

    def resumed(self) -> list[Any]:
        """The records of the file to append to. A file with other lines is somebody else's: nothing is written to it,
        and one that cannot be written to is found out before anything is measured."""
        rows: list[Any] = []
        if os.path.isfile(self.path):
            rows, unreadable = self.format.load(self.path)
            # A crash may have cut the last record short.
            if unreadable > self.file.is_cut_short():
                raise TVMError(
                    f"'{self.path}' has lines that are no tuning records; nothing was written to it, name another file")
        self.file.append(())
        return rows

    def prior(self, path: str | None) -> list[Any]:
        """The records of another file."""
        return self.format.load(path)[0] if path and path != self.path else []

    def append(self, lines: Sequence[str]) -> None:
        """Write lines whole, so that nothing is lost whatever ends the run."""
        with self.guard():
            self.file.append(lines)


def _format_of(searches: Sequence[Search]) -> RecordFormat:
    """The one format of all records of a run."""
    formats = {id(search.format): search.format for search in searches}
    if len(formats) != 1:
        raise TVMError(f"the tasks of one run write one kind of record; these write {len(formats)} kinds")
    return next(iter(formats.values()))


__all__ = ["Guard", "RunRecords"]
