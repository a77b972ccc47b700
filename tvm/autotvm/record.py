"""Tuning records, one JSON object per line.

A line contains ``input`` (target, task, arguments), ``config``, ``result``, versions, and the processor on which it was
measured; ``final`` marks the winner of a task. Lines that begin with ``#`` are comments. An incomplete last line,
caused by a crash, is ignored by readers and removed before appending.
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import json
import math
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .._ffi.libinfo import __version__
from ..error import TVMError
from ..runtime.measure.record_file import RecordFile
from ..target import Target
from .measure.measure import MeasureInput, MeasureResult
from .task.dispatcher import ApplyHistoryBest, Unread, keep_best
from .task.space import ConfigEntity
from .task.task import Task
from .utils import logger

AUTOTVM_LOG_VERSION = 0.2
_FAILED_COST = 1e9


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A string that is equal for equal measurement inputs.

    Parameters
    ----------
    inp : MeasureInput
        The measurement input.
    include_config : bool, optional
        Whether the string includes the configuration.

    Returns
    -------
    str
    """
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


@functools.lru_cache(maxsize=64)
def _made_on(target_text: str) -> dict[str, Any] | None:
    from ..target.cpu import resolve_cpu

    target = Target(target_text)
    if not target.features.is_cpu:
        return None
    cpu = resolve_cpu(target)
    return {"cpu": cpu.cpu, "features": sorted(cpu.enabled), "cores": cpu.cores}


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """A line of a record file.

    Parameters
    ----------
    inp : MeasureInput
        The measurement input.
    result : MeasureResult
        The measurement result.
    protocol : str, optional
        The format; only "json" is supported.

    Returns
    -------
    str

    Raises
    ------
    RuntimeError
        The protocol is not "json".
    """
    if protocol != "json":
        raise RuntimeError(f"records can only be written as json; reading '{protocol}' would execute code")
    costs = [float(c) for c in result.costs] if result.error_no == 0 else [_FAILED_COST]
    row: dict[str, Any] = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), float(result.all_cost), float(result.timestamp)],
        "version": AUTOTVM_LOG_VERSION,
        # A record that was read keeps its origin.
        "tvm_version": inp.tvm_version or __version__,
    }
    made_on = inp.made_on if inp.made_on is not None else _made_on(str(inp.target))
    if made_on:
        row["made_on"] = made_on
    if inp.final:
        row["final"] = True
    return json.dumps(row)


def is_made_here(inp: MeasureInput, target: Any) -> bool:
    """Return whether a record is for this target on this kind of processor; a record without this information is."""
    here = _made_on(str(target)) or {}
    return str(inp.target) == str(target) and (not inp.made_on or inp.made_on.get("cpu") == here.get("cpu"))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    return value


@functools.lru_cache(maxsize=256)
def _target(text: str) -> Target:
    return Target(text.replace("-target", "-mtriple"))


def _result(costs: list[Any], error_no: int, all_cost: float, timestamp: float) -> MeasureResult:
    seconds = tuple(float(c) for c in costs)
    if not seconds or not all(0 <= c < math.inf for c in seconds):
        raise ValueError(f"the costs of a record must be seconds, got {costs}")
    return MeasureResult(tuple(costs), int(error_no), float(all_cost), float(timestamp))


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult] | None:
    """A line converted to (input, result), or None for a line of a version that is no longer supported.

    Parameters
    ----------
    row : str
        The line.
    protocol : str, optional
        The format; only "json" is supported.

    Returns
    -------
    tuple[MeasureInput, MeasureResult]

    Raises
    ------
    RuntimeError
        The protocol is not "json".
    """
    if protocol != "json":
        raise RuntimeError(f"records can only be read as json; '{protocol}' could execute code from the file")
    line = json.loads(row)
    if "v" in line and line["v"] == 0.1:
        return None
    target_text, task_name, task_args, task_kwargs = line["input"]
    task = Task(str(task_name), _tuples(task_args))
    task.kwargs = dict(task_kwargs)
    hash(task.workload)
    config = ConfigEntity.from_json_dict(line["config"])
    result = _result(*line["result"])
    config.cost = sum(result.costs) / len(result.costs)
    task.target = _target(str(target_text))
    inp = MeasureInput(task.target, task, config)
    inp.made_on = line["made_on"] if isinstance(line.get("made_on"), dict) else {}
    inp.tvm_version = str(line.get("tvm_version") or "")
    inp.final = line.get("final") is True
    return inp, result


