"""A library of hand-written kernels that follow the binary interface, built once per session."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tvm import runtime

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler")
    return found


@pytest.fixture(scope="session")
def kernel_path(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("kernels") / "kernels.so")
    source = os.path.join(HERE, "kernels.c")
    subprocess.run(
        [compiler, "-O2", "-std=c11", "-shared", "-fPIC", f"-I{runtime.include_path()}", "-o", path, source], check=True
    )
    return path


@pytest.fixture(scope="session")
def kernels(kernel_path: str) -> runtime.Module:
    return runtime.load_module(kernel_path)
