"""The Rust crate in ``rust/``: its tests and its example, compiled by cargo without a network."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.programs import Programs
from tests.runtime.bindings import cases
from tvm import runtime

CRATE = cases.ROOT / "rust"
FOLDER = str(Path(runtime.find_library()).parent)

# A program that runs the programs of the tests, such as valgrind.
_MACHINE = f"{platform.machine()}_unknown_linux_gnu".upper()
RUNNER = {f"CARGO_TARGET_{_MACHINE}_RUNNER": os.environ["TVM_TEST_RUNNER"]} if "TVM_TEST_RUNNER" in os.environ else {}

Cargo = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def cargo(tmp_path_factory) -> Cargo:
    """Runs cargo on a copy of the crate; variables of the environment are keywords."""
    program = shutil.which("cargo")
    if program is None:
        pytest.skip("cargo is not installed")
    folder = tmp_path_factory.mktemp("rust")
    crate = Path(shutil.copytree(CRATE, folder / "crate", ignore=shutil.ignore_patterns("target", "Cargo.lock")))

    def cargo(command: str, *options: object, cwd: Path = crate, **variables: str) -> subprocess.CompletedProcess:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TVM_")}
        words = [program, command, "--offline", "--quiet", *map(str, options)]
        environment = {**kept, **RUNNER, "CARGO_TARGET_DIR": str(folder / "target"), **variables}
        return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)

    return cargo


def passed(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow("compiles Rust")
def test_calls_and_errors(cargo: Cargo, kernel_path: str):
    done = cargo("test", "--test", "calls", TVM_LIBRARY_PATH=FOLDER, TVM_TEST_KERNELS=kernel_path)
    assert "9 passed" in passed(done) and "warning" not in done.stderr
    assert "compile fail ... ok" in passed(cargo("test", "--doc", "--", "--format", "pretty"))


@pytest.mark.slow("compiles Rust")
def test_the_library_is_linked_or_opened(cargo: Cargo):
    assert "9 passed" in passed(cargo("test", "--test", "calls", TVM_CLASSIC_LIB_DIR=FOLDER))
    missing = cargo("build", TVM_CLASSIC_LIB_DIR="/nowhere")
    assert missing.returncode and "TVM_CLASSIC_LIB_DIR: there is no file /nowhere/libtvm_runtime.so" in missing.stderr
    done = cargo("run", "--example", "classify", "--", "a.tar", "b.ppm", "c.txt", TVM_LIBRARY_PATH="/nowhere")
    assert done.returncode == 1 and "b.ppm" in done.stderr
    done = cargo("test", "--test", "calls", TVM_LIBRARY_PATH="/nowhere")
    assert done.returncode and "cannot open /nowhere" in done.stdout and "set TVM_LIBRARY_PATH" in done.stdout


@pytest.mark.slow("compiles Rust and models")
@pytest.mark.parametrize("kind", cases.KINDS)
def test_outputs_are_those_of_python(cargo: Cargo, kind: str, tmp_path: Path, rng: np.random.Generator):
    case = cases.compile_model(kind, tmp_path, rng)
    variables = {"TVM_TEST_MODEL": str(case.model), "TVM_TEST_DATA": str(case.data), "TVM_LIBRARY_PATH": FOLDER}
    variables.update(case.variables)
    assert "2 outputs are equal" in passed(cargo("test", "--test", "package", "--", "--nocapture", **variables))


@pytest.mark.slow("compiles Rust and models")
def test_the_example_names_a_photo(cargo: Cargo, tmp_path: Path, rng: np.random.Generator):
    case = cases.photo_case(tmp_path, rng)

    def classify(*files: Path) -> subprocess.CompletedProcess:
        return cargo("run", "--example", "classify", "--", *files, TVM_LIBRARY_PATH=FOLDER)

    case.check(passed(classify(case.model, case.photo, case.labels)))
    cases.compile_model("graph.so", tmp_path, rng)
    for *files, message in cases.EXAMPLE_ERRORS:
        done = classify(*(tmp_path / name for name in files))
        assert done.returncode == 1 and message in done.stderr, done.stderr
    assert classify().returncode == 2


@pytest.mark.slow("compiles Rust and a model")
def test_the_program_of_the_page(cargo: Cargo, programs: Programs, tmp_path: Path):
    python, program, printed = cases.page_programs("howto_rust", "rust")
    assert programs.run(["-c", python], tmp_path).returncode == 0
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(program)
    lines = ['[package]', 'name = "page"', 'version = "0.1.0"', 'edition = "2021"', "[dependencies]",
             f'tvm-classic = {{ path = "{CRATE}" }}']  # fmt: skip
    (tmp_path / "Cargo.toml").write_text("\n".join(lines))
    assert passed(cargo("run", cwd=tmp_path, TVM_LIBRARY_PATH=FOLDER)) == printed


@pytest.mark.slow("compiles Rust and loads many files")
@pytest.mark.parametrize("kind", cases.DAMAGED)
def test_damaged_models_return_errors(cargo: Cargo, kind: str, tmp_path: Path, rng: np.random.Generator, seed: int):
    case = cases.compile_model(kind, tmp_path, rng)
    variables = {"TVM_FUZZ_FILE": str(case.model), "TVM_FUZZ_CASES": os.environ.get("TVM_FUZZ_CASES", "200"),
                 "TVM_TEST_SEED": str(seed), "TVM_LIBRARY_PATH": FOLDER}  # fmt: skip
    print(passed(cargo("test", "--test", "fuzz", "--", "--nocapture", **variables)))
