"""Measuring candidates of a tuner that were built elsewhere: ``python -m tvm.runtime.measure_files FOLDER``.

``tvmc tune --build-only FOLDER`` makes the folder; only the runtime is needed here. ``candidates.json`` has one JSON
object on a line: the library's file, its arguments, how to measure, the record it will be, and the file with what the
arguments hold after a run, where results are to be compared. Results are records as ``tvmc compile --tuning-records``
reads them, appended as they are made; candidates that have one are left out, so the same command goes on after it was
stopped. Candidates run in a worker process: one that crashes or hangs costs only itself.
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
# Numbers of the tuners' MeasureErrorNo.
RUNTIME_DEVICE, WRONG_ANSWER, RUN_TIMEOUT = 4, 5, 7
# How far results may be apart, of each number and of the largest: sums of short numbers depend on their order.
_TOLERANCES = {"float16": (1e-2, 2e-2), "bfloat16": (5e-2, 1e-1)}
_WORKER = "tvm.runtime.measure.worker"
# What a line of the list may say about measuring. Other fields of a request are not a file's to set: a package is
# imported by its name.
MEASURE_OPTIONS = frozenset({"number", "repeat", "min_repeat_ms", "cooldown", "slow_factor", "flush"})
_INTERRUPTED = 130


class Candidate(NamedTuple):
    """A line of the list."""

    file: str
    entry: str
    args: list[tuple[list[int], str]]
    device: int
    record: dict[str, Any]
    measure: dict[str, Any]
    # The file with what arguments hold after a run, and which arguments these are.
    outputs: str | None
    compared: list[int]
    flop: float
    # The shapes in which the function takes its arguments where it has them in another order.
    shapes: list[list[int]] | None = None
    # Further kernels that run after it, by their files and arguments; their times are added.
    more: tuple[tuple[str, list[tuple[list[int], str]]], ...] = ()
    title: str = ""
    # In which order the function takes the elements of its arguments, where that is not the task's.
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
    """A line of the list; a ValueError says why it is none."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("it is no object")
    missing = [name for name in ("file", "entry", "args", "device", "record") if name not in row]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
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
        raise ValueError(f"its {type(error).__name__}: {error}") from None
    for name in (row["file"], *(file for file, _ in more), *([outputs] if outputs is not None else [])):
        if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is no name of a file in the folder")
    unknown = sorted(set(measure) - MEASURE_OPTIONS)
    if unknown:
        raise ValueError(f"its way of measuring has no '{unknown[0]}'")
    if any(not 0 <= i < len(args) for i in compared):
        raise ValueError(f"it has {len(args)} arguments and compares {compared}")
    if shapes and [math.prod(shape) for shape in shapes] != [math.prod(shape) for shape, _ in args]:
        raise ValueError("its arguments do not have the sizes of its shapes")
    return Candidate(row["file"], str(row["entry"]), args, device, row["record"], measure, outputs, compared, flop,
                     shapes or None, more, title, layouts)


def _arguments(values: Any) -> list[tuple[list[int], str]]:
    return [([int(d) for d in shape], str(dtype)) for shape, dtype in values]


def read_candidates(folder: str, complain: bool = True) -> list[Candidate]:
    """The list of a folder, without lines that cannot be read."""
    found = []
    for number, line in _lines(os.path.join(folder, LIST)):
        try:
            found.append(read_candidate(line))
        except ValueError as error:
            if complain:
                print(f"{LIST}: line {number} is left out, {error}", file=sys.stderr)
    return found


def known_records(path: str) -> set[str]:
    """Keys of the records of a file. Lines that are none say nothing."""
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
    """The arguments that stand one after the other in ``data``."""
    found, at = [], 0
    for shape, dtype in info:
        size = math.prod(shape) * numpy_dtype(dtype).itemsize
        found.append(data[at : at + size])
        at += size
    return found


def difference(info: Sequence[tuple[Sequence[int], str]], got: bytes, wanted: bytes) -> str | None:
    """How arguments after a run differ from those wanted; None if they do not."""
    import numpy as np

    for (_, dtype), *both in zip(info, pieces(info, got), pieces(info, wanted)):
        a, b = (np.frombuffer(data, dtype=numpy_dtype(dtype)).astype("float64") for data in both)
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-6)
        relative, absolute = _TOLERANCES.get(dtype, (1e-3, 1e-4))
        if not np.allclose(a, b, rtol=relative, atol=absolute * scale):
            return f"results differ from the plain schedule's by up to {float(np.abs(a - b).max()):g}"
    return None


