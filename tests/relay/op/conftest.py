"""What tests of Relay operators share."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def quickly_compiled(quick_code) -> None:
    """Tests of operators compare numbers, which are the same without the optimizations of LLVM."""
