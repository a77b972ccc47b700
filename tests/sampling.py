"""A run of a part of the suite: with ``TVM_TEST_SHARE=2`` a test with many cases runs every second of them, and of the
tests marked slow every second one is run. Which ones follows the seed, so that in a row of commits all of them are
run."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Collection

import pytest

# Fewer cases than this are all run.
MANY = 6


def sampled(names: list[str], share: int, seed: int, slow: Collection[str] = ()) -> set[str]:
    """The names of the cases that are run: of every test with many cases one in ``share``, of all slow ones together
    one in ``share``, the others whole."""
    by_test = defaultdict(list)
    for name in names:
        by_test["slow" if name in slow else name.partition("[")[0]].append(name)
    kept: set[str] = set()
    for test, cases in by_test.items():
        first = zlib.crc32(f"{seed} {test}".encode()) % share
        kept.update(cases[first::share] if len(cases) >= MANY else cases)
    return kept


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share = int(os.environ.get("TVM_TEST_SHARE") or 1)
    if share <= 1:
        return
    slow = {item.nodeid for item in items if item.get_closest_marker("slow")}
    kept = sampled([item.nodeid for item in items], share, int(os.environ["TVM_TEST_SEED"]), slow)
    left = [item for item in items if item.nodeid not in kept]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_report_header() -> str | None:
    share = os.environ.get("TVM_TEST_SHARE") or "1"
    if share == "1":
        return None
    return f"of slow tests and of tests with {MANY} cases or more one in {share} is run, by the seed"
