"""Tuning records in an SQLite database, in a file or in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from ..error import TVMError, not_defined
from . import record
from .measure.measure import MeasureInput, MeasureResult


class Database:
    """A store of measurements, indexed by their inputs."""

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """Return the last measurement of an input (or all of them); None if there is none."""
        raise not_defined(self, "load")

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        raise not_defined(self, "save")


class SQLiteDatabase(Database):
    """A database file that several processes may use at once; ``save`` returns after the record is on disk."""

    def __init__(self, path: str | os.PathLike = ":memory:"):
        self.path = os.fspath(path)
        try:
            self.connection = sqlite3.connect(self.path, timeout=30)
            with self.connection:
                self.connection.execute(
                    "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, key TEXT NOT NULL, "
                    "workload TEXT NOT NULL, cost REAL, line TEXT NOT NULL)"
                )
                self.connection.execute("CREATE INDEX IF NOT EXISTS by_key ON records (key)")
                self.connection.execute("CREATE INDEX IF NOT EXISTS by_workload ON records (workload, cost)")
        except sqlite3.Error as error:
            raise TVMError(f"cannot store tuning records in '{self.path}': {error}") from None

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        key, workload = record.measure_str_key(inp), record.measure_str_key(inp, False)
        cost = sum(res.costs) / len(res.costs) if res.error_no == 0 else None
        try:
            with self.connection:
                if not extend:
                    self.connection.execute("DELETE FROM records WHERE key = ?", (key,))
                self.connection.execute(
                    "INSERT INTO records (key, workload, cost, line) VALUES (?, ?, ?, ?)",
                    (key, workload, cost, record.encode(inp, res)),
                )
        except sqlite3.Error as error:
            raise TVMError(f"cannot write a tuning record to '{self.path}': {error}") from None

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        query = "SELECT line FROM records WHERE key = ? ORDER BY number"
        results = [found[1] for found in self._decoded(query, (record.measure_str_key(inp),))]
        if get_all:
            return results
        return results[-1] if results else None

    def best(self, inp: MeasureInput) -> tuple[MeasureInput, MeasureResult] | None:
        """Return the fastest record of a workload."""
        query = "SELECT line FROM records WHERE workload = ? AND cost IS NOT NULL ORDER BY cost LIMIT 1"
        return next(self._decoded(query, (record.measure_str_key(inp, False),)), None)

    def filter(
        self, func: Callable[[MeasureInput, list[MeasureResult]], bool]
    ) -> list[tuple[MeasureInput, list[MeasureResult]]]:
        """Return the inputs with all their measurements for which ``func`` returns true."""
        groups: dict[str, tuple[MeasureInput, list[MeasureResult]]] = {}
        for inp, res in self:
            groups.setdefault(record.measure_str_key(inp), (inp, []))[1].append(res)
        return [group for group in groups.values() if func(*group)]

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        return self._decoded("SELECT line FROM records ORDER BY number", ())

    def _decoded(self, query: str, values: tuple) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        for (line,) in self.connection.execute(query, values).fetchall():
            found = record.decode(line)
            if found is not None:
                yield found

    def flush(self) -> None:
        """Remove all records."""
        with self.connection:
            self.connection.execute("DELETE FROM records")

    def close(self) -> None:
        self.connection.close()


class DummyDatabase(SQLiteDatabase):
    """Records in memory."""

    def __init__(self):
        super().__init__(":memory:")
