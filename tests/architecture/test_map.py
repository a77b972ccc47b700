"""The map says which files an addition touches: they are there, and its examples are about as long as it says."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import ROOT, all_texts

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


# How Python and C ask for a variable of the environment, and how the runtime names that of a driver library.
ASKED = re.compile(r"(?:environ(?:\.get\(|\[)|getenv\(|variable = )[\"']([A-Z_]+)[\"']")
# Variables of the system, which mean here what they mean everywhere.
OF_THE_SYSTEM = {"CC", "CXX", "NO_COLOR", "PYTHONPATH", "TERM", "TMPDIR", "XDG_CACHE_HOME"}


def variables_of(texts: dict[str, str]) -> dict[str, str]:
    """The variables of the environment that files ask for, each with a file that does."""
    return {name: path for path, text in texts.items() for name in ASKED.findall(text)}


def test_the_map_lists_the_variables_that_the_package_and_the_runtime_ask_for():
    ours = {p: t for p, t in all_texts().items() if p.startswith(("tvm/", "csrc/src/", "csrc/server/"))}
    listed = set(re.findall(r"`([A-Z_]+)(?:=\w+)?`", TEXT.split("## Environment variables")[1]))
    missing = {name: path for name, path in variables_of(ours).items() if name not in listed | OF_THE_SYSTEM}
    assert not missing, f"docs/map.md does not say what these variables do: {missing}"


def test_questions_for_variables_are_found():
    text = 'os.environ.get("A_B", ""), os.environ["C"], getenv("D"); const char *variable = "E_LIBRARY";'
    assert set(variables_of({"x": text})) == {"A_B", "C", "D", "E_LIBRARY"}
