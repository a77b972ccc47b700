"""Measures tuning candidates that were built on another machine: ``python -m tvm.runtime.measure_files FOLDER``.

``tvmc tune --build-only FOLDER`` creates the folder; measuring needs only the runtime. ``candidates.json`` contains one
JSON object per line: the library file, its arguments, the measurement options, the future tuning record, and a file
with the expected contents of the arguments after a run, if outputs are compared. Results are appended as tuning
records, which ``tvmc compile --tuning-records`` reads. Candidates that already have a record are skipped, so the same
command continues an interrupted run. Candidates run in a worker process, so a crash or hang affects only one candidate.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...error import TVMError
from ..ndarray import numpy_dtype
from .record_file import RecordFile
from .record_formats import FORMATS, Records, format_of, key_of
from .worker import request
from .worker_pool import Failure, Job, Pool

LIST, RECORDS = "candidates.json", "records.json"
CANDIDATE_BEGIN = '{"file": '
# Values of the tuners' MeasureErrorNo.
RUNTIME_DEVICE, WRONG_ANSWER, RUN_TIMEOUT = 4, 5, 7
# Relative tolerances of outputs, of each element and of the maximum: rounding depends on the order of summation.
_TOLERANCES = {"float16": (1e-2, 2e-2), "bfloat16": (5e-2, 1e-1)}
_WORKER = "tvm.runtime.measure.worker"
# The measurement options that a line of the list may contain. A file must not set other request fields, such as a
# package, which is imported by its name.
# imported by its name.
MEASURE_OPTIONS = frozenset({"number", "repeat", "min_repeat_ms", "cooldown", "slow_factor", "flush"})
_INTERRUPTED = 130


class Candidate(NamedTuple):
    """An entry of the list of candidates."""

    file: str
    entry: str
    args: list[tuple[list[int], str]]
    device: int
    record: dict[str, Any]
    measure: dict[str, Any]
    # The file with the expected contents of arguments after a run, and the indices of these arguments.
    outputs: str | None
    compared: list[int]
    flop: float
    # The shapes of the function's arguments, if they differ from those of the task.
    shapes: list[list[int]] | None = None
    # Further kernels that run afterwards, with their files and arguments; their times are added.
    more: tuple[tuple[str, list[tuple[list[int], str]]], ...] = ()
    title: str = ""
    # The element order of the function's arguments, if it differs from that of the task.
    layouts: str = ""

    @property
    def format(self) -> Records:
        return format_of(self.record)

    @property
    def task(self) -> str:
        return json.dumps(self.format.identity(self.record)[0])

    @property
    def files(self) -> list[str]:
        return [self.file, *(file for file, _ in self.more)]


def read_candidate(line: str) -> Candidate:
    """Parse an entry of the list; raise a ValueError with the reason if it is invalid."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")
    missing = [name for name in ("file", "entry", "args", "device", "record") if name not in row]
    if missing:
        raise ValueError(f"the field {missing[0]} is missing")
    try:
        key_of(row["record"])
        args = _arguments(row["args"])
        shapes = row.get("shapes") and [[int(d) for d in shape] for shape in row["shapes"]]
        more = tuple((part["file"], _arguments(part["args"])) for part in row.get("more", ()))
        title, layouts = str(row.get("title") or ""), str(row.get("layouts") or "")
        measure = dict(row.get("measure", {}))
        outputs, flop = row.get("outputs"), float(row.get("flop") or 0)
        compared = [int(i) for i in row.get("compared", range(len(args)))]
        device = int(row["device"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    for name in (row["file"], *(file for file, _ in more), *([outputs] if outputs is not None else [])):
        if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a file name without a folder")
    unknown = sorted(set(measure) - MEASURE_OPTIONS)
    if unknown:
        raise ValueError(f"unknown measurement option '{unknown[0]}'")
    if any(not 0 <= i < len(args) for i in compared):
        raise ValueError(f"it has {len(args)} arguments but compares arguments {compared}")
    if shapes and [math.prod(shape) for shape in shapes] != [math.prod(shape) for shape, _ in args]:
        raise ValueError("the sizes of the arguments do not match the shapes")
    return Candidate(
        row["file"],
        str(row["entry"]),
        args,
        device,
        row["record"],
        measure,
        outputs,
        compared,
        flop,
        shapes or None,
        more,
        title,
        layouts,
    )


def _arguments(values: Any) -> list[tuple[list[int], str]]:
    return [([int(d) for d in shape], str(dtype)) for shape, dtype in values]


def read_candidates(folder: str, complain: bool = True) -> list[Candidate]:
    """Read the entries of a folder's list; skip invalid lines."""
    found = []
    for number, line in _lines(os.path.join(folder, LIST)):
        try:
            found.append(read_candidate(line))
        except ValueError as error:
            if complain:
                print(f"{LIST}: line {number} is skipped: {error}", file=sys.stderr)
    return found


def known_records(path: str) -> set[str]:
    """Return the keys of the records in a file; skip lines that are not records."""
    known = set()
    for _, line in _lines(path, comments=True):
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            known.add(key_of(json.loads(line.removeprefix("# "))))
    return known


def _lines(path: str, comments: bool = False) -> Iterator[tuple[int, str]]:
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and (comments or not line.startswith("#")):
                    yield number, line


def pieces(info: Sequence[tuple[Sequence[int], str]], data: bytes) -> list[bytes]:
    """Split ``data`` into the arguments that it contains one after another."""
    found, at = [], 0
    for shape, dtype in info:
        size = math.prod(shape) * numpy_dtype(dtype).itemsize
        found.append(data[at : at + size])
        at += size
    return found


def difference(info: Sequence[tuple[Sequence[int], str]], got: bytes, wanted: bytes) -> str | None:
    """Describe how the arguments after a run differ from the expected ones; None if they match."""
    import numpy as np

    for (_, dtype), *both in zip(info, pieces(info, got), pieces(info, wanted)):
        a, b = (np.frombuffer(data, dtype=numpy_dtype(dtype)).astype("float64") for data in both)
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-6)
        relative, absolute = _TOLERANCES.get(dtype, (1e-3, 1e-4))
        if not np.allclose(a, b, rtol=relative, atol=absolute * scale):
            return f"results differ from the plain schedule's by up to {float(np.abs(a - b).max()):g}"
    return None


class Count(NamedTuple):
    """Counts of a run: measured candidates, failed ones among them, and candidates whose library file is missing."""

    measured: int = 0
    failed: int = 0
    missing: int = 0


class Folder:
    """A folder of candidates to be measured. ``options`` override the measurement options of its list."""

    def __init__(self, path: str, output: str | None = None, timeout: float = 30.0, **options: Any):
        self.path, self.timeout, self.options = path, timeout, options
        self.records = output or os.path.join(path, RECORDS)
        self.best: dict[str, float] = {}
        self.reference: tuple[str, bytes] = ("", b"")
        self.count = Count()

    def todo(self) -> list[Candidate]:
        """Return the candidates that have no record yet and whose library file exists."""
        known = known_records(self.records) | known_records(os.path.join(self.path, RECORDS))
        waiting = [c for c in read_candidates(self.path) if key_of(c.record) not in known]
        absent = {c.file: [n for n in c.files if not os.path.isfile(os.path.join(self.path, n))] for c in waiting}
        found = [c for c in waiting if not absent[c.file]]
        self.count = self.count._replace(missing=len(waiting) - len(found))
        if len(found) < len(waiting):
            first = next(names[0] for names in absent.values() if names)
            print(
                f"{self.count.missing} candidates are skipped because their files are missing ({first})",
                file=sys.stderr,
            )
        return found

    def measure(self, seconds: float | None = None) -> Count:
        """Measure the candidates without a record; start no further candidate after ``seconds``."""
        todo = self.todo()
        # Check that the output file is writable before the first measurement.
        self._record_file(todo[0].format if todo else FORMATS["input"]).append(())
        end = float("inf") if seconds is None else time.monotonic() + seconds
        progress = Progress(todo)
        pool = Pool(1, _WORKER) if todo else None
        try:
            for device in dict.fromkeys(c.device for c in todo):
                assert pool is not None
                self._find(pool, device)
            for candidate in todo:
                if time.monotonic() > end:
                    break
                assert pool is not None
                problem, costs = self._measure_one(pool, candidate)
                self.count = self.count._replace(
                    measured=self.count.measured + 1, failed=self.count.failed + bool(problem)
                )
                progress.show(candidate, problem, costs)
        finally:
            progress.end()
            if pool is not None:
                pool.close()
        return self.count

    def _find(self, pool: Pool, device: int) -> None:
        answer = _ask(pool, {"action": "device", "device": (device, 0)}, 120.0)
        if isinstance(answer, Failure) or not answer[0]["exist"]:
            name = answer if isinstance(answer, Failure) else answer[0]["name"]
            raise TVMError(f"this machine does not have the device of the candidates ({name})")

    def _record_file(self, format: Records) -> RecordFile:
        return RecordFile(self.records, format.begin)

    def _measure_one(self, pool: Pool, candidate: Candidate) -> tuple[str, list[float]]:
        """Measure a candidate and write its record; return the error message and the times in seconds."""
        start, format = time.time(), candidate.format
        number, problem, costs, device = self._measured(pool, candidate)
        if problem:
            costs = [format.failed_cost]
        else:
            mean = sum(costs) / len(costs)
            self.best[candidate.task] = min(self.best.get(candidate.task, mean), mean)
        line = format.line(candidate.record, costs, number, time.time() - start, time.time(), device)
        self._record_file(format).append([line])
        return problem, costs

    def _measured(self, pool: Pool, candidate: Candidate) -> tuple[int, str, list[float], str | None]:
        """Return error code, error message, times in seconds, and name of the device."""
        # The time limit of whole candidates does not apply to parts of a candidate.
        best = None if candidate.more else self.best.get(candidate.task)
        costs, device = [], None
        for place, (file, args) in enumerate([(candidate.file, candidate.args), *candidate.more]):
            message = request(
                args,
                candidate.device,
                candidate.entry,
                best=best,
                outputs=candidate.outputs is not None and place == 0,
                filename=os.path.join(self.path, file),
                shapes=candidate.shapes if place == 0 else None,
                **{**candidate.measure, **self.options},
            )
            answer = _ask(pool, message, self.timeout)
            if isinstance(answer, Failure):
                number = RUN_TIMEOUT if answer.kind == "timeout" else RUNTIME_DEVICE
                return number, str(answer) if answer.kind == "error" else f"the candidate {answer}", [], device
            found, outputs = answer
            device = found.get("device", device)
            problem = self._wrong(candidate, outputs) if place == 0 else None
            if problem:
                return WRONG_ANSWER, problem, [], device
            costs.append([float(cost) for cost in found["costs"]])
        return 0, "", [sum(parts) for parts in zip(*costs)], device

    def _wrong(self, candidate: Candidate, got: bytes) -> str | None:
        """Describe how outputs differ from those of the unoptimized schedule, if the folder contains them."""
        if candidate.outputs is None:
            return None
        if self.reference[0] != candidate.outputs:
            try:
                with open(os.path.join(self.path, candidate.outputs), "rb") as file:
                    self.reference = (candidate.outputs, file.read())
            except OSError:
                print(f"{candidate.outputs} is missing: outputs of its task are not compared", file=sys.stderr)
                self.reference = (candidate.outputs, b"")
        wanted, info = self.reference[1], [candidate.args[i] for i in candidate.compared]
        arguments = pieces(candidate.args, got)
        got = b"".join(arguments[i] for i in candidate.compared)
        if len(wanted) != len(got):
            return f"{candidate.outputs} has {len(wanted)} bytes, not {len(got)}" if wanted else None
        return difference(info, got, wanted)


def _ask(pool: Pool, message: dict[str, Any], seconds: float) -> Any:
    box: list[Any] = []
    pool.submit(Job(message, b"", seconds, box.append))
    pool.finish()
    return box[0]


class Progress:
    """Progress output: one line that is updated in place on a terminal, otherwise one line per finished task."""

    def __init__(self, todo: Sequence[Candidate]):
        self.total, self.left = len(todo), [c.task for c in todo]
        self.is_terminal = sys.stdout.isatty()
        self.begin = time.monotonic()
        self.done = self.failed = self.failed_here = self.here = 0
        self.best = float("inf")
        self.width = 0

    def show(self, candidate: Candidate, problem: str, costs: list[float]) -> None:
        self.done, self.here = self.done + 1, self.here + 1
        if problem:
            self.failed, self.failed_here = self.failed + 1, self.failed_here + 1
            self._clear()
            print(f"{candidate.file}: {problem}", file=sys.stderr, flush=True)
        else:
            self.best = min(self.best, sum(costs) / len(costs))
        is_last = self.done == self.total or self.left[self.done] != candidate.task
        if self.is_terminal:
            self._replace(self._text(candidate))
        elif is_last:
            print(self._text(candidate), flush=True)
        if is_last:
            self.here, self.failed_here, self.best = 0, 0, float("inf")

    def _text(self, candidate: Candidate) -> str:
        best = ""
        if self.best < float("inf"):
            speed = f", {candidate.flop / self.best / 1e9:.1f} GFLOPS" if candidate.flop else ""
            best = f", best {self.best * 1e3:.4g} ms{speed}"
        failed = f", {self.failed_here} failed" if self.failed_here else ""
        spent = time.monotonic() - self.begin
        left = spent / self.done * (self.total - self.done)
        name = candidate.title or candidate.format.title(candidate.record)
        return f"[{self.done}/{self.total}] {name}: {self.here} measured{failed}{best}; about {left:.0f} s left"

    def _replace(self, text: str) -> None:
        sys.stdout.write("\r" + text.ljust(self.width))
        sys.stdout.flush()
        self.width = len(text)

    def _clear(self) -> None:
        if self.is_terminal and self.width:
            sys.stdout.write("\r" + " " * self.width + "\r")
            sys.stdout.flush()
            self.width = 0

    def end(self) -> None:
        if self.is_terminal and self.width:
            sys.stdout.write("\n")


def measure_folder(
    folder: str, output: str | None = None, timeout: float = 30.0, seconds: float | None = None, **options: Any
) -> Count:
    """Measure the candidates without a record. ``options`` (number, repeat, min_repeat_ms) override those of the
    list."""
    return Folder(folder, output, timeout, **options).measure(seconds)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tvm.runtime.measure_files", description="Measure built candidates.")
    parser.add_argument("folder", help="folder created by tvmc tune --build-only")
    parser.add_argument("-o", "--output", help=f"the file to append records to (default: {RECORDS} in the folder)")
    parser.add_argument("--number", type=int, help="runs that are averaged for one time (default: as in the list)")
    parser.add_argument("--repeat", type=int, help="times per candidate (default: as in the list)")
    parser.add_argument("--min-repeat-ms", type=int, help="minimum duration of the runs for one time")
    parser.add_argument(
        "--timeout", type=float, default=30.0, help="time limit of a candidate in seconds (default: 30)"
    )
    parser.add_argument("--seconds", type=float, help="start no further candidate after this many seconds")
    args = parser.parse_args(argv)
    if not os.path.isfile(os.path.join(args.folder, LIST)):
        parser.error(f"'{args.folder}' is not a folder of candidates: it contains no {LIST}")
    options = {"number": args.number, "repeat": args.repeat, "min_repeat_ms": args.min_repeat_ms}
    for name, value in options.items():
        if value is not None and value < (0 if name == "min_repeat_ms" else 1):
            parser.error(f"--{name.replace('_', '-')} is too small: {value}")
    folder = Folder(args.folder, args.output, args.timeout, **{n: v for n, v in options.items() if v is not None})
    try:
        folder.measure(args.seconds)
    except TVMError as error:
        print(f"measure_files: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"stopped; {folder.records} contains the records so far; run the same command to continue", file=sys.stderr
        )
        return _INTERRUPTED
    count = folder.count
    print(f"{count.measured} candidates measured, {count.failed} of them failed; records: {folder.records}")
    return 0


__all__ = [
    "Candidate",
    "Count",
    "Folder",
    "difference",
    "key_of",
    "known_records",
    "main",
    "measure_folder",
    "pieces",
    "read_candidates",
]
