"""The library of devices that the tests in C use, for tests in Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tvm import runtime

SOURCE = Path(__file__).resolve().parent.parent / "csrc" / "tests" / "fake_device.c"


def build_fake_device(folder: Path) -> str:
    """The compiled library: devices "abacus" (type 90) and "ext_dev", whose memory is the host's."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    path = str(folder / "fake_device.so")
    options = ["-O1", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{runtime.include_path()}"]
    subprocess.run([compiler, *options, "-o", path, str(SOURCE)], check=True)
    return path
