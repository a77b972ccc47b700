"""The wheels of ``make wheel``: they ask for no newer glibc than their tag says, and work on every Python.

``python -m tools test wheels`` names the folder of wheels in ``TVM_TEST_WHEELS`` and interpreters in
``TVM_TEST_PYTHONS``. It then
runs the tests of examples and documents by an interpreter that has nothing but the full wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.wheels import deploy_programs, files_of, run
from tools.wheels import GLIBC

WHEELS = sorted(Path(os.environ["TVM_TEST_WHEELS"]).resolve().glob("*.whl"))


def needed_versions(library: Path) -> set[str]:
    """The versions of symbols that a library asks for; readelf comes with every C compiler."""
    text = run("readelf", "--version-info", "--wide", library, cwd=library.parent)
    return set(re.findall(r"Name: (\S+) ", text.partition("Version needs")[2]))


def number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_there_are_two_wheels_without_a_common_file():
    assert [wheel.name.split("-")[0] for wheel in WHEELS] == ["tvm_classic", "tvm_classic_runtime"]
    full, runtime = map(files_of, WHEELS)
    assert not full & runtime


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name.split("-")[0])
def test_the_tag_says_which_glibc_is_enough(wheel, tmp_path):
    assert f"manylinux_{GLIBC.replace('.', '_')}_" in wheel.name and "py3-none" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        assert len(libraries) == 1
        versions = needed_versions(Path(archive.extract(libraries[0], tmp_path)))
    asked = [number(re.fullmatch(r"GLIBC_([\d.]+)", version).group(1)) for version in versions]
    assert asked and max(asked) <= number(GLIBC), versions


@pytest.mark.parametrize("python", os.environ.get("TVM_TEST_PYTHONS", "").split())
def test_the_runtime_alone_runs_a_model(python, tmp_path):
    """What this tree compiles, an environment with the runtime wheel and its dependencies runs."""
    subprocess.run([sys.executable, "-c", deploy_programs()[0]], cwd=tmp_path, check=True)
    run(python, "-m", "venv", "env", cwd=tmp_path)
    inside = tmp_path / "env" / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", WHEELS[1], cwd=tmp_path)
    assert "mean (ms)" in run(inside, "-c", deploy_programs()[1], cwd=tmp_path)
    assert "llvmlite" not in run(inside, "-m", "pip", "list", cwd=tmp_path)


def test_examples_are_run_with_the_installed_wheel(python, tmp_path):
    """``python`` is the interpreter of the tests of examples and documents."""
    where = Path(run(python, "-c", "import tvm; print(tvm.__file__)", cwd=tmp_path).strip())
    assert "site-packages" in where.parts and where.parent.name == "tvm"
    assert "pytest" not in run(python, "-m", "pip", "list", cwd=tmp_path)
