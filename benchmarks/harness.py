"""Fair timing of several programs on one machine: each has its own process, which is stopped while another one runs.

A peer is a Python function that prepares a program and returns a callable; one call is one round and returns its
seconds. Rounds are interleaved, so changes of the machine's speed affect all peers; the reported time is the 20th
percentile.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.utils.rounds import percentile

# Rounds that run in any case, also after the time limit.
LEAST_ROUNDS = 5


@dataclass
class Result:
    name: str
    seconds: list[float]

    @property
    def p20(self) -> float:
        return percentile(self.seconds, 20)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def interval(self, draws: int = 400) -> tuple[float, float]:
        """Return a 95 % bootstrap interval of the 20th percentile."""
        rng = random.Random(0)
        n = len(self.seconds)
        got = sorted(percentile([self.seconds[rng.randrange(n)] for _ in range(n)], 20) for _ in range(draws))
        return got[int(draws * 0.025)], got[int(draws * 0.975)]


def commit() -> str:
    """Return the commit of the compiler, with -changed where its sources differ from the commit."""
    git = ["git", "-C", os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    done = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if done.returncode:
        return "unknown"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "tvm", "csrc"], capture_output=True)
    return done.stdout.strip() + ("-changed" if changed.returncode else "")


class PeerEnded(RuntimeError):
    """A program ended unexpectedly: ``name`` is its peer."""

    def __init__(self, name: str, what: str):
        super().__init__(f"benchmark '{name}' ended before it printed '{what}'")
        self.name = name


class Peer:
    """A worker process that runs one benchmark function, round by round."""

    def __init__(
        self, name: str, function: str, environment: dict[str, str] | None = None, python: str = sys.executable
    ):
        self.name = name
        env = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.harness", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            self._read("ready")
        except BaseException:
            self.close()
            raise
        self.stop()

    def _read(self, what: str) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise PeerEnded(self.name, what)
        return line.strip()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def round(self) -> float:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        seconds = float(self._read("a time"))
        self.stop()
        return seconds

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def interleave(
    peers: dict[str, tuple[Any, ...]],
    rounds: int = 100,
    between: Callable[[], object] | None = None,
    seconds: float = math.inf,
) -> dict[str, Result]:
    """Time the peers in turn and return their results.

    A peer is given by its name, its function "module:name", its environment and optionally its Python. ``between`` runs
    once per round. After ``seconds`` no new round starts, except for the first ``LEAST_ROUNDS``.
    """
    started: list[Peer] = []
    try:
        for name, how in peers.items():
            started.append(Peer(name, *how))
        for peer in started:
            peer.round()
        results = {peer.name: Result(peer.name, []) for peer in started}
        begin = time.monotonic()
        for number in range(rounds):
            if number >= LEAST_ROUNDS and time.monotonic() - begin > seconds:
                break
            for peer in started:
                results[peer.name].seconds.append(peer.round())
            if between is not None:
                between()
        return results
    finally:
        for peer in started:
            peer.close()


def save(path: str, data: dict | list) -> None:
    temporary = path + ".part"
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(temporary, path)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # The program's own prints must not mix with the answers.
    os.dup2(2, 1)
    module, _, name = sys.argv[1].partition(":")
    run = getattr(importlib.import_module(module), name)()
    print("ready", file=answers)
    for _ in sys.stdin:
        print(repr(run()), file=answers)


if __name__ == "__main__":
    main()
