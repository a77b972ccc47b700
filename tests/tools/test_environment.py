"""``tools/environment.py``: the requirements of an environment and the folder of its packages."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

from tools import environment


@pytest.mark.parametrize(("requirement", "wanted"), [
    ("numpy>=1.25", "numpy==1.25.*"),
    ("xgboost-cpu>=2.1; sys_platform == 'linux'", "xgboost-cpu==2.1.*; sys_platform == 'linux'"),
    ("a>=1.0; python_version >= '3.12'", "a==1.0.*; python_version >= '3.12'"),
    ("package", "package"),
])  # fmt: skip
def test_the_lowest_version_of_a_requirement_keeps_its_condition(requirement, wanted):
    assert environment.lowest(requirement) == wanted


def test_packages_are_in_the_environment_where_the_systems_python_has_another_scheme(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "made"], check=True)
    monkeypatch.setattr(sysconfig, "get_path", lambda *_, **__: "/usr/local/lib/python3/dist-packages")
    found = environment.packages_of(str(tmp_path / "made" / "bin" / "python"))
    assert found.startswith(str(tmp_path / "made")) and found.endswith("site-packages")
