"""What every test may use: one printed seed for all random cases, and this tree in programs the tests start. At the end
of a run the skipped tests are counted by reason; ``TVM_TEST_SKIPPED=path`` writes their names into a file, from which
``pytest @path`` runs them again where more is installed."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path

# Before they are loaded, libraries that tests compare with are told to compute in one thread: what they compute is
# small, and the threads of several test processes would spend their time waiting for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The tests start hundreds of interpreters. Without files of bytecode each of them compiles all of tvm again, which
# takes longer than what most of them do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import numpy
import pytest

try:
    import hypothesis
except ModuleNotFoundError:
    # Tests that need it are skipped.
    hypothesis = None

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # Tests that a shell starts in the background have Ctrl-C ignored, and so would the programs have that they send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.on_target", "tests.every_operator", "tests.sampling", "tests.costs", "tests.programs",
                  "tests.quick_code"]  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent

# Hypothesis would choose its cases by a profile of its own where it believes to be in continuous integration, and by
# what failed on this machine before.
if hypothesis is not None:
    hypothesis.settings.register_profile("suite", derandomize=False, database=None, deadline=None)
    hypothesis.settings.load_profile("suite")


def seed_of_commit() -> int:
    """One seed for each commit: whoever tests it, wherever, sees the same random cases and the same sample.

    Its last digits are the number of commits up to this one, because successive samples have all tests
    (``tests/sampling.py``); the digits before them come from the name of the commit, so that the random cases of
    successive commits do not overlap. Where git has not all commits the name decides on all digits."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        name = int(git("rev-parse", "HEAD")[:7] or "0", 16)
        number = int(git("rev-list", "--count", "HEAD") or 1)
        shallow = git("rev-parse", "--is-shallow-repository") == "true"
    except OSError:
        return 1
    from tests.sampling import SAMPLES

    return name if shallow else name % 2000 * SAMPLES + number


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Set in the environment so that worker processes and programs the tests start have the same seed and tree.
    os.environ["TVM_TEST_SEED"] = os.environ.get("TVM_TEST_SEED") or str(seed_of_commit())
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = os.environ["TVM_TEST_SEED"]
    # What tests compile is compiled, not found in the cache of whoever runs them.
    os.environ.setdefault("TVM_NO_CACHE", "1")
    # Programs that the tests start run in folders of their own, where a relative path is another one.
    paths = [str(ROOT), *map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    if "TVM_TEST_PYTHON" in os.environ:
        # That interpreter has an installed tvm, which is what is tested.
        paths = []
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude the collected tests and their modules, millions of objects that live to the end, from garbage
    collection, and collect the rest less often: it took a sixth of the processor time of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """One process at a time imports a test module: in a fresh clone the first writes the bytecode with rewritten
    assertions, and the other processes of the run read it."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    with open(collector.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test, or a tuner in it, draws from the generators of the process follows the seed and its name too."""
    number = zlib.crc32(f"{os.environ['TVM_TEST_SEED']} {item.nodeid}".encode())
    random.seed(number)
    numpy.random.seed(number)


def pytest_terminal_summary(terminalreporter) -> None:
    skipped = Counter(reason_of(report) for report in terminalreporter.getreports("skipped"))
    if os.environ.get("TVM_TEST_SKIPPED"):
        names = dict.fromkeys(report.nodeid for report in terminalreporter.getreports("skipped"))
        Path(os.environ["TVM_TEST_SKIPPED"]).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")
    terminalreporter.write_line(f"seed of random cases: {os.environ['TVM_TEST_SEED']} (make test SEED=... repeats it)")


def reason_of(report) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run. A failure is repeated with the same TVM_TEST_SEED."""
    return int(os.environ["TVM_TEST_SEED"])


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> numpy.random.Generator:
    """Random numbers that depend on the seed and on the test's name alone, not on which tests ran before."""
    return numpy.random.default_rng([seed, *request.node.nodeid.encode()])


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that runs examples and programs of documents: this one, or one with an installed wheel."""
    return os.environ.get("TVM_TEST_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def sharing_compiled_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of programs that compile whole models: in one run, what one has compiled the others find."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    environment = {**os.environ, "TVM_CACHE_DIR": str(folder / "compiled-models")}
    environment.pop("TVM_NO_CACHE", None)
    return environment


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the source tree."""
    return ROOT
