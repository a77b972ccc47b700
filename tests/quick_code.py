"""Machine code that is made quickly, for tests of what a schedule or a graph computes."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest import mock

import pytest

from tests.sampling import SAMPLES

# Of so many successive commits, one has the usual machine code in a test.
ROUNDS = 6
# Tests in these folders have machine code that is made quickly, except those with the mark ``usual_code``.
FOLDERS = ("tests/auto_scheduler/", "tests/fuzz/", "tests/relay/", "tests/te/", "tests/tir/", "tests/topi/")


def has_usual_code(test: str, seed: int) -> bool:
    """Whether this test has the machine code of users in a run with this seed, which ends with the number of the
    commit (``tests/conftest.py``)."""
    return (seed % SAMPLES + zlib.crc32(test.encode())) % ROUNDS == 0


@contextmanager
def quick_code(test: str = "") -> Iterator[None]:
    """A scope in which LLVM does not optimize, except in one of six tests, which follow the commit.

    LLVM takes half of the processor time of a test that compiles and runs a kernel, and a fifth of that without
    optimizing. The numbers must be the same. Not for tests that look at machine code or measure it.

    Parameters
    ----------
    test : str
        The test that runs in the scope; empty for the current one.
    """
    from tvm.codegen.llvm import build

    test = test or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if has_usual_code(test, int(os.environ.get("TVM_TEST_SEED") or 1)):
        yield
        return
    with mock.patch.object(build, "opt_level", lambda target, module: 0):
        yield


@pytest.fixture(name="quick_code")
def quick_code_of_a_test() -> Iterator[None]:
    """``quick_code`` in a whole test."""
    with quick_code():
        yield


def is_quick(item: pytest.Item) -> bool:
    """Whether a test has machine code that is made quickly."""
    return item.nodeid.startswith(FOLDERS) and item.get_closest_marker("usual_code") is None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """``quick_code`` in the tests of ``FOLDERS`` and their fixtures."""
    with quick_code(item.nodeid) if is_quick(item) else nullcontext():
        return (yield)


def pytest_configure() -> None:
    """PoCL too compiles kernels without optimizing, which takes it two thirds of the time."""
    if not has_usual_code("PoCL", int(os.environ["TVM_TEST_SEED"])):
        os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
