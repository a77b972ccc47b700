"""Both wheels are built, installed into empty environments and used there: one compiles and exports, both run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "architecture"))
from test_layers import LAYERS

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
    folder.mkdir()
    options = ["--quiet", "--no-deps", "--wheel-dir", folder, "--config-settings", f"build-dir={folder / 'build'}"]
    run(sys.executable, "-m", "pip", "wheel", *options, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return python


@pytest.mark.slow
def test_both_wheels_work_in_empty_environments(root: Path, tmp_path: Path):
    """One test, so that each wheel is built once: the full one compiles, exports and runs; the small one runs that."""
    library = tmp_path / "affine.so"
    full = install(build(root, tmp_path / "full"), tmp_path / "full_environment")
    run(full, "-c", EXPORT, library, cwd=tmp_path)
    assert "full_environment" in run(full, "-c", RUN, library, cwd=tmp_path)

    wheel = build(root / "packaging" / "runtime", tmp_path / "runtime")
    python = install(wheel, tmp_path / "runtime_environment")
    assert "runtime_environment" in run(python, "-c", RUN, library, cwd=tmp_path)
    assert "llvmlite" not in run(python, "-m", "pip", "list", cwd=tmp_path)
    assert "Measure built candidates" in run(python, "-m", "tvm.runtime.measure_files", "--help", cwd=tmp_path)
    said = run(python, "-c", COMPILER_NAMES, cwd=tmp_path).splitlines()
    assert len(said) == 4
    assert all("tvm-classic-runtime, the runtime alone" in line and "pip install tvm-classic" in line for line in said)
    assert wheel.stat().st_size < 500_000


def test_runtime_wheel_takes_every_file_of_the_two_lowest_layers(root: Path):
    text = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    (files,) = re.findall(r"install\(FILES (tvm/__init__.py .*?) DESTINATION tvm\)", text)
    lowest = [name.split(".")[1] for name, layer in LAYERS.items() if layer <= 1]
    top_level = {f"tvm/{name}.py" for name in lowest}
    wanted = {name for name in top_level if (root / name).exists()} | {"tvm/__init__.py"}
    assert set(files.split()) == wanted
    (folders,) = re.findall(r"install\(DIRECTORY (.*?) DESTINATION tvm ", text)
    assert set(folders.split()) == {name[:-3] for name in top_level if (root / name[:-3]).is_dir()}
