"""The C++ header ``tvm/classic.hpp``: programs of ``tests/runtime/bindings`` and the example of ``apps/deploy_cpp``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.programs import Programs
from tests.runtime.bindings import cases
from tvm import runtime

SOURCES = Path(__file__).resolve().parent / "bindings"
EXAMPLE = cases.ROOT / "apps" / "deploy_cpp" / "main.cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
# A program that runs the programs of the tests, such as valgrind, which the sanitizers exclude.
RUNNER = os.environ.get("TVM_TEST_RUNNER", "").split()
SANITIZE = [] if RUNNER else ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# A library built with the sanitizers; `python -m tools fuzz bindings` builds one. All programs are then sanitized.
LIBRARY = Path(os.environ.get("TVM_FUZZ_LIBRARY") or runtime.find_library())
ALWAYS = SANITIZE if "TVM_FUZZ_LIBRARY" in os.environ else []

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    """Compiles a source once, with warnings as errors."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    folder, built = tmp_path_factory.mktemp("cpp"), {}

    def build(source: Path, *flags: str, library: Path = LIBRARY) -> Path:
        program = folder / source.stem
        if source not in built:
            link = [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-ltvm_runtime", "-pthread"]
            options = ["-std=c++17", *WARNINGS, *ALWAYS, *flags, f"-I{cases.ROOT / 'csrc' / 'include'}"]
            subprocess.run([compiler, *options, source, *link, "-o", program], check=True)
            built[source] = program
        return program

    return build


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [*RUNNER, *map(str, command)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow("compiles C++ with sanitizers")
def test_calls_and_errors_with_exceptions(build: Build, kernel_path: str):
    assert run(build(SOURCES / "calls.cpp", *SANITIZE), kernel_path) == "all calls are correct\n"


@pytest.mark.slow("compiles C++")
def test_calls_and_errors_without_exceptions(build: Build, kernel_path: str):
    assert run(build(SOURCES / "results.cpp", "-fno-exceptions"), kernel_path) == "all results are correct\n"


@pytest.mark.slow("compiles C++ and models")
@pytest.mark.parametrize("kind", cases.KINDS)
def test_outputs_are_those_of_python(build: Build, kind: str, tmp_path: Path, rng: np.random.Generator):
    case = cases.compile_model(kind, tmp_path, rng)
    assert run(build(SOURCES / "package.cpp"), case.model, case.data, **case.variables) == "2 outputs are equal\n"


@pytest.mark.slow("compiles C++ and models")
def test_the_example_names_a_photo(build: Build, tmp_path: Path, rng: np.random.Generator):
    program, case = build(EXAMPLE, "-O2"), cases.photo_case(tmp_path, rng)
    case.check(run(program, case.model, case.photo, case.labels))
    # Without an environment, and the dynamic loader lists the libraries that are opened.
    words = [program, case.model, case.photo, case.labels]
    opened = subprocess.run(words, env={"LD_DEBUG": "files"}, capture_output=True, text=True).stderr
    assert "libtvm_runtime.so" in opened and "libpython" not in opened
    cases.compile_model("graph.so", tmp_path, rng)
    for *files, message in cases.EXAMPLE_ERRORS:
        done = subprocess.run([program, *(tmp_path / name for name in files)], capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr, done.stderr
    assert subprocess.run([program], capture_output=True).returncode == 2


@pytest.mark.slow("compiles C++ and a model")
def test_the_program_of_the_page(build: Build, programs: Programs, tmp_path: Path):
    python, program, printed = cases.page_programs("howto_cpp", "cpp")
    assert programs.run(["-c", python], tmp_path).returncode == 0
    source = tmp_path / "page.cpp"
    source.write_text(program)
    assert subprocess.run([build(source)], cwd=tmp_path, capture_output=True, text=True).stdout == printed


@pytest.mark.slow("compiles C++ and loads many files")
@pytest.mark.parametrize("kind", cases.DAMAGED)
def test_damaged_models_return_errors(build: Build, kind: str, tmp_path: Path, rng: np.random.Generator, seed: int):
    program, case = build(SOURCES / "fuzz.cpp", *SANITIZE), cases.compile_model(kind, tmp_path, rng)
    options = "allocator_may_return_null=1:max_allocation_size_mb=512"
    count = os.environ.get("TVM_FUZZ_CASES", "200")
    print(run(program, case.model, tmp_path, count, seed, ASAN_OPTIONS=options))
