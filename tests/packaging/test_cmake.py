"""The CMake package: a program that finds the installed runtime and its C++ header with ``find_package``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTS = """
cmake_minimum_required(VERSION 3.18)
project(program LANGUAGES CXX)
find_package(tvm-classic 0.14 REQUIRED)
add_executable(program main.cpp)
target_compile_features(program PRIVATE cxx_std_17)
target_link_libraries(program PRIVATE tvm-classic::tvm_runtime)
"""
SOURCE = """
#include <tvm/classic.hpp>
int main() { return tvm::classic::Device::cpu().exists() ? 0 : 1; }
"""


def run(*command: object, cwd: Path) -> None:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow("compiles the runtime")
def test_find_package_finds_the_installed_runtime(tmp_path: Path):
    if not shutil.which("cmake") or not shutil.which("g++"):
        pytest.skip("cmake or g++ is not installed")
    prefix, program = tmp_path / "prefix", tmp_path / "program"
    # The library of the source tree stays as it is.
    options = [f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={tmp_path / 'lib'}", "-DCMAKE_BUILD_TYPE=Debug"]
    run("cmake", "-S", ROOT, "-B", "build", *options, cwd=tmp_path)
    run("cmake", "--build", "build", "--parallel", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "1"), cwd=tmp_path)
    run("cmake", "--install", "build", "--prefix", prefix, cwd=tmp_path)
    assert (prefix / "include" / "tvm" / "classic" / "tensor.hpp").is_file()
    program.mkdir()
    (program / "CMakeLists.txt").write_text(LISTS)
    (program / "main.cpp").write_text(SOURCE)
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=program)
    run("cmake", "--build", "build", cwd=program)
    run(program / "build" / "program", cwd=tmp_path)
