"""OpenCL where there is no driver, or no library. No device is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def printed(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", f"import tvm\n{code}"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout


def library_without_platforms(folder: Path) -> str:
    """An OpenCL library that finds no driver. Of those that machines have, some look for drivers in fixed folders."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    # Every function fails with CL_PLATFORM_NOT_FOUND_KHR.
    header = ROOT / "csrc" / "src" / "devices" / "opencl" / "opencl.h"
    names = re.findall(r"X\(\w+, (cl\w+),", header.read_text(encoding="utf-8"))
    (folder / "opencl.c").write_text("".join(f"int {name}(void) {{ return -1001; }}\n" for name in names))
    path = str(folder / "libOpenCL.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, str(folder / "opencl.c")], check=True)
    return path


def test_missing_driver_is_one_clear_error(tmp_path):
    code = "try: tvm.nd.empty((1,), device=tvm.cl(0))\nexcept tvm.TVMError as e: print(e, tvm.cl(0).exist)"
    nowhere = printed(code, TVM_OPENCL_LIBRARY="/nowhere/libOpenCL.so")
    assert "opencl(0): cannot open the library '/nowhere/libOpenCL.so'" in nowhere and "False" in nowhere
    library = library_without_platforms(tmp_path)
    assert "opencl(0): no OpenCL platform found: install a driver" in printed(code, TVM_OPENCL_LIBRARY=library)
