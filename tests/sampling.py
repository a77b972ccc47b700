"""A sample of the suite: with ``TVM_TEST_PARTS=10`` a run has about one in ten of the tests, chosen by the seed.

Each folder of tests is in every sample with at least one of its files, and every operator of Relay with a test that
runs it (``tests/every_operator.py``). Thirty successive seeds run every test. Files that are not chosen are not
imported, since importing all test modules takes longer than running the sample.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.every_operator import FILES, runs_operators

TESTS = Path(__file__).resolve().parent
# A folder with more files than this is divided into this number of parts; a smaller one has a part for each file.
FILE_PARTS = 6
# The seeds are divided into blocks of at most this length, and the samples of one block have every test, in an order
# that is drawn for the block. Thirty successive seeds contain a whole block.
BLOCK = 15
# The sample follows the last digits of the seed, which are the number of the commit (tests/conftest.py).
SAMPLES = 100_000


def parts_of_folder(files: int, parts: int) -> int:
    """The number of parts into which the files of a folder are divided."""
    return min(files, FILE_PARTS, parts)


def place(folder: str, turns: int, seed: int) -> tuple[int, int]:
    """Which of the ``turns`` parts of a folder a sample has, and which part of the tests in its files, of
    ``BLOCK // turns``."""
    block = BLOCK // turns * turns
    seed %= SAMPLES
    order = random.Random(f"{folder} {seed // block}").sample(range(block), block)
    part, file_part = divmod(order[seed % block], turns)
    return file_part, part


def chosen_files(files: Sequence[str], parts: int, seed: int) -> set[str]:
    """The files of a sample, at least one of every folder. Files are named by their paths."""
    by_folder = defaultdict(list)
    for name in sorted(files):
        by_folder[name.rpartition("/")[0]].append(name)
    chosen: set[str] = set()
    for folder, names in by_folder.items():
        turns = parts_of_folder(len(names), parts)
        chosen.update(names[place(folder, turns, seed)[0] :: turns])
    return chosen


def chosen_tests(
    tests: Sequence[str], slow: Collection[str], parts: int, turns: int, part: int, always: Collection[str] = ()
) -> set[str]:
    """The tests that a sample has of one of its files.

    Parameters
    ----------
    tests : Sequence[str]
        The tests of the file in their order.
    slow : Collection[str]
        Those of them that take long, of which a sample has fewer.
    parts : int
        The sample is about one in so many tests.
    turns : int
        The sample has the file because it is one in so many of its folder.
    part : int
        The part of the tests of the file, from ``place``.
    always : Collection[str]
        The tests that every sample has.
    """
    kept = set(always)
    quick = [name for name in tests if name not in slow]
    slow = [name for name in tests if name in slow]
    most = BLOCK // turns
    for names, share in ((quick, min(most, max(1, parts // turns))), (slow, most)):
        if names is quick or not quick:
            # A file of few tests, or of few that are all slow, is in the sample with one of them.
            share = max(1, min(share, len(names)))
        kept.update(names[part % share :: share])
    return kept


def parts_of_run() -> int:
    """Of how many parts of the suite this run has one; 1 where it has all tests."""
    return int(os.environ.get("TVM_TEST_PARTS") or 1)


class Sample:
    """The plugin that leaves out the tests which are not in the sample."""

    def __init__(self, config: pytest.Config):
        self.parts, self.seed = parts_of_run(), int(os.environ["TVM_TEST_SEED"])
        self.files = [path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")]
        self.sizes = Counter(name.rpartition("/")[0] for name in self.files)
        self.chosen = chosen_files(self.files, self.parts, self.seed) | FILES
        self.collected = self.kept = 0
        self.config = config

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or TESTS not in collection_path.parents:
            return None
        name = collection_path.relative_to(TESTS.parent).as_posix()
        return None if name in self.chosen else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        by_file = defaultdict(list)
        for item in items:
            by_file[item.nodeid.partition("::")[0]].append(item)
        kept: set[str] = set()
        for name, of_file in by_file.items():
            tests = [item.nodeid for item in of_file]
            slow = {item.nodeid for item in of_file if item.get_closest_marker("slow")}
            always = {test for test in tests if runs_operators(test)}
            folder = name.rpartition("/")[0]
            # Every sample has the files with the tests of operators, so these are not divided by files.
            turns = 1 if name in FILES else parts_of_folder(self.sizes[folder], self.parts)
            kept |= chosen_tests(tests, slow, self.parts, turns, place(folder, turns, self.seed)[1], always)
        left = [item for item in items if item.nodeid not in kept]
        self.collected, self.kept = len(items), len(kept)
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid in kept]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self.collected, self.kept = getattr(node, "workeroutput", {}).get("sample", (self.collected, self.kept))

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["sample"] = self.collected, self.kept

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(
                f"a sample of one in {self.parts} tests, from {len(self.chosen)} of {len(self.files)} test files, "
                f"by seed {self.seed}; `make test-all` runs all tests"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.write_line(
            f"this was a sample: {self.kept} of the {self.collected} tests in {len(self.chosen)} of {len(self.files)} "
            f"test files; `make test SEED={self.seed}` repeats it, `make test-all` runs all tests"
        )


def pytest_configure(config: pytest.Config) -> None:
    if parts_of_run() > 1:
        config.pluginmanager.register(Sample(config), "sample")
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        # This process runs tests, and what they start is not a sample.
        os.environ.pop("TVM_TEST_PARTS", None)
