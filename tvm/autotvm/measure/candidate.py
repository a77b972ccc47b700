"""A configuration as code: lowered in this process, where templates live, and compiled in a worker."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...codegen import llvm, llvm_jit
from ...driver.build_module import lower
from ...error import TVMError
from ...ir.transform import PassContext
from ...target import Target
from ...tir import pipeline
from ..task.entity import InstantiationError
from ..utils import get_const_tuple
from .measure import MeasureInput

ENTRY = "default_function"


@dataclass
class Code:
    """An object in memory, with what it takes to call it."""

    object: bytes
    names: tuple[str, ...]
    entry: str


class TimeIsUp(Exception):
    """A template or a lowering pass took too long."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code that computes for longer (a machine that sleeps does not count). Only the main thread of a
    system with timer signals can be stopped."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise TimeIsUp(f"lowering took longer than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def instantiate(inp: MeasureInput) -> tuple[Any, list[Any]]:
    """The schedule and arguments of a candidate; an InstantiationError where its template refuses it."""
    assert inp.target is not None
    with inp.target:
        schedule, args = inp.task.instantiate(inp.config)
    if not inp.config.valid():
        raise InstantiationError("; ".join(inp.config.errors))
    return schedule, args


def argument_info(args: list[Any]) -> list[tuple[tuple[int, ...], str]]:
    return [(get_const_tuple(a.shape), a.dtype) for a in args]


def lower_to_text(schedule: Any, args: list[Any], target: Target) -> tuple[dict[str, Any], bytes, tuple[str, ...]]:
    """What a worker compiles: the message, the LLVM text, and the functions in it."""
    with target:
        context = PassContext.current()
        mod = lower(schedule, args, ENTRY)
        host, device = pipeline.split_host_device(mod, target, target.host or target, context)
    if len(device):
        raise TVMError(f"target {target} has code for a device; local workers run code of the CPU")
    text, level = llvm.module_text(host, target)
    message = {
        "action": "build",
        "triple": text.cpu.triple,
        "cpu": text.cpu.cpu,
        "features": text.cpu.features_text,
        "opt_level": level,
        "imports": [llvm_jit.read_import(part) for part in text.imported],
    }
    return message, text.text("tvm", llvm_jit.data_layout(text.cpu)).encode(), tuple(text.defined)
