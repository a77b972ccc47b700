"""What ``tests/conftest.py`` gives to every run: the seed of a commit, and skips counted by reason."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.sampling import SAMPLES

SUITE = """
import random
import numpy
import pytest

@pytest.mark.parametrize("number", range(40))
def test_that_needs_a_thing(number):
    pytest.skip("there is no such thing")

def test_that_needs_another():
    pytest.skip("nor another")

def test_of_the_generators_of_the_process():
    print("drawn", random.randrange(1 << 30), "and drawn", numpy.random.randint(1 << 30))
"""
HYPOTHESIS = """
from hypothesis import given, settings, strategies

@settings(max_examples=5)
@given(strategies.integers())
def test_numbers(number):
    print("drawn", number)
"""
HAS_HYPOTHESIS = importlib.util.find_spec("hypothesis") is not None


def run_suite(folder: Path, **environment: str) -> list[str]:
    (folder / "test_it.py").write_text(SUITE + HYPOTHESIS * HAS_HYPOTHESIS)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    own = ("CI", "TVM_TEST_SEED", "TVM_TEST_PARTS", "TVM_TEST_SKIPPED")
    inherited = {key: value for key, value in os.environ.items() if key not in own}
    done = subprocess.run(command, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def drawn(lines: list[str]) -> list[str]:
    return re.findall(r"drawn (-?\d+)", "\n".join(lines))


def test_programs_of_tests_find_the_bytecode_of_modules(tmp_path):
    """Also where the environment says that no bytecode is written."""
    (tmp_path / "module.py").write_text("")
    program = "import os, sys; os.environ['PYTHONDONTWRITEBYTECODE'] = '1'; sys.dont_write_bytecode = True\n"
    program += "import tests.conftest, subprocess\nsubprocess.run([sys.executable, '-c', 'import module'], check=True)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.name.partition(".")[0] for path in (tmp_path / "__pycache__").iterdir()] == ["module"]


@pytest.mark.slow("starts three runs of tests")
def test_the_end_of_a_run_counts_skips_by_reason_and_a_seed_decides_what_is_drawn(tmp_path):
    names = tmp_path / "skipped.txt"
    here = run_suite(tmp_path, TVM_TEST_SEED="5", TVM_TEST_SKIPPED=str(names))
    assert names.read_text().splitlines() == [
        *(f"test_it.py::test_that_needs_a_thing[{i}]" for i in range(40)),
        "test_it.py::test_that_needs_another",
    ]
    assert [line for line in here if " skipped: " in line] == [
        "40 skipped: there is no such thing",
        "1 skipped: nor another",
    ]
    assert len(drawn(here)) == 2 + 5 * HAS_HYPOTHESIS
    # The same in continuous integration, and others with another seed.
    assert drawn(run_suite(tmp_path, TVM_TEST_SEED="5", CI="true")) == drawn(here)
    other = drawn(run_suite(tmp_path, TVM_TEST_SEED="6"))
    assert other[0] != drawn(here)[0] and other[1] != drawn(here)[1]
    assert not HAS_HYPOTHESIS or other[2:] != drawn(here)[2:]


def test_the_seed_has_the_number_of_commits_and_is_a_constant_outside_a_checkout(tmp_path, monkeypatch):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(tmp_path / "all")]
    subprocess.run(["git", "init", "-q", tmp_path / "all"], check=True)
    for _ in range(3):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "c"], check=True)
    monkeypatch.setattr(conftest, "ROOT", tmp_path / "all")
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    assert conftest.seed_of_commit() % SAMPLES == 3
    assert conftest.seed_of_commit() // SAMPLES == int(commit[:7], 16) % 2000
    # A copy without the older commits.
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{tmp_path}/all", tmp_path / "last"], check=True)
    monkeypatch.setattr(conftest, "ROOT", tmp_path / "last")
    assert conftest.seed_of_commit() == int(commit[:7], 16)
    # Outside a checkout, and without git.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(conftest, "ROOT", tmp_path / "none")
    assert conftest.seed_of_commit() == 1
    monkeypatch.setenv("PATH", "")
    assert conftest.seed_of_commit() == 1


def test_a_reason_is_read_from_both_kinds_of_reports():
    report = pytest.TestReport("a", ("a", 1, ""), {}, "skipped", ("a.py", 3, "Skipped: no gcc"), "call")
    assert conftest.reason_of(report) == "no gcc"
    report.longrepr = "no gcc"
    assert conftest.reason_of(report) == "no gcc"
