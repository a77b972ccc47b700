"""What every test may use: one printed seed for all random cases, and this tree in programs the tests start."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # Tests that a shell starts in the background have Ctrl-C ignored, and so would the programs have that they send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.on_target"]

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    # Set in the environment so that worker processes and programs the tests start have the same seed and tree.
    os.environ.setdefault("TVM_TEST_SEED", str(int(time.time())))
    # What tests compile is compiled, not found in the cache of whoever runs them.
    os.environ.setdefault("TVM_NO_CACHE", "1")
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.write_line(f"seed of random cases: {os.environ['TVM_TEST_SEED']} (make test SEED=... repeats it)")


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run. A failure is repeated with the same TVM_TEST_SEED."""
    return int(os.environ["TVM_TEST_SEED"])


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> numpy.random.Generator:
    """Random numbers that depend on the seed and on the test's name alone, not on which tests ran before."""
    return numpy.random.default_rng([seed, *request.node.nodeid.encode()])


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the source tree."""
    return ROOT
