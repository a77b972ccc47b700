"""Both wheels are built, installed into empty environments and used there: one compiles and exports, both run it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheels")]

EXPORT = """
import sys, numpy, tvm
from tvm import te
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")
s = te.create_schedule(B.op)
s[B].parallel(s[B].split(B.op.axis[0], 64)[0])
tvm.build(s, [A, B], "llvm", name="affine").export_library(sys.argv[1])
"""
RUN = """
import sys, numpy, tvm
function = tvm.runtime.load_module(sys.argv[1])["affine"]
x = numpy.arange(1000, dtype="float32")
y = tvm.nd.empty((1000,), "float32")
function(tvm.nd.array(x), y)
numpy.testing.assert_allclose(y.numpy(), x * 2 + 1)
print("ran", tvm.__file__)
"""
COMPILER_NAMES = """
import importlib, tvm
asked = [lambda: tvm.te, lambda: tvm.build, lambda: tvm.IRModule, lambda: importlib.import_module("tvm.relay")]
for ask in asked:
    try:
        ask()
    except ImportError as error:
        print(error)
"""


def run(*command: object, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TVM_"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return python


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    sources = {"full": root, "runtime": root / "packaging" / "runtime"}
    return {name: build(source, tmp_path_factory.mktemp(name)) for name, source in sources.items()}


@pytest.fixture(scope="module")
def exported(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The Python of an environment with the full wheel, and a library compiled there."""
    folder = tmp_path_factory.mktemp("full_environment")
    python = install(wheels["full"], folder / "venv")
    library = folder / "affine.so"
    run(python, "-c", EXPORT, library, cwd=folder)
    return python, library


def test_full_wheel_compiles_exports_and_runs(exported: tuple[Path, Path], tmp_path: Path):
    python, library = exported
    assert str(python.parent.parent) in run(python, "-c", RUN, library, cwd=tmp_path)


def test_runtime_wheel_runs_what_the_compiler_exported(wheels, exported: tuple[Path, Path], tmp_path: Path):
    python = install(wheels["runtime"], tmp_path / "venv")
    assert str(tmp_path / "venv") in run(python, "-c", RUN, exported[1], cwd=tmp_path)
    assert "llvmlite" not in run(python, "-m", "pip", "list", cwd=tmp_path)
    said = run(python, "-c", COMPILER_NAMES, cwd=tmp_path).splitlines()
    assert len(said) == 4
    assert all("pytvm-runtime, the runtime alone" in line and "pip install pytvm" in line for line in said)


def test_runtime_wheel_is_small_and_holds_the_two_lowest_layers(wheels):
    with zipfile.ZipFile(wheels["runtime"]) as archive:
        parts = {name.split("/")[1] for name in archive.namelist() if name.startswith("tvm/")}
    modules = {"__init__.py", "_runtime_only.py", "dtype.py", "error.py", "registry.py"}
    assert parts == modules | {"runtime", "_ffi", "lib", "include"}
    assert wheels["runtime"].stat().st_size < 500_000
