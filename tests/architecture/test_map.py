"""The map says which files an addition touches: they are there, and its examples are about as long as it says."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import ROOT

TEXT = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
TABLE = TEXT.split("<!-- additions:")[1].split("<!-- end of additions -->")[0]
NAMED = re.findall(r"`((?:tvm|csrc|tests)/[\w./]+)(?::(\w+))?`(?: (\d+))?", TABLE)


def length(path: str, name: str) -> int:
    """Lines of a file, or of one function of it with its decorators."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if not name:
        return len(text.splitlines())
    found = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name]
    assert found, f"{path} has no {name}"
    return found[0].end_lineno - min(n.lineno for n in [found[0], *found[0].decorator_list]) + 1


@pytest.mark.parametrize("kind", ["an operator", "a GPU back end", "an importer", "a graph pass", "a pass over loops"])
def test_the_map_says_what_an_addition_takes(kind):
    (row,) = [line for line in TABLE.splitlines() if line.startswith(f"| {kind} |")]
    assert re.search(r"` \d+", row), f"the row of {kind} has no example with its lines"


@pytest.mark.parametrize("path, name, lines", NAMED)
def test_files_to_touch_are_there_and_as_long_as_the_map_says(path, name, lines):
    assert (ROOT / path).exists()
    if lines:
        actual = length(path, name)
        # The map says how much work it is, not the state of a file: it is written again where it misleads.
        assert abs(actual - int(lines)) <= max(5, actual // 3), f"docs/map.md: {path} {name} has {actual} lines"
