"""The choices of a tuning run: the selected candidate of each task, stored in the record file with the measurements.

Ansor's record lines cannot express two facts: that a candidate won the final rounds, and that the untuned baseline did.
They are written as comments, which other readers of record files skip: ``# {"i": [task, state], "r": ..., "v": ...,
"final": true}``, where the state of the untuned baseline is null.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from .measure import MeasureInput, MeasureResult
from .measure_record import NoRecord, RecordReader, dump_record_to_string, is_comment, load_record_from_string
from .search_task import SearchTask
from .state import StateObject

COMMENT_BEGIN = '# {"i": '


class Row(NamedTuple):
    """A measurement; a row without state is a measurement of the untuned baseline. ``final`` is true for a measurement
    in the final rounds."""

    task: SearchTask
    state: StateObject | None
    result: MeasureResult
    final: bool = False


def encode_row(row: Row) -> str:
    """Return a line of a record file, without the line break."""
    line = dump_record_to_string(MeasureInput(row.task, row.state or StateObject(())), row.result)
    if row.state is not None and not row.final:
        return line
    fields = json.loads(line)
    if row.state is None:
        fields["i"][1] = None
    return f"# {json.dumps({**fields, 'final': row.final})}"


def _decoded(comment: str) -> Row | None:
    """Return the measurement in a comment; None for any other comment."""
    try:
        fields = json.loads(comment[2:])
        final, is_untuned = bool(fields.pop("final")), fields["i"][1] is None
        if is_untuned:
            fields["i"][1] = [[], []]
        inp, result = load_record_from_string(json.dumps(fields))
    except (ValueError, TypeError, LookupError, NoRecord):
        return None
    return Row(inp.task, None if is_untuned else inp.state, result, final)


def row_of(line: str) -> Row | None:
    """Return the measurement in a line; None for a plain comment. Raise NoRecord for any other line."""
    if line.startswith(COMMENT_BEGIN):
        return _decoded(line)
    if is_comment(line):
        return None
    inp, result = load_record_from_string(line)
    return Row(inp.task, inp.state, result)


def read_rows(path: str | os.PathLike) -> Iterator[Row]:
    """Return the measurements of a file. A line that is not a record is an error, unless it is the last one and was
    truncated by a crash."""
    with open(RecordReader(path).filename, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = row_of(line)
            except NoRecord as error:
                if not line.endswith("\n"):
                    return
                raise NoRecord(f"{os.fspath(path)}, line {number}: {error}") from None
            if row is not None:
                yield row


def load_rows(path: str | os.PathLike) -> tuple[list[Row], int]:
    """Return the measurements of a file, and the number of lines that are not records."""
    rows, unreadable = [], 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                rows.append(row_of(line))
            except NoRecord:
                unreadable += 1
    return [row for row in rows if row is not None], unreadable


class Choice:
    """The measurement that compilation uses, among those of one workload and one kind of target: the last winner of
    final rounds, or the fastest measurement without final rounds."""

    def __init__(self) -> None:
        self.row: Row | None = None

    def note(self, row: Row) -> None:
        held = self.row
        if row.result.error_no == 0 and (
            held is None or row.final or not held.final and row.result.mean_cost < held.result.mean_cost
        ):
            self.row = row


def is_auto_scheduler_log(path: str | os.PathLike) -> bool:
    """Return whether a file contains records of the auto-scheduler, determined from its first line that is not a
    comment."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                if row_of(line) is not None:
                    return True
            except NoRecord:
                return False
    return False


__all__ = ["Choice", "Row", "encode_row", "is_auto_scheduler_log", "load_rows", "read_rows", "row_of"]
