"""What tests of the architecture read from the source of the package.

A file is read once, parsed only where a test has a question about it, and what a question found is kept in
``build/architecture`` until the file or the question changes: parsing everything takes longer than all tests together.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tvm"
KEPT = ROOT / "build" / "architecture"
# What the files of a checkout are, below folders that hold nothing built.
TOPS = ("tvm", "csrc", "tests", "docs", "examples", "benchmarks", "apps", "tools", "packaging", ".ci")
SUFFIXES = frozenset((".py", ".c", ".h", ".md", ".toml", ".txt", ".cmake", ".json", ""))
BUILT = frozenset(("build", "lib", "__pycache__", ".venv", "node_modules"))


@functools.cache
def texts() -> dict[str, str]:
    """The text of every file of the package, by its path from the top folder."""
    return {name: text for name, text in all_texts().items() if name.startswith("tvm/") and name.endswith(".py")}


@functools.cache
def all_texts() -> dict[str, str]:
    """The text of every file that people read and write, by its path from the top folder."""
    found = {}
    for folder in (ROOT, *(ROOT / top for top in TOPS)):
        for where, folders, names in os.walk(folder):
            folders[:] = [] if folder == ROOT else sorted(set(folders) - BUILT)
            for name in sorted(names):
                path = os.path.join(where, name)
                if os.path.splitext(name)[1] in SUFFIXES and name != ".git" and os.path.isfile(path):
                    with open(path, encoding="utf-8", errors="replace") as file:
                        found[os.path.relpath(path, ROOT).replace(os.sep, "/")] = file.read()
    return found


@functools.cache
def tree_of(name: str) -> ast.Module:
    """The syntax tree of a file of the package."""
    # Half of the time would be spent by the collector in looking at nodes that all stay.
    gc.disable()
    try:
        return ast.parse(texts()[name], name)
    finally:
        gc.enable()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def answers(question: Callable[[ast.Module], list[Any]], hint: str = "") -> dict[str, list[Any]]:
    """What ``question(tree)`` gives for every file of the package, tuples as lists. Files without a match of the
    pattern ``hint`` are not asked: they have no answer."""
    asked = inspect.getsource(inspect.getmodule(question))
    version = _digest(asked + Path(__file__).read_text(encoding="utf-8") + hint)
    place = KEPT / f"{question.__module__.rpartition('.')[2]}.{question.__name__}.json"
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = {}
    known = kept.get("answers", {}) if kept.get("version") == version else {}
    found, changed, pattern = {}, False, re.compile(hint)
    for name, text in texts().items():
        digest = _digest(text)
        if known.get(name, ("",))[0] != digest:
            answer = question(tree_of(name)) if pattern.search(text) else []
            known[name], changed = (digest, json.loads(json.dumps(answer))), True
        found[name] = known[name][1]
    if changed:
        _keep(place, {"version": version, "answers": {name: known[name] for name in found}})
    return found


def _keep(place: Path, data: dict[str, Any]) -> None:
    """Written beside its place and moved there: other processes that test may read it now. A checkout that cannot be
    written to is asked anew each time."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(data), encoding="utf-8")
        beside.replace(place)
    except OSError:
        pass


def _for_the_checker(test: ast.expr) -> bool:
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"


def statements(tree: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a tree that runs, and whether it is inside a function. Imports and functions are statements,
    so expressions are not looked into."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, field, ()):
            if isinstance(node, ast.stmt):
                if isinstance(node, ast.If) and _for_the_checker(node.test):
                    yield from statements(ast.Module(node.orelse, []), in_function)
                    continue
                yield node, in_function
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(node, inside)
