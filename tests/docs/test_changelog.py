"""CHANGELOG.md has the form of Keep a Changelog, and its newest version is that of the packages."""

from __future__ import annotations

import re
from pathlib import Path

import tvm

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_newest_version_is_that_of_both_packages():
    newest = next(line for line in LINES if line.startswith("## "))
    version = re.fullmatch(r"## (\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}", newest)
    assert version and version[1] == tvm.__version__
    for project in ("pyproject.toml", "packaging/runtime/pyproject.toml"):
        assert f'\nversion = "{tvm.__version__}"\n' in (ROOT / project).read_text(encoding="utf-8")


def test_entries_are_single_lines_under_the_kinds_of_keep_a_changelog():
    assert {line[4:] for line in LINES if line.startswith("### ")} <= KINDS
    entries = LINES[next(i for i, line in enumerate(LINES) if line.startswith("### ")) :]
    wrong = [line for line in entries if line and not re.match(r"#{2,4} \S|- \S.*\.$", line)]
    assert not wrong, "\n".join(wrong)
    assert len(LINES) <= 250 and max(map(len, LINES)) <= 120
