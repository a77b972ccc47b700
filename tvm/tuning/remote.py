"""Measuring candidates on devices that an RPC tracker lends, several at once where it has several of a kind."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from .. import rpc
from ..error import RPCError, RPCSessionTimeoutError, TVMError
from ..rpc.client import NoDeviceFree
from ..runtime import ndarray
from ..runtime.link import create_shared
from ..runtime.measure.worker import content
from ..runtime.registry import get_device_func
from ..target import Target
from .candidate import ENTRY, Code
from .errors import MeasureErrorNo
from .measure import Built, Failed

_NAME = "candidate.so"
# How often a candidate is measured anew whose device has gone; one that ends its own session is not.
_TRIES = 3
_GONE = ("the session has ended", "the session was closed", "cannot be reached")
_SECONDS_TO_SEND = 30.0
# How often a candidate that waits for a device looks whether there still is one.
_SECONDS_TO_LOOK = 30.0


@dataclass
class Timing:
    """How one candidate is timed."""

    number: int
    repeat: int
    min_repeat_ms: int
    cooldown: float
    flush: bool
    outputs: bool = False


def request_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 1, timeout: float = 60
) -> rpc.RPCSession:
    """A session with a device of a tracker, whose address may be in TVM_TRACKER_HOST and TVM_TRACKER_PORT.

    Parameters
    ----------
    device_key : str
        The key of the device.
    host : str, optional
        The address of the tracker.
    port : int, optional
        Its port.
    priority : int
        How urgent the request is.
    timeout : float
        The seconds of the session.

    Returns
    -------
    RPCSession
        The session.

    Raises
    ------
    TVMError
        Neither the arguments nor the environment say where the tracker is.
    """
    host, said = host or os.environ.get("TVM_TRACKER_HOST"), port or os.environ.get("TVM_TRACKER_PORT")
    if not host or not said:
        raise TVMError(f"request_remote: where is the tracker that lends '{device_key}'? Give its host and port, or "
                       "set TVM_TRACKER_HOST and TVM_TRACKER_PORT")
    return rpc.connect_tracker(host, int(said)).request(device_key, priority, timeout)


@dataclass
class RemoteDevices:
    """The devices of one kind that a tracker lends."""

    key: str
    host: str
    port: int
    priority: int = 1
    seconds: float = 10.0
    number: int = 0

    def check(self) -> None:
        """Refuse a tracker that is not there, or has no such device."""
        found = rpc.connect_tracker(self.host, self.port).summary()["server_info"]
        if not any(one["key"] == f"server:{self.key}" for one in found):
            known = ", ".join(sorted({one["key"].partition(":")[2] for one in found})) or "none"
            raise RPCError(f"the tracker {self.host}:{self.port} has no device '{self.key}'; it has {known}")

    def session(self) -> rpc.RPCSession:
        """A session with one of them; its time is that of one candidate, and what sending it takes at most."""
        tracker = rpc.connect_tracker(self.host, self.port)
        try:
            while True:
                try:
                    return tracker.request(
                        self.key, self.priority, self.seconds + _SECONDS_TO_SEND, wait_timeout=_SECONDS_TO_LOOK
                    )
                except NoDeviceFree:
                    self.check()  # others may have them all, which is no reason to give up
        finally:
            tracker.close()

    def measure(self, target: Target, built: Built, timing: Timing) -> tuple[dict[str, Any], bytes] | Failed:
        """What a worker of this machine answers: the seconds of each repeat, and the arguments after the first run
        where they are wanted; or why there is nothing."""
        start = time.monotonic() - built.seconds
        for last in range(_TRIES):
            try:
                return self._measure(target, built, timing)
            except RPCSessionTimeoutError as problem:
                return Failed.since(start, MeasureErrorNo.RUN_TIMEOUT, problem)
            except RPCError as problem:
                # The candidate's own death is told by the process that watches its session.
                gone = any(text in str(problem) for text in _GONE)
                if not gone or last == _TRIES - 1:
                    return Failed.since(start, MeasureErrorNo.RUNTIME_DEVICE, problem)
            except TVMError as problem:
                return Failed.since(start, MeasureErrorNo.COMPILE_HOST, problem)
            except Exception as problem:
                return Failed.since(start, MeasureErrorNo.RUNTIME_DEVICE, problem)
        raise AssertionError("unreachable")

    def _measure(self, target: Target, built: Built, timing: Timing) -> tuple[dict[str, Any], bytes]:
        with tempfile.TemporaryDirectory(prefix="tvm_measure_") as folder:
            path = library_of(built.code, folder)
            with self.session() as remote:
                remote.upload(path, _NAME)
                module = remote.load_module(_NAME)
                device = remote.device(target.get_target_device_type(), self.number)
                values = [content(*one, seed=i) for i, one in enumerate(built.info)]
                arguments = [ndarray.array(value, device) for value in values]
                get_device_func("tvm.rpc.server.limit", device)(int(1000 * self.seconds))
                outputs = b""
                if timing.outputs:
                    module[ENTRY](*arguments)
                    outputs = b"".join(argument.numpy().tobytes() for argument in arguments)
                preprocess = "cache_flush_cpu_non_first_arg" if timing.flush else ""
                evaluate = module.time_evaluator(
                    ENTRY, device, number=timing.number, repeat=timing.repeat, min_repeat_ms=timing.min_repeat_ms,
                    f_preproc=preprocess,
                )
                costs = list(evaluate(*arguments).results)
        if timing.cooldown:
            time.sleep(timing.cooldown)
        return {"costs": costs}, outputs


def library_of(code: Code | str, folder: str) -> str:
    """The shared library of a candidate."""
    if isinstance(code, str):
        return code
    if code.device:
        raise TVMError("code for a GPU is sent as a library; give the builder a function that links (build_func)")
    path = os.path.join(folder, "candidate.o")
    with open(path, "wb") as file:
        file.write(code.object)
    linked = os.path.join(folder, _NAME)
    create_shared(linked, [path])
    return linked


__all__ = ["RemoteDevices", "Timing", "library_of", "request_remote"]
