"""The records that candidates of a folder become: those of templates, and those of schedules found by search.

A record says which candidate of which task it is, and has a place for what was measured. The table is by the field that
only records of one format have.
"""

from __future__ import annotations

import json
from typing import Any

from .record_file import RECORD_BEGIN


class TemplateRecords:
    """AutoTVM's: ``{"input": ..., "config": ..., "result": ...}``."""

    words, begin, failed_cost = "candidates of templates", RECORD_BEGIN, 1e9

    def identity(self, record: dict[str, Any]) -> tuple[Any, Any]:
        """The task, and which candidate of it."""
        return record["input"], record["config"].get("entity")

    def title(self, record: dict[str, Any]) -> str:
        return str(record["input"][1])

    def line(
        self, record: dict[str, Any], costs: list[float], error_no: int, seconds: float, timestamp: float,
        device: str | None = None,
    ) -> str:
        """The record of a measurement, on a device of that name."""
        made_on = {} if device is None else {"made_on": {"device": device}}
        return json.dumps({**record, **made_on, "result": [costs, error_no, seconds, timestamp]})


class SearchRecords:
    """Ansor's: ``{"i": [task, [[], steps]], "r": ..., "v": ...}``. Those of the code without tuning have no state, and
    are comments, which other readers skip."""

    words, begin, failed_cost = "candidates found by search", '{"i": ', 1e10

    def identity(self, record: dict[str, Any]) -> tuple[Any, Any]:
        task, state = record["i"]
        return task, None if state is None else state[1]

    def title(self, record: dict[str, Any]) -> str:
        return str(record["i"][0][0])

    def line(
        self, record: dict[str, Any], costs: list[float], error_no: int, seconds: float, timestamp: float,
        device: str | None = None,
    ) -> str:
        row = {"i": record["i"], "r": [costs, error_no, seconds, int(timestamp)], "v": record["v"]}
        return json.dumps(row) if record["i"][1] is not None else f"# {json.dumps({**row, 'final': False})}"


Records = TemplateRecords | SearchRecords
FORMATS: dict[str, Records] = {"input": TemplateRecords(), "i": SearchRecords()}


def format_of(record: dict[str, Any]) -> Records:
    """The format of a record; a KeyError where it has none."""
    return next((made for field, made in FORMATS.items() if field in record), FORMATS["input"])


def key_of(record: dict[str, Any]) -> str:
    """The same for the same candidate of the same task."""
    return json.dumps(format_of(record).identity(record))


__all__ = ["FORMATS", "Records", "SearchRecords", "TemplateRecords", "format_of", "key_of"]
