"""Fair timing of several programs on one machine: each runs in its own process, suspended while another runs.

Rounds are interleaved, so drift of the machine affects all programs equally, and the order of the programs rotates, so
that no program always runs after the same one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..runtime.module_process import ROOT, module_command

# A longer inference is timed individually; shorter ones are repeated until a round takes this long.
ROUND_SECONDS = 0.02


def percentile(values: Sequence[float], p: float) -> float:
    """Return the value that ``p`` percent do not exceed, interpolated between neighbours."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * p / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


class WorkerFailed(RuntimeError):
    """A worker ended or could not start."""


class Worker:
    """A program in a separate process, which is suspended while it has no request.

    ``spec`` contains the program (``peer``) and a ``folder`` for its output; ``module`` is the module that serves it,
    from the packages in the folder ``root``.
    """

    def __init__(
        self,
        spec: dict,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        module: str = "tvm.utils.peers",
        root: str | Path = ROOT,
    ):
        self.name = spec["peer"]
        # The libraries of this interpreter may be in the folder of the package; another interpreter has its own.
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        known = {"PYTHONPATH": path} if python == sys.executable else {}
        # Files are opened only after the process was started, so that a failed start leaves no open files.
        self.log = open(os.path.join(spec["folder"], self.name + ".log"), "w+")
        try:
            self.process = subprocess.Popen(
                module_command(module, json.dumps(spec), python=python, root=root),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
                env={**os.environ, **known, **(environment or {})},
            )
        except OSError as problem:
            self.log.close()
            raise WorkerFailed(f"{self.name}: {python}: {problem.strerror or problem}") from problem
        self.facts: dict = {}

    def first(self) -> dict:
        """Wait until the program is loaded."""
        self.facts = self._answer()
        self.stop()
        return self.facts

    def _answer(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.log.seek(0)
        lines = [text.strip() for text in self.log.read().splitlines() if text.strip()]
        said = lines[-1].removeprefix("RuntimeError: ") if lines else f"ended with {self.process.returncode}"
        raise WorkerFailed(f"{self.name}: {said}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **request: object) -> dict:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            # A process that has ended is detected by its missing reply.
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        got = self._answer()
        self.stop()
        return got

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def runs_in_a_round(workers: Mapping[str, Worker], warm_up: int) -> dict[str, float]:
    """Return the minimum seconds of one run of each program over the warm-up rounds."""
    return {name: min(worker.ask(number=1)["seconds"] for _ in range(warm_up)) for name, worker in workers.items()}


def in_turn(
    workers: Mapping[str, Worker],
    numbers: Mapping[str, int],
    rounds: int,
    takes_part: Callable[[str, int], bool] = lambda name, turn: True,
    between: Callable[[int], object] | None = None,
) -> dict[str, dict[int, dict]]:
    """Return the replies of the programs by round, each for ``numbers`` runs; ``between`` is called once per round."""
    answers: dict[str, dict[int, dict]] = {name: {} for name in workers}
    order = list(workers)
    for turn in range(rounds):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            if takes_part(name, turn):
                answers[name][turn] = workers[name].ask(number=numbers[name])
        if between is not None:
            between(turn)
    return answers


def missing(modules: Sequence[str], python: str = sys.executable) -> str:
    """Return the first of ``modules`` that ``python`` cannot import, or an empty text."""
    code = f"import importlib.util as u; print(*[n for n in {tuple(modules)!r} if u.find_spec(n) is None][:1])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return python
    return done.stdout.strip()


__all__ = ["ROOT", "ROUND_SECONDS", "Worker", "WorkerFailed", "in_turn", "missing", "percentile", "runs_in_a_round"]
