"""Programs that share a machine with a GPU: they start when cores are free, time in turn, and are stopped at their
limits."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import turns


@dataclass
class Job:
    """A program.

    A program with ``times`` asks for its turn on the GPU; the others are checks, which run before any turn. A program
    with ``alone`` starts when all others have ended. ``missing`` is the reason why it cannot run here.
    """

    name: str
    part: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    # Limits of work and of a turn, in seconds; waiting for a turn does not count.
    seconds: float = 120.0
    turn_seconds: float = 60.0
    times: bool = False
    alone: bool = False
    missing: str = ""


@dataclass
class Outcome:
    """The outcome of a job: "passed", "failed", "took too long", or the reason why it did not run."""

    name: str
    part: str
    status: str
    seconds: float = 0.0
    turn: float = 0.0
    code: int | None = None


class _Running:
    def __init__(self, job: Job, process: subprocess.Popen, log: str):
        self.job, self.process, self.log = job, process, log
        self.started = time.monotonic()
        # Seconds of work before the turn, once the job waits for it or has it; seconds of finished turns.
        self.worked = self.turned = 0.0
        self.waits = False
        self.turn_began: float | None = None

    @property
    def work(self) -> float:
        if self.waits or self.turn_began is not None:
            return self.worked
        return time.monotonic() - self.started

    @property
    def turn(self) -> float:
        return self.turned + (0.0 if self.turn_began is None else time.monotonic() - self.turn_began)

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Machine:
    """Runs jobs on ``cores`` cores; logs are written to ``folder``."""

    def __init__(self, jobs: Sequence[Job], folder: str, cores: int, seconds: float,
                 tell: Callable[[str], object] = print):  # fmt: skip
        self.waiting = [job for job in jobs if not job.missing]
        self.outcomes = [Outcome(job.name, job.part, job.missing) for job in jobs if job.missing]
        self.running: dict[str, _Running] = {}
        self.folder, self.cores, self.tell = folder, cores, tell
        self.begin = time.monotonic()
        self.end = self.begin + seconds

    def run(self) -> list[Outcome]:
        """Run all jobs; stop the jobs that exceed a limit."""
        os.makedirs(self.folder, exist_ok=True)
        # Socket names must be short.
        with tempfile.TemporaryDirectory(prefix="gpu") as folder:
            path = os.path.join(folder, "turns")
            self.turns = turns.Turns(path)
            try:
                while self.waiting or self.running:
                    self._start_what_fits(path)
                    self.turns.poll(0.05)
                    self._look()
                    if time.monotonic() > self.end:
                        break
            finally:
                self._stop_all()
                self.turns.close()
        return self.outcomes

    def _busy(self) -> int:
        return sum(1 if r.turn_began is not None else r.job.cores for r in self.running.values() if not r.waits)

    def _start_what_fits(self, path: str) -> None:
        for job in list(self.waiting):
            if job.alone and (self.running or any(not other.alone for other in self.waiting)):
                continue
            if self._busy() + min(job.cores, self.cores) > self.cores:
                continue
            self.waiting.remove(job)
            log = os.path.join(self.folder, f"{job.name}.txt")
            environment = {**os.environ, **job.environment, turns.SOCKET: path, turns.NAME: job.name}
            with open(log, "wb") as file:
                try:
                    process = subprocess.Popen(job.command, stdout=file, stderr=subprocess.STDOUT, env=environment,
                                               stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
                except OSError as error:
                    self.outcomes.append(Outcome(job.name, job.part, f"cannot be started: {error}"))
                    continue
            self.running[job.name] = _Running(job, process, log)
            if job.alone:
                break

    def _look(self) -> None:
        for name, found in list(self.running.items()):
            if not found.waits and found.turn_began is None and name in self.turns.asking:
                found.worked, found.waits = found.work, True
            if found.turn_began is not None and self.turns.holder != name and found.process.poll() is None:
                # The program ended its turn and continues to work.
                found.turned, found.turn_began = found.turn, None
                found.started = time.monotonic() - found.worked
            code = found.process.poll()
            if code is not None:
                self._done(found, "passed" if code == 0 else "failed", code)
            elif found.work > found.job.seconds or found.turn > found.job.turn_seconds:
                found.stop()
                self._done(found, "took too long", None)
        checks = [*self.waiting, *(r.job for r in self.running.values())]
        if all(job.times for job in checks):
            granted = self.turns.grant()
            if granted in self.running:
                self.running[granted].waits, self.running[granted].turn_began = False, time.monotonic()

    def _done(self, found: _Running, status: str, code: int | None) -> None:
        seconds, turn = found.work, found.turn
        outcome = Outcome(found.job.name, found.job.part, status, seconds, turn, code)
        self.outcomes.append(outcome)
        del self.running[found.job.name]
        after = time.monotonic() - self.begin
        self.tell(f"{after:5.0f} s  {outcome.name}: {status}, {seconds:.0f} s" + (f" and {turn:.0f} s" if turn else ""))

    def _stop_all(self) -> None:
        for found in list(self.running.values()):
            found.stop()
            self._done(found, "stopped: no time was left", None)
        self.outcomes += [Outcome(job.name, job.part, "not run: no time was left") for job in self.waiting]
        self.waiting = []


__all__ = ["Job", "Machine", "Outcome"]
