"""What holds for the imports of tests: modules that are imported by a name alone have names of their own, for the first
that is imported is taken for all; packages that a machine may lack are imported by ``pytest.importorskip``."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

# Packages that only tests or only some systems need, by pyproject.toml, and scipy, which comes with xgboost.
OPTIONAL = frozenset(("cloudpickle", "h5py", "hypothesis", "onnxruntime", "scipy", "xgboost"))


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


def unguarded_imports(path: Path) -> list[str]:
    """The optional packages that a file imports outside ``try`` statements without a call of ``importorskip``."""
    text = path.read_text(encoding="utf-8")
    if not any(re.search(rf"\b(import|from) {name}\b", text) for name in OPTIONAL):
        return []
    tree = ast.parse(text)
    guarded = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) not in guarded and isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif id(node) not in guarded and isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return sorted(name for name in found & OPTIONAL if f'importorskip("{name}' not in text)


def test_packages_that_may_be_missing_are_imported_by_importorskip(root):
    found = {str(path.relative_to(root)): unguarded_imports(path) for path in (root / "tests").rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(("text", "names"), [
    ("import onnxruntime\n", ["onnxruntime"]),
    ("def f():\n    from scipy.sparse import x\n    import h5py\n", ["h5py", "scipy"]),
    ("try:\n    import hypothesis\nexcept ImportError:\n    pass\n", []),
    ('import pytest\npytest.importorskip("hypothesis")\nfrom hypothesis import given\n', []),
    ("import onnx\nfrom .onnxruntime import x\n", []),
])  # fmt: skip
def test_an_import_of_a_package_that_may_be_missing_is_seen(text, names, tmp_path):
    (tmp_path / "test_a.py").write_text(text)
    assert unguarded_imports(tmp_path / "test_a.py") == names
