"""Measuring candidates of a tuner that were built elsewhere: ``python -m tvm.runtime.measure_files FOLDER``.

``tvm.autotvm.measure.folder.write_candidates`` makes the folder; only the runtime is needed here. Results are records
as ``tvmc compile --tuning-records`` reads them, appended to ``FOLDER/records.json``; candidates that have one are left
out. Each runs in a child process: one that crashes or hangs costs only itself.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

LIST, RECORDS = "candidates.json", "records.json"
# Numbers of autotvm's MeasureErrorNo, and the cost classic records give to what failed.
_RUNTIME_DEVICE, _RUN_TIMEOUT, _FAILED_COST = 4, 7, 1e9
_START_SECONDS = 120.0


def key_of(record: dict[str, Any]) -> str:
    """The same for the same configuration of the same task."""
    return json.dumps([record["input"], record["config"].get("entity")])


def read_lines(path: str) -> Iterator[dict[str, Any]]:
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield json.loads(line)


class Child:
    """A process that measures one candidate after the other, until one of them takes it along."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tvm.runtime.measure_files", "--worker"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self._receive(_START_SECONDS)

    def _receive(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        until, text = time.monotonic() + seconds, b""
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))[0]:
                return {"error": f"the candidate took longer than {seconds:g} s", "number": _RUN_TIMEOUT}
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                code = self.process.wait()
                return {"error": f"the candidate ended its process (exit code {code})", "number": _RUNTIME_DEVICE}
            text += part
        return json.loads(text)

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        except OSError:
            return {"error": "the candidate before ended the process", "number": _RUNTIME_DEVICE}
        return self._receive(seconds)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def measure_folder(
    folder: str, number: int = 10, repeat: int = 3, min_repeat_ms: int = 20, timeout: float = 30.0,
    seconds: float | None = None,
) -> tuple[int, int]:
    """Measure what has no record yet, for at most ``seconds``: how many were measured, and how many of them failed."""
    records = os.path.join(folder, RECORDS)
    known = {key_of(row) for row in read_lines(records)}
    todo = [row for row in read_lines(os.path.join(folder, LIST)) if key_of(row["record"]) not in known]
    child: Child | None = None
    done = failed = 0
    end = None if seconds is None else time.monotonic() + seconds
    with open(records, "a", encoding="utf-8") as file:
        for row in todo:
            if end is not None and time.monotonic() > end:
                break
            child = child or Child()
            message = {
                "file": os.path.join(folder, row["file"]), "entry": row["entry"], "args": row["args"],
                "device": row["device"], "number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms,
            }  # fmt: skip
            start = time.time()
            answer = child.ask(message, timeout)
            problem = answer.get("error")
            costs = [_FAILED_COST] if problem else answer["costs"]
            result = [costs, answer.get("number", _RUNTIME_DEVICE) if problem else 0, time.time() - start, time.time()]
            file.write(json.dumps({**row["record"], "result": result}) + "\n")
            file.flush()
            done, failed = done + 1, failed + bool(problem)
            if problem:
                # A device that reported an error may be lost to the process.
                print(f"{row['file']}: {problem}", file=sys.stderr)
                child.end()
                child = None
    if child is not None:
        child.end()
    return done, failed


def _example(shape: list[int], dtype: str, seed: int) -> Any:
    import numpy as np

    from .ndarray import numpy_dtype

    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, shape) if "float" in dtype else random.integers(0, 2, shape)
    return values.astype(numpy_dtype(dtype))


def _measure(message: dict[str, Any]) -> dict[str, Any]:
    from . import ndarray
    from .devices import Device
    from .module import load_module

    device = Device(message["device"], 0)
    arrays = [ndarray.array(_example(s, t, i), device) for i, (s, t) in enumerate(message["args"])]
    module = load_module(message["file"])
    evaluator = module.time_evaluator(
        message["entry"], device, message["number"], message["repeat"], message["min_repeat_ms"]
    )
    return {"costs": list(evaluator(*arrays).results)}


def _work() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what code prints is no answer
    answers.write("{}\n")
    for line in sys.stdin:
        try:
            answer = _measure(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000], "number": _RUNTIME_DEVICE}
        answers.write(json.dumps(answer) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser("python -m tvm.runtime.measure_files", description="Measure built candidates.")
    parser.add_argument("folder", nargs="?", help="what write_candidates made")
    parser.add_argument("--number", type=int, default=10, help="runs whose mean is one time")
    parser.add_argument("--repeat", type=int, default=3, help="times of a candidate")
    parser.add_argument("--min-repeat-ms", type=int, default=20, help="each time is of runs that take this long")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds of a candidate at most")
    parser.add_argument("--seconds", type=float, help="start no candidate after this many seconds")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        _work()
        return
    if not args.folder or not os.path.isfile(os.path.join(args.folder, LIST)):
        parser.error(f"'{args.folder}' is no folder of candidates: there is no {LIST} in it")
    done, failed = measure_folder(
        args.folder, args.number, args.repeat, args.min_repeat_ms, args.timeout, args.seconds
    )
    print(f"{done} candidates measured, {failed} of them failed; records: {os.path.join(args.folder, RECORDS)}")


if __name__ == "__main__":
    main()
