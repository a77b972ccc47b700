"""Machine code that is made quickly, for tests of what a schedule or a graph computes."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from tests.sampling import SAMPLES

# Of so many successive commits, one has the usual machine code in a test.
ROUNDS = 6


def has_usual_code(test: str, seed: int) -> bool:
    """Whether this test has the machine code of users in a run with this seed, which ends with the number of the
    commit (``tests/conftest.py``)."""
    return (seed % SAMPLES + zlib.crc32(test.encode())) % ROUNDS == 0


@contextmanager
def quick_code() -> Iterator[None]:
    """A scope in which LLVM does not optimize, except in one of six tests, which follow the commit.

    LLVM takes half of the processor time of a test that compiles and runs a kernel, and a fifth of that without
    optimizing. The numbers must be the same. Not for tests that look at machine code or measure it."""
    from tvm.codegen.llvm import build

    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
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
