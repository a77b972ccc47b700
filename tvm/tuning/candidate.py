"""Candidates: they are lowered in this process, and compiled and run in worker processes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..codegen.llvm import build as llvm
from ..codegen.llvm import jit as llvm_jit
from ..driver.build_module import lower
from ..ir.transform import PassContext
from ..runtime.measure.worker import request
from ..runtime.registry import get_global_func
from ..target import Target
from ..target.backend import as_text, backend_of, find_backend, host_of, load
from ..tir import pipeline
from .workers import Failure, Job, Workers

ENTRY = "default_function"

ArgumentInfo = Sequence[tuple[Sequence[int], str]]


@dataclass
class Code:
    """An object in memory and the information to call it; ``device`` contains the bytes of its kernels."""

    object: bytes
    names: tuple[str, ...]
    entry: str
    device: bytes = b""


class TimeIsUp(Exception):
    """Creating or lowering a schedule exceeded its time limit."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code after a number of seconds of computation (time in which the machine sleeps is not counted). This
    works only in the main thread of a system with timer signals."""
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


def argument_info(args: Sequence[Any]) -> ArgumentInfo:
    """Return the shapes and types of tensors."""
    return [(tuple(int(d) for d in a.shape), a.dtype) for a in args]


def travels_as_text(target: Target) -> bool:
    """Return whether workers can compile code for a target. Targets with user-defined compilation functions are
    compiled in this process."""
    backend = find_backend(target)
    if backend is None or backend.emit_text is None:
        return False
    return not any(get_global_func(name, allow_missing=True) for name in backend.user_compilers)


def lower_to_text(schedule: Any, args: list[Any], target: Target) -> tuple[dict[str, Any], bytes, tuple[str, ...]]:
    """Return the input of a compile worker: the message, the LLVM text, and the names of its functions."""
    host_target = host_of(target)
    with target:
        context = PassContext.current()
        mod = lower(schedule, args, ENTRY)
        host, device = pipeline.split_host_device(mod, target, host_target, context)
    text, level = llvm.module_text(host, host_target)
    message = {
        "action": "build",
        "triple": text.cpu.triple,
        "cpu": text.cpu.cpu,
        "features": text.cpu.features_text,
        "opt_level": level,
        "imports": [llvm_jit.read_import(part) for part in text.imported],
    }
    if len(device):
        backend = backend_of(target)
        kernels_text, kernels = load(backend.emit_text)(device, target)
        message["device"] = {
            "kind": backend.kind,
            "arch": str(target.attrs.get("arch") or ""),
            "text": kernels_text,
            "kernels": {name: kernel._asdict() for name, kernel in kernels.items()},
            "compile": as_text(backend.compile_text),
        }
    return message, text.text("tvm", llvm_jit.data_layout(text.cpu)).encode(), tuple(text.defined)


def code_of(answer: tuple[dict[str, Any], bytes], names: tuple[str, ...]) -> Code:
    """Return the code that a worker has compiled."""
    message, payload = answer
    size = message["object"]
    return Code(payload[:size], names, ENTRY, payload[size:])


def compile_text(
    pool: Workers, lowered: tuple[dict[str, Any], bytes, tuple[str, ...]], seconds: float
) -> Code | Failure:
    """Compile the output of ``lower_to_text`` in a worker."""
    message, text, names = lowered
    answer = ask(pool, message, text, seconds)
    return answer if isinstance(answer, Failure) else code_of(answer, names)


def run_code(
    pool: Workers, device: int, info: ArgumentInfo, code: Code | str, seconds: float, options: dict[str, Any]
) -> Any:
    """Measure code, or a library file, in a worker; return its answer or a Failure."""
    if isinstance(code, str):
        return ask(pool, request(info, device, ENTRY, filename=code, **options), b"", seconds)
    message = request(info, device, ENTRY, size=len(code.object), names=code.names, **options)
    return ask(pool, message, code.object + code.device, seconds)


def ask(pool: Workers, message: dict[str, Any], payload: bytes, seconds: float) -> Any:
    """Return the answer of a worker to a message: a pair of a message and bytes, or a Failure."""
    box: list[Any] = []
    pool.submit(Job(message, payload, seconds, box.append))
    pool.finish()
    return box[0]


__all__ = [
    "ArgumentInfo",
    "Code",
    "ENTRY",
    "TimeIsUp",
    "argument_info",
    "ask",
    "code_of",
    "compile_text",
    "lower_to_text",
    "run_code",
    "time_limit",
    "travels_as_text",
]
