"""oneDNN for tests: the library of the package ``onednn-cpu-gomp``, of the system, or of ``TVM_DNNL_LIBRARY``."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

import pytest


@functools.cache
def found() -> str:
    """The path of oneDNN version 3; empty if it is not installed."""
    for path in (os.environ.get("TVM_DNNL_LIBRARY", ""), str(Path(sys.prefix, "lib", "libdnnl.so.3")), "libdnnl.so.3"):
        try:
            if path:
                ctypes.CDLL(path)
                return path
        except OSError:
            continue
    return ""


def use() -> None:
    """Make the runtime open the library, or skip the test."""
    if not found():
        pytest.skip("oneDNN version 3 is not installed (pip install onednn-cpu-gomp)")
    os.environ.setdefault("TVM_DNNL_LIBRARY", found())
