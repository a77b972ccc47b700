"""Modules of the benchmarks and of the maintainers' tools do not import each other in circles."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import all_texts


def imported(module: str, is_package: bool, text: str) -> set[str]:
    """The dotted names that a module may mean by its imports, also by those inside functions."""
    package = module if is_package else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return found


def graph(texts: dict[str, str], top: str) -> dict[str, set[str]]:
    """The modules of a folder with the modules of it that each imports; tools also import each other as scripts."""
    paths = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path
        for path in texts
        if path.startswith(f"{top}/") and path.endswith(".py")
    }
    edges = {}
    for module, path in paths.items():
        names = imported(module, path.endswith("__init__.py"), texts[path])
        names |= {f"{top}.{name}" for name in names}
        edges[module] = {name for name in names if name in paths and name != module}
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """A shortest circle through each module that is in one, each circle once."""
    found: dict[frozenset[str], list[str]] = {}
    for start in sorted(edges):
        paths = [[start]]
        seen: set[str] = set()
        for path in paths:
            for other in sorted(edges[path[-1]]):
                if other == start:
                    found.setdefault(frozenset(path), path)
                elif other not in seen:
                    seen.add(other)
                    paths.append([*path, other])
    return list(found.values())


@pytest.mark.parametrize("top", ["benchmarks", "tools"])
def test_no_module_imports_itself_through_others(top):
    edges = graph(all_texts(), top)
    assert len(edges) > 20
    assert not circles(edges), "; ".join(" -> ".join([*path, path[0]]) for path in circles(edges))


def test_circles_are_found():
    texts = {
        "tools/a.py": "from . import b",
        "tools/b.py": "def f():\n    from .c import g",
        "tools/c.py": "import a",
        "tools/d.py": "from tools import c",
        "other/e.py": "from . import e",
    }
    assert circles(graph(texts, "tools")) == [["tools.a", "tools.b", "tools.c"]]
