"""Tuning records in Ansor's format: JSON lines with one measurement each."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ..error import TVMError
from ..runtime.measure.record_file import RecordFile
from ..target import Target
from .measure import MeasureCallback, MeasureInput, MeasureResult
from .search_task import SearchTask, kind_in
from .state import StateObject
from .steps import from_json, to_json
from .utils import calc_workload_dis_factor, decode_workload_key

VERSION = "v0.6"
RECORD_BEGIN = '{"i": '


class NoRecord(TVMError):
    """A line is not a record of the auto-scheduler."""


# -- records -------------------------------------------------------------------------------------------------------


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """A measurement as a line without its line break.

    Parameters
    ----------
    inp : MeasureInput
        The state and its task.
    res : MeasureResult
        Its measurement.

    Returns
    -------
    str
        The line.
    """
    row = {
        "i": [inp.task.to_json(), [[], to_json(inp.state.transform_steps)]],
        "r": [[float(cost) for cost in res.costs], res.error_no, res.all_cost, int(res.timestamp)],
        "v": VERSION,
    }
    return json.dumps(row)


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """The measurement in a line.

    Parameters
    ----------
    record : str
        The line.

    Returns
    -------
    tuple
        The MeasureInput and the MeasureResult.

    Raises
    ------
    NoRecord
        The line is not a record.
    """
    try:
        row = json.loads(record)
    except ValueError as error:
        raise NoRecord(f"a record must be a JSON object, got {_short(record)} ({error})") from None
    if not isinstance(row, dict) or set(row) != {"i", "r", "v"}:
        raise NoRecord(f"a record of the auto-scheduler must have the keys i, r and v, got {_short(record)}")
    try:
        task, (_, steps) = row["i"]
        costs, error_no, all_cost, timestamp = row["r"]
        inp = MeasureInput(SearchTask.from_json(task), StateObject((), tuple(from_json(step) for step in steps)))
        return inp, MeasureResult([float(c) for c in costs], int(error_no), "", float(all_cost), int(timestamp))
    except (TypeError, ValueError) as error:
        raise NoRecord(f"invalid field in a record: {error}; {_short(record)}") from None


def is_comment(line: str) -> bool:
    """Whether a line of a record file is a comment.

    Parameters
    ----------
    line : str
        The line.

    Returns
    -------
    bool
        True for a comment.
    """
    return not line.strip() or line[0] in "# "


def _short(text: str) -> str:
    return text if len(text) < 80 else text[:77] + "..."


# -- files ---------------------------------------------------------------------------------------------------------


class RecordToFile(MeasureCallback):
    """A callback that appends each measurement to a file.

    Parameters
    ----------
    filename : str | os.PathLike
        The record file.
    """

    def __init__(self, filename: str | os.PathLike = "auto_scheduler_tuning.json"):
        self.filename = os.fspath(filename)
        self._file = RecordFile(filename, RECORD_BEGIN)
        # Opening the file now detects a file that cannot be written before anything is measured.
        self._file.append(())

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self._file.append(dump_record_to_string(inp, res) for inp, res in zip(inputs, results))


class RecordReader:
    """The records of a file, in order.

    Parameters
    ----------
    filename : str | os.PathLike
        The record file.
    """

    def __init__(self, filename: str | os.PathLike):
        if not os.path.exists(filename):
            raise TVMError(f"record file '{os.fspath(filename)}' does not exist")
        self.filename = os.fspath(filename)

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        with open(self.filename, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if is_comment(line):
                    continue
                try:
                    yield load_record_from_string(line)
                except NoRecord as error:
                    if not line.endswith("\n"):
                        # A crash truncated the last line.
                        return
                    raise NoRecord(f"{self.filename}, line {number}: {error}") from None

    def check_workload_key(self, inputs: Sequence[MeasureInput]) -> None:
        """Check that the workloads of inputs are registered.

        Parameters
        ----------
        inputs : list of MeasureInput
            The inputs, such as those of ``read_lines``.

        Raises
        ------
        TVMError
            The function that creates the computation of an input is not registered in this process.
        """
        for inp in inputs:
            inp.task.compute_dag  # noqa: B018

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """At most ``max_lines`` records after the first ``skip_lines``.

        Parameters
        ----------
        max_lines : int, optional
            The maximum number of records; all by default, or if it is negative.
        skip_lines : int, optional
            The number of records to skip.

        Returns
        -------
        tuple of list
            The inputs, and the results.

        Raises
        ------
        TVMError
            A line in the range is not a record.
        """
        stop = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        rows = list(islice(self, skip_lines, stop))
        return [inp for inp, _ in rows], [res for _, res in rows]


def load_records(filename: str | os.PathLike) -> list[tuple[MeasureInput, MeasureResult]]:
    """All records of a file.

    Parameters
    ----------
    filename : str | os.PathLike
        The record file.

    Returns
    -------
    list of tuple
        The MeasureInput and the MeasureResult of each.
    """
    return list(RecordReader(filename))


def save_records(filename: str | os.PathLike, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
    """Append measurements to a file.

    Parameters
    ----------
    filename : str | os.PathLike
        The record file.
    inputs : list of MeasureInput
        The states.
    results : list of MeasureResult
        Their measurements.
    """
    RecordFile(filename, RECORD_BEGIN).append(dump_record_to_string(inp, res) for inp, res in zip(inputs, results))


def load_best_record(
    filename: str | os.PathLike, workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """The fastest record of a workload for a kind of target. With ``include_compatible``, records of other sizes are
    also considered if their split lengths divide the extents; their times are multiplied by the ratio of the sizes.

    Parameters
    ----------
    filename : str | os.PathLike
        The record file.
    workload_key : str, optional
        The workload; any by default.
    target : Target or str, optional
        A target of the same kind; any by default.
    include_compatible : bool
        Whether to include records of other sizes.

    Returns
    -------
    tuple
        The MeasureInput and the MeasureResult, both None if there is no record.
    """
    kind = kind_in(str(Target(target))) if target is not None else None
    best: tuple[MeasureInput | None, MeasureResult | None] = (None, None)
    least = math.inf
    for inp, res in RecordReader(filename):
        if res.error_no != 0 or kind is not None and inp.task.target_kind != kind:
            continue
        cost = res.mean_cost
        if workload_key is not None and inp.task.workload_key != workload_key:
            if not include_compatible:
                continue
            cost *= calc_workload_dis_factor(
                decode_workload_key(workload_key), decode_workload_key(inp.task.workload_key)
            )
        if cost < least:
            least, best = cost, (inp, res)
    return best


def distill_record_file(in_file: str | os.PathLike, out_file: str | os.PathLike) -> None:
    """Keep the fastest record of each workload and target; an existing ``out_file`` is merged.

    Parameters
    ----------
    in_file : str | os.PathLike
        The record file.
    out_file : str | os.PathLike
        The file to write.
    """
    best: dict[tuple[str, str], tuple[MeasureInput, MeasureResult]] = {}
    for file in (in_file, *([out_file] if os.path.isfile(out_file) else [])):
        for inp, res in RecordReader(file):
            key = (inp.task.workload_key, inp.task.target_text)
            if res.error_no == 0 and (key not in best or res.mean_cost < best[key][1].mean_cost):
                best[key] = inp, res
    lines = "".join(dump_record_to_string(inp, res) + "\n" for inp, res in best.values())
    with open(f"{os.fspath(out_file)}.part", "w", encoding="utf-8") as file:
        file.write(lines)
    os.replace(f"{os.fspath(out_file)}.part", out_file)


__all__ = [
    "NoRecord",
    "RecordReader",
    "RecordToFile",
    "distill_record_file",
    "dump_record_to_string",
    "is_comment",
    "load_best_record",
    "load_record_from_string",
    "load_records",
    "save_records",
]
