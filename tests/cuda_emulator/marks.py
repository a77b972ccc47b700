"""The mark of tests that run on the emulator of CUDA, or with ``TVM_CUDA_REAL=1`` on a GPU."""

from __future__ import annotations

import pytest

from tests.cuda_emulator import REAL, compiler

needs_emulator = pytest.mark.skipif(not REAL and compiler() is None, reason="the emulator needs a C++ compiler")
