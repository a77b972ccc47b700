"""A package outside this one brings a kind of target, a back end, a device, operators, a fusion rule and a template."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def environment_with_tvm(folder: Path) -> tuple[str, str]:
    """The interpreter of a new environment that finds this tree and the packages it needs, and its folder of packages.
    Nothing is downloaded."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = sysconfig.get_path("purelib", "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix",
                                  vars={"base": str(folder), "platbase": str(folder)})  # fmt: skip
    found = [path for path in sys.path if path.endswith("-packages")]
    Path(packages, "tvm_tree.pth").write_text("\n".join([str(HERE.parents[1]), *found, ""]), encoding="utf-8")
    return str(folder / "bin" / "python"), packages


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True)


@pytest.mark.slow("installs a package and tunes a model")
def test_a_package_outside_compiles_runs_and_tunes_a_model_once_it_is_installed(tmp_path):
    python, packages = environment_with_tvm(tmp_path / "environment")
    done = run([python, "-c", "import tvm; tvm.target.Target('acme')"])
    assert "unknown target kind or tag 'acme'" in done.stderr, done.stderr
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check"]
    done = run([sys.executable, "-m", "pip", "install", *options, "--target", packages, str(HERE)])
    assert done.returncode == 0, done.stdout + done.stderr
    # In a process of its own, because a device stays registered; the workers of the tuner find the package as it does.
    # The program is run from a copy, beside which there is no package to be found by chance.
    script = shutil.copy(HERE / "program.py", tmp_path)
    done = run([python, script, str(tmp_path / "records.json")], ACME_FOLDER=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("compiled, run and tuned\n")
