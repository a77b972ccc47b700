"""Measure candidates on devices of an RPC tracker, on several at once if it has several of a kind."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .. import rpc
from ..error import RPCError, RPCSessionTimeoutError, TVMError
from ..rpc.client import NoDeviceFree
from ..runtime import ndarray
from ..runtime.link import create_shared
from ..runtime.measure.worker import CLEARLY_SLOWER, GLANCE_MS, content
from ..runtime.registry import get_device_func
from ..target import Target
from .candidate import ENTRY, Code
from .errors import MeasureErrorNo
from .measure import Built, Failed

_NAME = "candidate.so"
# ELF machine numbers for which the runtime can link objects: x86-64 and aarch64.
_LINKED_THERE = (62, 183)
# How often a candidate is measured again after its device was lost. A candidate that ends its own session is not
# repeated.
_TRIES = 3
_GONE = ("the session has ended", "the session was closed", "cannot connect to ")
_SECONDS_TO_SEND = 30.0
# Seconds for which a thread keeps a device for its next candidates, and the default number of threads.
_SECONDS_KEPT = 2.0
_MOST_AT_ONCE = 8
# Seconds between checks that the tracker still has a device, while a candidate waits for one.
_SECONDS_TO_LOOK = 30.0


@dataclass
class Timing:
    """The timing parameters of a candidate."""

    number: int
    repeat: int
    min_repeat_ms: int
    cooldown: float
    flush: bool
    outputs: bool = False
    best: float | None = None  # Seconds of the best candidate so far; a clearly slower candidate is not timed further
    slow_factor: float = 3.0


def request_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 1, timeout: float = 60
) -> rpc.RPCSession:
    """Return a session with a device of a tracker. The address may be in TVM_TRACKER_HOST and TVM_TRACKER_PORT.

    Parameters
    ----------
    device_key : str
        The key of the device.
    host : str, optional
        The address of the tracker.
    port : int, optional
        The port of the tracker.
    priority : int
        The priority of the request.
    timeout : float
        The time limit of the session in seconds.

    Returns
    -------
    RPCSession
        The session.

    Raises
    ------
    TVMError
        Neither the arguments nor the environment contain the address of the tracker.
    """
    host, said = host or os.environ.get("TVM_TRACKER_HOST"), port or os.environ.get("TVM_TRACKER_PORT")
    if not host or not said:
        raise TVMError(
            f"request_remote: the address of the tracker for '{device_key}' is unknown; pass its host and port, or "
            "set TVM_TRACKER_HOST and TVM_TRACKER_PORT"
        )
    return rpc.connect_tracker(host, int(said)).request(device_key, priority, timeout)


@dataclass
class RemoteDevices:
    """The devices of one key of a tracker."""

    key: str
    host: str
    port: int
    priority: int = 1
    seconds: float = 10.0
    number: int = 0

    def check(self) -> None:
        """Report an error if the tracker does not respond or has no such device."""
        found = rpc.connect_tracker(self.host, self.port).summary()["server_info"]
        if not any(one["key"] == f"server:{self.key}" for one in found):
            known = ", ".join(sorted({one["key"].partition(":")[2] for one in found})) or "none"
            raise RPCError(f"the tracker {self.host}:{self.port} has no device '{self.key}'; its devices are {known}")

    def session(self) -> rpc.RPCSession:
        """Return a session with a device. Its time limit covers the other candidates in the queue, one candidate, and
        the transfer."""
        tracker = rpc.connect_tracker(self.host, self.port)
        try:
            while True:
                try:
                    return tracker.request(
                        self.key,
                        self.priority,
                        self.seconds + _SECONDS_TO_SEND + _SECONDS_KEPT,
                        wait_timeout=_SECONDS_TO_LOOK,
                    )
                except NoDeviceFree:
                    self.check()  # Other clients may use all devices, which is no reason to stop
        finally:
            tracker.close()

    def map(self, act: Callable[..., Any], *columns: Sequence[Any], n_parallel: int | None = None) -> list[Any]:
        """Call ``act`` for each entry, in threads that keep their device for the next entry, so that it is not
        requested again."""
        rows = list(zip(*columns))
        results: list[Any] = [None] * len(rows)
        todo, lock = iter(range(len(rows))), threading.Lock()

        def work() -> None:
            _THREAD.lease = lease = _Lease(self)
            try:
                while True:
                    with lock:
                        at = next(todo, None)
                    if at is None:
                        return
                    results[at] = act(*rows[at])
            finally:
                _THREAD.lease = None
                lease.close()

        with ThreadPoolExecutor(n_parallel) as threads:
            for one in [threads.submit(work) for _ in range(min(len(rows), n_parallel or _MOST_AT_ONCE))]:
                one.result()
        return results

    def measure(self, target: Target, built: Built, timing: Timing) -> tuple[dict[str, Any], bytes] | Failed:
        """Measure like a local worker: return the seconds of each repeat, and on request the arguments after the first
        run, or a failure."""
        start = time.monotonic() - built.seconds
        lease = getattr(_THREAD, "lease", None)
        own = lease is None or lease.devices != self
        lease = _Lease(self) if own else lease
        try:
            return self._try(lease, target, built, timing, start)
        finally:
            if own:
                lease.close()

    def _try(self, lease: _Lease, target: Target, built: Built, timing: Timing, start: float) -> Any:
        tries = _TRIES
        while True:
            # A crash caused by an earlier candidate may appear only when the next one runs in the same session, so only
            # failures in a new session count.
            was_used = lease.is_used
            try:
                return self._measure(lease, target, built, timing)
            except Exception as problem:
                lease.close()
                late = isinstance(problem, RPCSessionTimeoutError)
                if was_used and not late:
                    continue
                tries -= 1
                # If a candidate itself crashed, the process that monitors its session reports it.
                gone = isinstance(problem, RPCError) and any(text in str(problem) for text in _GONE)
                if gone and tries and not late:
                    continue
                return Failed.since(start, _kind_of(problem), problem)

    def _measure(self, lease: _Lease, target: Target, built: Built, timing: Timing) -> tuple[dict[str, Any], bytes]:
        remote = lease.take()
        module = _load(remote, built.code)
        device = remote.device(target.get_target_device_type(), self.number)
        arguments = lease.arguments(json.dumps(built.info), device, timing.outputs)
        limit = get_device_func("tvm.rpc.server.limit", device)
        limit(int(1000 * self.seconds))
        outputs = b""
        if timing.outputs:
            module[ENTRY](*arguments)
            outputs = b"".join(argument.numpy().tobytes() for argument in arguments)
        costs = _costs(module, device, timing, arguments)
        limit(0)
        if timing.cooldown:
            time.sleep(timing.cooldown)
        return {"costs": costs}, outputs


_THREAD = threading.local()


class _Lease:
    """A session that a thread keeps for some seconds, after which other clients get the device."""

    def __init__(self, devices: RemoteDevices):
        self.devices, self.is_used = devices, False
        self._session: rpc.RPCSession | None = None
        self._until = 0.0
        self._key, self._arguments = "", []

    def take(self) -> rpc.RPCSession:
        """Return the session, or a new one if its time is over."""
        if self._session is not None and time.monotonic() < self._until:
            return self._session
        self.close()
        session = self.devices.session()
        self._session, self._until, self.is_used = session, time.monotonic() + _SECONDS_KEPT, True
        return session

    def arguments(self, info: str, device: Any, fresh: bool) -> list[Any]:
        """Return the arrays of a task's candidates; new arrays if their contents matter."""
        if fresh or info != self._key:
            self._arguments = []
            self._key, self._arguments = info, [ndarray.array(value, device) for value in _values(info)]
        return self._arguments

    def close(self) -> None:
        session, self._session, self.is_used = self._session, None, False
        self._key, self._arguments = "", []
        if session is not None:
            session.close()


