"""Measure candidates on this machine: they are lowered in this process, and compiled and run in worker processes.

Each kind of search defines its candidates, schedules and records; this module contains the common parts.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..driver.build_module import build
from ..target import Target
from ..target.backend import find_backend
from .candidate import (
    ENTRY,
    ArgumentInfo,
    Code,
    TimeIsUp,
    argument_info,
    code_of,
    lower_to_text,
    run_code,
    time_limit,
    travels_as_text,
)
from .errors import MeasureErrorNo
from .workers import Failure, Job, Workers


@dataclass(frozen=True)
class Failed:
    """The reason why a candidate was not measured, and the time this took."""

    error_no: MeasureErrorNo
    error: BaseException
    seconds: float

    @staticmethod
    def since(start: float, error_no: MeasureErrorNo, error: BaseException | str) -> Failed:
        error = error if isinstance(error, BaseException) else RuntimeError(error)
        return Failed(error_no, error, time.monotonic() - start)


@dataclass(frozen=True)
class Built:
    """The code of a candidate, in memory or as the path of a library, and the shapes and types of its arguments."""

    code: Code | str
    info: ArgumentInfo
    seconds: float


# A function that returns a schedule and its arguments, and the target.
Candidate = tuple[Callable[[], tuple[Any, list[Any]]], Target]
# A user-defined function that builds a library from a schedule and returns its path.
Link = Callable[[Any, list[Any], Target], str]


class LibraryFolder:
    """A folder for the libraries of candidates, which is deleted with this object; ``fcompile`` links as in
    ``export_library``, None means the default linker. An ``fcompile`` with the attribute ``write_candidate`` compiles
    too: the attribute is a function of the path, the schedule, its arguments, the target and the function's name."""

    def __init__(self, fcompile: Callable | None = None, options: dict[str, Any] | None = None):
        self.fcompile, self.options = fcompile, options or {}
        self._folder: tempfile.TemporaryDirectory | None = None

    def __call__(self, schedule: Any, args: list[Any], target: Target) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tvm_measure_")
        suffix = getattr(self.fcompile, "output_format", "so")
        path = os.path.join(self._folder.name, f"{time.time_ns():x}.{suffix}")
        write_candidate = getattr(self.fcompile, "write_candidate", None)
        if write_candidate is not None:
            write_candidate(path, schedule, args, target, ENTRY)
            return path
        with target:
            library = build(schedule, args, target=target, name=ENTRY)
        library.export_library(path, fcompile=self.fcompile, **self.options)
        return path


def build_all(
    candidates: Sequence[Candidate], seconds: float, pool: Workers, link: Link, is_link_needed: bool = False
) -> list[Built | Failed]:
    """Compile each candidate within ``seconds``. Candidates of targets that workers cannot compile for, or all with
    ``is_link_needed``, become libraries that ``link`` builds."""
    results: list[Any] = [None] * len(candidates)
    for number, candidate in enumerate(candidates):
        _start_one(pool, candidate, seconds, link, is_link_needed, lambda made, n=number: results.__setitem__(n, made))
        pool.poll()
    pool.finish()
    return results


def _start_one(
    pool: Workers,
    candidate: Candidate,
    seconds: float,
    link: Link,
    is_link_needed: bool,
    done: Callable[[Built | Failed], None],
) -> None:
    """Lower one candidate in this process and submit its text to a worker; ``done`` receives the outcome."""
    start, (instantiate, target) = time.monotonic(), candidate
    try:
        with time_limit(seconds):
            schedule, args = instantiate()
            info = argument_info(args)
            if is_link_needed or not travels_as_text(target):
                done(Built(link(schedule, args, target), info, time.monotonic() - start))
                return
            message, text, names = lower_to_text(schedule, args, target)
    except TimeIsUp as error:
        done(Failed.since(start, MeasureErrorNo.BUILD_TIMEOUT, error))
        return
    except Exception as error:
        done(Failed.since(start, MeasureErrorNo.INSTANTIATION_ERROR, error))
        return

    def answered(answer: Any) -> None:
        if not isinstance(answer, Failure):
            done(Built(code_of(answer, names), info, time.monotonic() - start))
            return
        kind = MeasureErrorNo.COMPILE_DEVICE if "device" in message else MeasureErrorNo.COMPILE_HOST
        kind = MeasureErrorNo.BUILD_TIMEOUT if answer.kind == "timeout" else kind
        done(Failed.since(start, kind, answer if answer.kind == "error" else f"the compiler {answer}"))

    pool.submit(Job(message, text, seconds, answered))


def run_built(pool: Workers, target: Target, built: Built, seconds: float, options: dict[str, Any]) -> Any:
    """Measure code; return the answer of a worker, or a failure."""
    start, backend = time.monotonic() - built.seconds, find_backend(target)
    options = {**options, "package": backend.package if backend else ""}
    answer = run_code(pool, target.get_target_device_type(), built.info, built.code, seconds, options)
    if not isinstance(answer, Failure):
        return answer
    kind = MeasureErrorNo.RUN_TIMEOUT if answer.kind == "timeout" else MeasureErrorNo.RUNTIME_DEVICE
    return Failed.since(start, kind, answer if answer.kind == "error" else f"the candidate {answer}")


__all__ = ["Built", "Failed", "LibraryFolder", "build_all", "run_built"]