def load_from_buffer(file: Iterable[str], unread: Unread | None = None) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of an open file. Lines that are not records are counted in ``unread``, or reported in one warning.

    Parameters
    ----------
    file : Iterable[str]
        The lines.
    unread : Unread, optional
        The counter of lines that are not records.

    Returns
    -------
    Iterator[tuple[MeasureInput, MeasureResult]]
    """
    counts = unread if unread is not None else Unread()
    for row in file:
        row = row.strip()
        if not row or row.startswith("#"):
            continue
        try:
            found = decode(row)
        except Exception:
            # An invalid line does not affect the other lines.
            counts.no_records += 1
            continue
        if found is not None:
            yield found
        else:
            counts.old_records += 1
    if unread is None and counts.describe():
        logger.warning("tuning records: %s", "; ".join(counts.describe()))


def load_from_file(
    filepath: str | os.PathLike, unread: Unread | None = None
) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a file.

    Parameters
    ----------
    filepath : str | os.PathLike
        The path.
    unread : Unread, optional
        The counter of lines that are not records.

    Returns
    -------
    Iterator[tuple[MeasureInput, MeasureResult]]

    Raises
    ------
    TVMError
        The path is a device file.
    """
    if os.path.exists(filepath) and stat.S_ISCHR(os.stat(filepath).st_mode):
        # Device files such as /dev/zero never end.
        raise TVMError(f"cannot read tuning records from '{filepath}': it is a device, not a file")
    with open(filepath, encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file, unread)


def iterate_records(records: Any, unread: Unread | None = None) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Records of a path or an open file, as pairs (input, result), or the pairs of any iterable.

    Parameters
    ----------
    records : str, file or iterable
        A path, an open file, or pairs.
    unread : Unread, optional
        The counter of lines that are not records.

    Returns
    -------
    Iterator[tuple[MeasureInput, MeasureResult]]
    """
    if isinstance(records, (str, os.PathLike)):
        yield from load_from_file(records, unread)
    elif isinstance(records, io.TextIOBase):
        yield from load_from_buffer(records, unread)
    elif isinstance(records, tuple) and records and isinstance(records[0], MeasureInput):
        inp, result = records
        yield inp, result
    else:
        for item in records:
            yield from iterate_records(item, unread)


def split_workload(in_file: str, clean: bool = True) -> None:
    """Write the records of each workload to a separate file, ``<in_file>_<n>.log``.

    Parameters
    ----------
    in_file : str
        The file to read.
    clean : bool, optional
        Whether to keep only one record of each configuration.
    """
    rows: dict[str, list[tuple[MeasureInput, MeasureResult]]] = {}
    for inp, res in load_from_file(in_file):
        rows.setdefault(measure_str_key(inp, False), []).append((inp, res))
    for number, pairs in enumerate(rows.values()):
        if clean:
            seen: dict[str, tuple[MeasureInput, MeasureResult]] = {}
            for inp, res in pairs:
                seen.setdefault(measure_str_key(inp), (inp, res))
            pairs = list(seen.values())
        RecordFile(f"{os.path.splitext(in_file)[0]}_{number}.log").append(encode(i, r) for i, r in pairs)


def pick_best(in_file: str | os.PathLike, out_file: str | os.PathLike) -> None:
    """Keep the best record of each workload, including the records that ``out_file`` already contains.

    Parameters
    ----------
    in_file : str | os.PathLike
        The file to read.
    out_file : str | os.PathLike
        The file to write.
    """
    sources: list[Iterable] = [load_from_file(out_file)] if os.path.isfile(out_file) else []
    sources.append(load_from_file(in_file))
    by_key: dict = {}
    by_model: dict = {}
    latest = {measure_str_key(inp): (inp, res) for inp, res in itertools.chain(*sources) if res.error_no == 0}
    for inp, res in latest.values():
        keep_best(by_key, by_model, inp, res)
    best = {encode(inp, res): None for inp, res in (*by_model.values(), *by_key.values())}
    part = f"{os.fspath(out_file)}.part{os.getpid()}"
    RecordFile(part).append(best)
    os.replace(part, out_file)
    logger.info("%d best records are in %s", len(best), out_file)


def _print_records(path: str, begin: int, end: int, show_loops: bool, show_code: bool) -> None:
    from ..driver.build_module import build, lower

    for inp, result in itertools.islice(load_from_file(path), begin, end):
        print(inp.target, inp.task, inp.config, result)
        if not (show_loops or show_code):
            continue
        assert inp.target is not None
        with inp.target:
            schedule, args = inp.task.instantiate(inp.config)
            if show_loops:
                print(lower(schedule, args, simple_mode=True))
            if show_code:
                print(build(schedule, args).get_source())


def main() -> None:
    """``python -m tvm.autotvm.record``."""
    parser = argparse.ArgumentParser(description="read tuning records, keep the best, or split them by workload")
    parser.add_argument("--mode", choices=["read", "pick", "split"], default="read")
    parser.add_argument("--i", required=True, help="record file to read")
    parser.add_argument("--o", default=None, help="record file to write")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int, default=5)
    parser.add_argument("--ir", action="store_true", help="print the loops of each record")
    parser.add_argument("--code", action="store_true", help="print the code of each record")
    args = parser.parse_args()
    if args.mode == "pick":
        pick_best(args.i, args.o or args.i + ".best.log")
    elif args.mode == "split":
        split_workload(args.i)
    else:
        _print_records(args.i, args.begin, args.end, args.ir, args.code)


__all__ = [
    "ApplyHistoryBest",
    "RecordFile",
    "decode",
    "encode",
    "iterate_records",
    "load_from_buffer",
    "load_from_file",
    "measure_str_key",
    "pick_best",
    "split_workload",
]

if __name__ == "__main__":
    sys.exit(main())
