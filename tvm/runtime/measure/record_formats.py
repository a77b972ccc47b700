"""Record formats of candidates: AutoTVM templates and auto-scheduler schedules.

A record identifies a candidate of a task and stores its measured times. The table of formats is indexed by a field that
only records of one format have.
"""

from __future__ import annotations

import json
from typing import Any

from .record_file import RECORD_BEGIN


class TemplateRecords:
    """AutoTVM records: ``{"input": ..., "config": ..., "result": ...}``."""

    words, begin, failed_cost = "candidates of templates", RECORD_BEGIN, 1e9

    def identity(self, record: dict[str, Any]) -> tuple[Any, Any]:
        """Return the identity of the task and of the candidate."""
        return record["input"], record["config"].get("entity")

    def title(self, record: dict[str, Any]) -> str:
        return str(record["input"][1])

    def line(
        self,
        record: dict[str, Any],
        costs: list[float],
        error_no: int,
        seconds: float,
        timestamp: float,
        device: str | None = None,
    ) -> str:
        """Return the record line of a measurement on a device with the given name."""
        made_on = {} if device is None else {"made_on": {"device": device}}
        return json.dumps({**record, **made_on, "result": [costs, error_no, seconds, timestamp]})


class SearchRecords:
    """Ansor records: ``{"i": [task, [[], steps]], "r": ..., "v": ...}``. Records of the untuned code have no state and
    are written as comments, which other readers skip."""

    words, begin, failed_cost = "candidates found by search", '{"i": ', 1e10

    def identity(self, record: dict[str, Any]) -> tuple[Any, Any]:
        task, state = record["i"]
        return task, None if state is None else state[1]

    def title(self, record: dict[str, Any]) -> str:
        return str(record["i"][0][0])

    def line(
        self,
        record: dict[str, Any],
        costs: list[float],
        error_no: int,
        seconds: float,
        timestamp: float,
        device: str | None = None,
    ) -> str:
        row = {"i": record["i"], "r": [costs, error_no, seconds, int(timestamp)], "v": record["v"]}
        return json.dumps(row) if record["i"][1] is not None else f"# {json.dumps({**row, 'final': False})}"


Records = TemplateRecords | SearchRecords
FORMATS: dict[str, Records] = {"input": TemplateRecords(), "i": SearchRecords()}


def format_of(record: dict[str, Any]) -> Records:
    """Return the format of a record; raise a KeyError if it has none."""
    return next((made for field, made in FORMATS.items() if field in record), FORMATS["input"])


def key_of(record: dict[str, Any]) -> str:
    """Return a key that identifies the candidate and its task."""
    return json.dumps(format_of(record).identity(record))


__all__ = ["FORMATS", "Records", "SearchRecords", "TemplateRecords", "format_of", "key_of"]
