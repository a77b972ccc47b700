"""The process that compiles and runs candidates for a tuner: ``python -m tvm.exec.autotvm_worker``.

It reads messages from its standard input and answers each on its standard output (see autotvm.measure.workers). Text
that code prints goes to the standard error stream. It ends when its parent does.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from ..autotvm.measure.workers import HEAD, pack
from ..codegen import llvm_jit
from ..codegen.llvm_module import CONTEXT, TABLE
from ..runtime import cpu, load_module, ndarray
from ..runtime.module import Module, from_jit

_WATCH_SECONDS = 1.0


class Arrays:
    """The arguments of the last run, kept for the next candidate of the same task."""

    def __init__(self):
        self.key = ""
        self.values: list[ndarray.NDArray] = []

    def get(self, info: list[Any], fresh: bool) -> list[ndarray.NDArray]:
        key = json.dumps(info)
        if fresh or key != self.key:
            self.values = [ndarray.array(example(shape, dtype, i)) for i, (shape, dtype) in enumerate(info)]
            self.key = key
        return self.values


class Reference:
    """The first candidate of a task, run between the runs of the others.

    Neighbours on the same hardware slow everything down for seconds at a time; what they take from a candidate they
    take from the reference beside it. Costs are given as they would be at the reference's best speed.
    """

    def __init__(self):
        self.key = ""
        self.evaluator: Any = None
        self.best = 0.0

    def adjusted(self, key: str, module: Module, message: dict[str, Any], arguments: list[Any]) -> list[float]:
        """Seconds of each repeat of a module's function."""
        evaluator = module.time_evaluator(message["entry"], cpu(0), number=message["number"], repeat=1)
        if key != self.key:
            self.key, self.best = key, float("inf")
            self.evaluator = module.time_evaluator(message["entry"], cpu(0), number=1, repeat=2)
        costs = []
        before = self._run(arguments)
        for _ in range(message["repeat"]):
            seconds = evaluator(*arguments).mean
            after = self._run(arguments)
            costs.append(seconds * min(2 * self.best / (before + after), 1.0))
            before = after
        return costs

    def _run(self, arguments: list[ndarray.NDArray]) -> float:
        seconds = min(self.evaluator(*arguments).results)
        self.best = min(self.best, seconds)
        return seconds


def example(shape: list[int], dtype: str, seed: int) -> Any:
    """Numbers to run on; the same for the same argument in every process."""
    import numpy as np

    random = np.random.default_rng(seed)
    if "float" in dtype:
        return random.uniform(-1, 1, shape).astype(ndarray.numpy_dtype(dtype))
    high = 2 if dtype == "bool" else 127
    return random.integers(0, high, shape).astype(ndarray.numpy_dtype(dtype))


def build(message: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """LLVM text to an object."""
    machine = llvm_jit.target_machine(message["triple"], message["cpu"], message["features"], message["opt_level"])
    module = llvm_jit.parse(payload.decode(), message["imports"])
    llvm_jit.optimize(module, machine, message["opt_level"])
    return {}, machine.emit_object(module)


def _module(message: dict[str, Any], payload: bytes) -> Module:
    if message.get("filename"):
        return load_module(message["filename"])
    names = message["names"]
    addresses, library = llvm_jit.load_object(payload, (*names, TABLE, CONTEXT))
    table, context = addresses.pop(TABLE), addresses.pop(CONTEXT)
    return from_jit(addresses, table, context, library, entry_name=message["entry"])


ARRAYS = Arrays()
REFERENCE = Reference()


def run(message: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Run an object: seconds of each repeat, and its outputs where they are asked for."""
    module = _module(message, payload)
    arguments = ARRAYS.get(message["args"], message["outputs"])
    function = module[message["entry"]]
    start = time.perf_counter()
    function(*arguments)
    first = time.perf_counter() - start
    outputs = b"".join(a.numpy().tobytes() for a in arguments) if message["outputs"] else b""
    limit = message.get("limit")
    if limit and first > limit:
        # The first call also warms caches and threads: a second one decides.
        start = time.perf_counter()
        function(*arguments)
        second = time.perf_counter() - start
        if second > limit:
            return {"costs": [second]}, outputs
    if message["flush"] or message["min_repeat_ms"]:
        evaluator = module.time_evaluator(
            message["entry"], cpu(0), number=message["number"], repeat=message["repeat"],
            min_repeat_ms=message["min_repeat_ms"],
            f_preproc="cache_flush_cpu_non_first_arg" if message["flush"] else "",
        )
        costs = list(evaluator(*arguments).results)
    else:
        costs = REFERENCE.adjusted(json.dumps(message["args"]), module, message, arguments)
    if message["cooldown"]:
        time.sleep(message["cooldown"])
    return {"costs": costs}, outputs


ACTIONS: dict[str, Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]] = {"build": build, "run": run}


def answer(message: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        return ACTIONS[message["action"]](message, payload)
    except MemoryError:
        return {"error": "out of memory"}, b""
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}, b""


def serve(inlet: BinaryIO, outlet: BinaryIO) -> None:
    """Answer messages until there are no more."""
    outlet.write(pack({"ready": True}))
    outlet.flush()
    while True:
        head = inlet.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        text_size, data_size = HEAD.unpack(head)
        message = json.loads(inlet.read(text_size))
        payload = inlet.read(data_size)
        outlet.write(pack(*answer(message, payload)))
        outlet.flush()
        del message, payload
        gc.collect(0)


def _end_with(parent: int) -> None:
    """End when the parent is gone, also in the middle of a candidate that never returns."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(0)


def _be_first_to_go() -> None:
    """When memory runs out, Linux should take this process, not the tuner."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass


def main() -> None:
    # Ctrl-C is the tuner's to handle: it stops between candidates.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _be_first_to_go()
    if len(sys.argv) > 1:
        threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
