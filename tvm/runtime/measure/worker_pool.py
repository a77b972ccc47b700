"""Worker processes: persistent child processes that compile and run candidates.

A worker is a module run by a new Python process (see worker), not a fork, so the user's script is not executed again.
It receives a message, replies, and waits for the next. If a candidate crashes its worker or exceeds its time limit,
only that worker ends; the others continue, and a new worker is started.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ...error import TVMError
from ..module_process import ROOT, module_command

HEAD = struct.Struct("<IQ")
# Upper bound of the time that starting a worker takes, even on a busy machine.
START_SECONDS = 120.0


def pack(message: dict[str, Any], payload: bytes = b"") -> bytes:
    """Serialize a message: the lengths of its two parts, JSON text, bytes."""
    text = json.dumps(message).encode()
    return HEAD.pack(len(text), len(payload)) + text + payload


class Failure(Exception):
    """A job that a worker could not complete. ``kind`` is "timeout", "crash" or "error"."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Job:
    """A message for a worker and the function that handles its reply."""

    __slots__ = ("deadline", "done", "message", "payload", "retried", "seconds")

    def __init__(self, message: dict[str, Any], payload: bytes, seconds: float, done: Callable[[Any], None]):
        self.message, self.payload, self.seconds, self.done = message, payload, seconds, done
        self.deadline = 0.0
        self.retried = False


class Worker:
    """A child process."""

    def __init__(self, module: str):
        environment = dict(os.environ)
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([known] if known else [])])
        self.process = subprocess.Popen(
            module_command(module, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
            # Ctrl-C on a terminal must reach only the tuner, even while a worker is starting.
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.inlet = self.process.stdin.fileno()
        self.outlet = self.process.stdout.fileno()
        self.buffer = bytearray()
        self.job: Job | None = None
        self.ready = False
        self.started = time.monotonic()

    def send(self, job: Job) -> None:
        self.job = job
        job.deadline = time.monotonic() + job.seconds
        data = memoryview(pack(job.message, job.payload))
        while data:
            data = data[os.write(self.inlet, data) :]

    def read(self) -> tuple[dict[str, Any], bytes] | None:
        """Read available data; return a complete reply, or None while it is incomplete."""
        chunk = os.read(self.outlet, 1 << 20)
        if not chunk:
            raise EOFError
        self.buffer += chunk
        if len(self.buffer) < HEAD.size:
            return None
        text_size, data_size = HEAD.unpack_from(self.buffer)
        end = HEAD.size + text_size + data_size
        if len(self.buffer) < end:
            return None
        message = json.loads(self.buffer[HEAD.size : HEAD.size + text_size])
        data = bytes(self.buffer[HEAD.size + text_size : end])
        del self.buffer[:end]
        return message, data

    def end(self) -> int | None:
        """Stop the process and return its exit code."""
        try:
            self.process.kill()
        except OSError:
            pass
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            return None


class Pool:
    """A pool of workers that run ``module``. ``submit`` passes a job to a free worker; ``poll`` handles replies."""

    def __init__(self, size: int, module: str):
        if not hasattr(select, "poll"):
            raise TVMError(
                f"candidates are compiled and measured in worker processes, which {sys.platform} does not support: "
                "tune on Linux or macOS (on Windows in WSL), and compile here with the records"
            )
        self.size, self.module = max(size, 1), module
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()
        self.owner = os.getpid()
        self.failed_starts = 0
        # Jobs whose worker was killed by another process; each job is retried once.
        self.again: list[Job] = []
        while len(self.workers) < self.size:
            self._start()

    def _start(self) -> None:
        worker = Worker(self.module)
        self.workers.append(worker)
        self.selector.register(worker.outlet, selectors.EVENT_READ, worker)

    @property
    def busy(self) -> bool:
        return bool(self.again) or any(w.job is not None for w in self.workers)

    def submit(self, job: Job) -> None:
        """Pass the job to a free worker; wait until there is one."""
        while not self._give(job):
            self.poll(0.5)

    def _give(self, job: Job) -> bool:
        """Pass the job to a worker that is free now; return False if there is none."""
        for worker in [w for w in self.workers if w.ready and w.job is None]:
            try:
                worker.send(job)
                return True
            except OSError:
                # The worker died while it was idle, so the job is not the cause.
                worker.job = None
                self._lose(worker)
        return False

    def finish(self) -> None:
        """Wait until all jobs are done."""
        while self.busy:
            self.poll(0.5)

    def poll(self, seconds: float = 0.0) -> None:
        """Handle replies, and end workers that exceed their time limit."""
        before = time.monotonic()
        events = self.selector.select(seconds)
        slept = time.monotonic() - before
        if slept > seconds + 1:
            # This process was suspended (the machine slept), and so were the workers: extend their time limits.
            for worker in self.workers:
                worker.started += slept - seconds
                if worker.job is not None:
                    worker.job.deadline += slept - seconds
        for key, _ in events:
            self._take(key.data)
        now = time.monotonic()
        for worker in list(self.workers):
            if worker.job is not None and now > worker.job.deadline:
                self._lose(worker, Failure("timeout", f"took longer than {worker.job.seconds:g} s"))
            elif not worker.ready and now - worker.started > START_SECONDS:
                self._lose(worker)
        while self.again and self._give(self.again[0]):
            self.again.pop(0)

    def _take(self, worker: Worker) -> None:
        try:
            answer = worker.read()
        except (EOFError, OSError):
            self._lose(worker, Failure("crash", ""))
            return
        except ValueError as error:
            self._lose(worker, Failure("crash", f"wrote an invalid reply: {error}"))
            return
        if answer is None:
            return
        if not worker.ready:
            worker.ready = True
            self.failed_starts = 0
            return
        job, worker.job = worker.job, None
        if job is not None:
            message, data = answer
            if message.get("unusable"):
                # Start the next worker before the job is reported as done, so that a waiting caller finds it starting.
                self._lose(worker)
            job.done(Failure("error", message["error"]) if "error" in message else (message, data))

    def _lose(self, worker: Worker, why: Failure | None = None) -> None:
        """Replace a worker; its current job, if any, fails."""
        job, worker.job = worker.job, None
        self.selector.unregister(worker.outlet)
        self.workers.remove(worker)
        code = worker.end()
        if not worker.ready:
            self.failed_starts += 1
            if self.failed_starts > 2 * self.size:
                raise TVMError(f"worker processes of the tuner do not start (exit code {code}); see the lines above")
        self._start()
        if job is not None and code == -signal.SIGKILL and why is not None and why.kind == "crash" and not job.retried:
            job.retried = True
            self.again.append(job)
        elif job is not None:
            if why is None or why.kind == "crash" and not str(why):
                why = Failure("crash", f"the process ended{_signal_name(code)}")
            job.done(why)

    def close(self) -> None:
        if os.getpid() != self.owner:
            return
        for worker in self.workers:
            worker.end()
        self.workers = []
        self.selector.close()


def _signal_name(code: int | None) -> str:
    if code is None or code >= 0:
        return f" with exit code {code}"
    try:
        return f" by {signal.Signals(-code).name}"
    except ValueError:
        return f" by signal {-code}"


__all__ = ["HEAD", "START_SECONDS", "Failure", "Job", "Pool", "Worker", "pack"]
