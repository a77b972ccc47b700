"""The C program of apps/c_deploy calls what tvm.build made and export_library wrote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tvm
from tvm import runtime, te

SOURCE = Path(__file__).resolve().parents[2] / "apps" / "c_deploy" / "main.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("deploy") / "deploy"
    folder = Path(runtime.find_library()).parent
    flags = ["-std=c11", "-Wall", "-Werror", f"-I{runtime.include_path()}", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    subprocess.run([compiler, str(SOURCE), *flags, "-ltvm_runtime", "-o", str(out)], check=True)
    return out


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    schedule = te.create_schedule(c.op)
    outer, inner = schedule[c].split(c.op.axis[0], 8)
    schedule[c].parallel(outer)
    schedule[c].vectorize(inner)
    path = tmp_path_factory.mktemp("library") / "add.so"
    tvm.build(schedule, [a, b, c], "llvm", name="add").export_library(path)
    return path


@pytest.mark.parametrize("length", [1, 7, 4096])
def test_c_program_computes(program, library, length):
    done = subprocess.run([program, library, "add", str(length)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"add: {length} sums are correct" in done.stdout


def test_c_program_reports_errors(program, library, tmp_path):
    missing = subprocess.run([program, library, "nobody", "4"], capture_output=True, text=True)
    assert missing.returncode == 1 and "has no function 'nobody'" in missing.stderr
    cut = tmp_path / "cut.so"
    cut.write_bytes(library.read_bytes()[:1000])
    broken = subprocess.run([program, cut, "add", "4"], capture_output=True, text=True)
    assert broken.returncode == 1 and "truncated or corrupt" in broken.stderr
