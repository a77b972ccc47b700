"""``.ci/bare`` hides what the README does not ask for, and nothing else."""

from __future__ import annotations

import subprocess

import pytest

LOOK = """
for name in g++ c++ ld.lld chromium nvcc; do ! command -v $name || exit 1; done
command -v gcc && command -v make && command -v python3
"""


def test_a_bare_machine_has_a_c_compiler_make_and_python_and_no_more(root):
    done = subprocess.run([root / ".ci" / "bare", "sh", "-c", LOOK], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command, code", [("exit 3", 3), ("true", 0)])
def test_the_status_of_the_command_is_that_of_bare(root, command, code):
    assert subprocess.run([root / ".ci" / "bare", "sh", "-c", command]).returncode == code