class Count(NamedTuple):
    """What came of a folder: candidates measured, those of them that failed, and those whose file is not there."""

    measured: int = 0
    failed: int = 0
    missing: int = 0


class Folder:
    """A folder that is being measured. ``options`` replace what its list says about measuring."""

    def __init__(self, path: str, output: str | None = None, timeout: float = 30.0, **options: Any):
        self.path, self.timeout, self.options = path, timeout, options
        self.records = output or os.path.join(path, RECORDS)
        self.best: dict[str, float] = {}
        self.reference: tuple[str, bytes] = ("", b"")
        self.count = Count()

    def todo(self) -> list[Candidate]:
        """What has no record yet and whose file is there."""
        known = known_records(self.records) | known_records(os.path.join(self.path, RECORDS))
        waiting = [c for c in read_candidates(self.path) if key_of(c.record) not in known]
        absent = {c.file: [n for n in c.files if not os.path.isfile(os.path.join(self.path, n))] for c in waiting}
        found = [c for c in waiting if not absent[c.file]]
        self.count = self.count._replace(missing=len(waiting) - len(found))
        if len(found) < len(waiting):
            first = next(names[0] for names in absent.values() if names)
            print(f"{self.count.missing} candidates are left out: their file is not there ({first})", file=sys.stderr)
        return found

    def measure(self, seconds: float | None = None) -> Count:
        """Measure what has no record yet; begin no candidate after so many seconds."""
        todo = self.todo()
        # A file that cannot be written to is found out before anything is measured.
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
            raise TVMError(f"the candidates are for a device this machine does not have ({name})")

    def _record_file(self, format: Records) -> RecordFile:
        return RecordFile(self.records, format.begin)

    def _measure_one(self, pool: Pool, candidate: Candidate) -> tuple[str, list[float]]:
        """Measure a candidate and write its record: what went wrong, or its seconds."""
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
        """The number of what went wrong and its words, the seconds, and the name of the device."""
        # The parts of a candidate are not held to the time of whole ones.
        best = None if candidate.more else self.best.get(candidate.task)
        costs, device = [], None
        for place, (file, args) in enumerate([(candidate.file, candidate.args), *candidate.more]):
            message = request(
                args, candidate.device, candidate.entry, best=best,
                outputs=candidate.outputs is not None and place == 0, filename=os.path.join(self.path, file),
                shapes=candidate.shapes if place == 0 else None, **{**candidate.measure, **self.options},
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
        """How results differ from those of the plain schedule, where the folder has them."""
        if candidate.outputs is None:
            return None
        if self.reference[0] != candidate.outputs:
            try:
                with open(os.path.join(self.path, candidate.outputs), "rb") as file:
                    self.reference = (candidate.outputs, file.read())
            except OSError:
                print(f"{candidate.outputs} is not there: results of its task are not compared", file=sys.stderr)
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
    """One line that stays in place on a terminal; elsewhere one line for each task when it is done."""

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
    """Measure what has no record yet. ``options`` (number, repeat, min_repeat_ms) replace what the list says."""
    return Folder(folder, output, timeout, **options).measure(seconds)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tvm.runtime.measure_files", description="Measure built candidates.")
    parser.add_argument("folder", help="what tvmc tune --build-only made")
    parser.add_argument("-o", "--output", help=f"the file to append records to (default: {RECORDS} in the folder)")
    parser.add_argument("--number", type=int, help="runs whose mean is one time (default: as the list says)")
    parser.add_argument("--repeat", type=int, help="times of a candidate (default: as the list says)")
    parser.add_argument("--min-repeat-ms", type=int, help="each time is of runs that take this long")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds of a candidate at most (default: 30)")
    parser.add_argument("--seconds", type=float, help="begin no candidate after this many seconds")
    args = parser.parse_args(argv)
    if not os.path.isfile(os.path.join(args.folder, LIST)):
        parser.error(f"'{args.folder}' is no folder of candidates: there is no {LIST} in it")
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
        print(f"stopped; {folder.records} has the records, and the same command continues", file=sys.stderr)
        return _INTERRUPTED
    count = folder.count
    print(f"{count.measured} candidates measured, {count.failed} of them failed; records: {folder.records}")
    return 0


__all__ = ["Candidate", "Count", "Folder", "difference", "key_of", "known_records", "main", "measure_folder", "pieces",
           "read_candidates"]