def _kind_of(problem: Exception) -> MeasureErrorNo:
    if isinstance(problem, RPCSessionTimeoutError):
        return MeasureErrorNo.RUN_TIMEOUT
    is_here = isinstance(problem, TVMError) and not isinstance(problem, RPCError)
    return MeasureErrorNo.COMPILE_HOST if is_here else MeasureErrorNo.RUNTIME_DEVICE


@functools.lru_cache(maxsize=1)
def _values(info: str) -> list[Any]:
    """Return the input values of the candidates of a task, which are the same for all of them."""
    return [content(*one, seed=i) for i, one in enumerate(json.loads(info))]


def _costs(module: Any, device: Any, timing: Timing, arguments: list[Any]) -> list[float]:
    """Return the seconds of each repeat, or only of a first short run if it is much slower than the best."""

    def evaluate(number: int, repeat: int, milliseconds: int) -> list[float]:
        preprocess = "cache_flush_cpu_non_first_arg" if timing.flush else ""
        run = module.time_evaluator(
            ENTRY, device, number=number, repeat=repeat, min_repeat_ms=milliseconds, f_preproc=preprocess
        )
        return list(run(*arguments).results)

    if timing.best is not None:
        is_long = timing.min_repeat_ms > GLANCE_MS and not timing.flush
        glance = evaluate(1, 1, GLANCE_MS if is_long else 0)
        if glance[0] > timing.best * (CLEARLY_SLOWER if is_long else timing.slow_factor):
            return glance
    return evaluate(timing.number, timing.repeat, timing.min_repeat_ms)


def _load(remote: rpc.RPCSession, code: Code | str) -> Any:
    """Load the module of a candidate. An object is linked on the device if the device needs no linker for this."""
    if isinstance(code, Code) and not code.device and int.from_bytes(code.object[18:20], "little") in _LINKED_THERE:
        remote.upload(code.object, "candidate.o")
        try:
            return remote.load_module("candidate.o")
        except RPCError as problem:
            if "cannot load object" not in str(problem):
                raise
    with tempfile.TemporaryDirectory(prefix="tvm_measure_") as folder:
        remote.upload(library_of(code, folder), _NAME)
    return remote.load_module(_NAME)


def library_of(code: Code | str, folder: str) -> str:
    """Return the shared library of a candidate."""
    if isinstance(code, str):
        return code
    if code.device:
        raise TVMError(
            "code for a GPU can only be sent as a library; pass a linking function to the builder (build_func)"
        )
    path = os.path.join(folder, "candidate.o")
    with open(path, "wb") as file:
        file.write(code.object)
    linked = os.path.join(folder, _NAME)
    create_shared(linked, [path])
    return linked


__all__ = ["RemoteDevices", "Timing", "library_of", "request_remote"]
