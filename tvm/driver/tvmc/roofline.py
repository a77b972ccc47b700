"""The roofline of this machine: peak operations and bytes per second, measured once and cached."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import te, tir
from ...relay.backend.library_cache import cache_folder, is_switched_off
from ...runtime import cpu, ndarray
from ...runtime.host_cpu import usable_cores
from ...target import Target
from ...target.backend import compiled_cpu
from ...target.cpu import resolve_cpu
from ..build_module import build

# Independent accumulators in registers: enough to saturate two units with a latency of four or five cycles.
_SUMS = 12
# Steps of one run: several hundred microseconds, so that the thread start is negligible.
_STEPS = 200_000
# Larger than the caches of most machines; read in a few hundredths of a second.
_BYTES = 128 << 20
# Size of the L2 cache of a core in bytes.
_BYTES_PER_CORE = 512 << 10
# Data size of a kernel above which a large last-level cache does not help either.
_CACHED_BYTES = 64 << 20
# Many short rounds: on a busy machine some of them have all cores to themselves.
_ROUNDS = 40
_FORMAT = 2
# The stored peaks are final after this number of measurements.
_MEASUREMENTS = 10


class Machine(NamedTuple):
    """Peaks of all cores together, per second: float32 operations, bytes read from memory and from caches."""

    cpu: str
    cores: int
    flops: float
    bandwidth: float
    cache_bandwidth: float

    def roof(self, intensity: float, size: float) -> float:
        """Return the attainable operations per second for an arithmetic intensity and a data size in bytes."""
        return min(self.flops, intensity * (self.cache_bandwidth if size <= _CACHED_BYTES else self.bandwidth))


def _loop(builder: Any, count: int, lanes: int, body: Callable[[Any], None]) -> None:
    """Emit a loop of ``body(i)`` over the elements of ``count`` vectors."""
    with builder.for_range(0, count, kind="unroll", name="j") as j:
        with builder.for_range(0, lanes, kind="vectorize", name="l") as lane:
            body(j * lanes + lane)


def _kernel(threads: int, lanes: int, steps: int, reads: bool) -> Any:
    """Build a kernel that keeps accumulators in registers: with ``reads`` it adds memory, else it multiplies and
    adds."""
    width = _SUMS * lanes

    def generate(ins: Any, outs: Any) -> Any:
        builder = tir.ir_builder.create()
        source, out = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        with builder.for_range(0, threads, kind="parallel", name="t") as t:
            sums = builder.allocate("float32", (width,), name="sums", scope="local")

            def begin(i: Any) -> None:
                sums[i] = tir.const(0.0, "float32") if reads else source[t * width + i]

            def step(i: Any) -> None:
                if reads:
                    sums[i] = sums[i] + source[(t * steps + k) * width + i]
                else:
                    sums[i] = tir.fma(sums[i], source[0], source[1])

            def end(i: Any) -> None:
                out[t * width + i] = sums[i]

            _loop(builder, _SUMS, lanes, begin)
            with builder.for_range(0, steps, name="k") as k:
                _loop(builder, _SUMS, lanes, step)
            _loop(builder, _SUMS, lanes, end)
        return builder.get()

    size = threads * width * (steps if reads else 1)
    given = te.placeholder((size,), "float32", name="source")
    result = te.extern((threads * width,), [given], generate, name="result", dtype="float32")
    library = build(te.create_schedule(result.op), [given, result], Target("llvm"), name="limit")
    arrays = [ndarray.array(_ones(size)), ndarray.array(_ones(threads * width))]
    return library.time_evaluator("limit", cpu(0), number=1, repeat=_ROUNDS), arrays


def _ones(size: int) -> Any:
    import numpy as np

    return np.ones(size, dtype="float32")


def measure() -> Machine:
    """Measure for about a second. Other load only increases times, so the best round is used."""
    here = resolve_cpu(Target("llvm"))
    threads = usable_cores()
    lanes = max(here.vector_bits // 32, 4)
    evaluator, arrays = _kernel(threads, lanes, _STEPS, False)
    flops = 2.0 * threads * _SUMS * lanes * _STEPS / min(evaluator(*arrays).results)
    cached = _read_bandwidth(threads, lanes, _BYTES_PER_CORE * threads)
    return Machine(here.cpu, threads, flops, _read_bandwidth(threads, lanes, _BYTES), cached)


def _read_bandwidth(threads: int, lanes: int, size: int) -> float:
    steps = size // (4 * threads * _SUMS * lanes)
    evaluator, arrays = _kernel(threads, lanes, steps, True)
    return 4.0 * threads * _SUMS * lanes * steps / min(evaluator(*arrays).results)


def machine(new: bool = False) -> Machine | None:
    """Return the cached peaks of this machine; ``new`` measures them again unless they are final.

    Other load makes a machine seem slower, so the best of the first few measurements is stored.
    """
    base = None if is_switched_off() else cache_folder()
    path = base / f"machine-{resolve_cpu(Target('llvm')).cpu}-{usable_cores()}.json" if base else None
    known, times = _read(path) if path else (None, 0)
    if not new or known is not None and times >= _MEASUREMENTS:
        return known
    found = measure()
    if known is not None:
        peaks = ("flops", "bandwidth", "cache_bandwidth")
        found = found._replace(**{name: max(getattr(found, name), getattr(known, name)) for name in peaks})
    if path is not None:
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(json.dumps({"format": _FORMAT, "times": times + 1, **found._asdict()}), encoding="utf-8")
            part.replace(path)
        except OSError:
            pass
    return found


def machine_of(tasks: Sequence[Any]) -> Machine | None:
    """Return the peaks of this machine, measured if necessary, if the code of the tasks is for this machine."""
    target = tasks[0].target if tasks else None
    cpu = compiled_cpu(target) if target is not None else None
    return machine(new=True) if cpu is not None and cpu.is_host else None


def _read(path: Path) -> tuple[Machine | None, int]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept.pop("format") == _FORMAT:
            times = int(kept.pop("times"))
            return Machine(**kept), times
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None, 0


__all__ = ["Machine", "machine", "machine_of", "measure"]
