"""Modules that tests import by a name alone have names of their own: the first that is imported is taken for all."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path


def imported(path: Path) -> set[str]:
    """The modules that a file imports at its beginning by names without dots."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
    return {name for name in found if "." not in name}


def shared_names(tests: Path) -> list[str]:
    """The names of modules in several folders from which tests import by a name alone, that somebody imports so."""
    places = defaultdict(list)
    for conftest in tests.rglob("conftest.py"):
        if "sys.path.insert" in conftest.read_text(encoding="utf-8"):
            for path in conftest.parent.glob("*.py"):
                places[path.stem].append(path)
    shared = {name for name, paths in places.items() if len(paths) > 1}
    # Only files that may import one of them are parsed.
    hint = re.compile(rf"^(?:import|from) .*\b(?:{'|'.join(map(re.escape, sorted(shared)))})\b", re.MULTILINE)
    read = [path for paths in places.values() for path in paths if hint.search(path.read_text(encoding="utf-8"))]
    return sorted(shared & {name for path in read for name in imported(path)})


def test_no_module_that_is_imported_by_its_name_alone_is_in_two_folders(root):
    assert shared_names(root / "tests") == []


def test_a_name_in_two_folders_is_seen(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "conftest.py").write_text("import sys\nsys.path.insert(0, 'here')\n")
        (tmp_path / folder / "cases.py").write_text("")
        (tmp_path / folder / f"test_{folder}.py").write_text("from tests.a.cases import x\n")
    assert shared_names(tmp_path) == []
    (tmp_path / "a" / "test_a.py").write_text("import os\nfrom cases import x\n")
    assert shared_names(tmp_path) == ["cases"]
