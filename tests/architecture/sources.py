"""What tests of the architecture read from the source of the package.

A file is read once and parsed once, for the questions of all tests together, and what a question found is kept in
``build/architecture`` until the file or the question changes: parsing everything takes longer than all tests together.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import inspect
import json
import multiprocessing
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.hooks import statements
from tools.size import docstring_lines

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tvm"
KEPT = ROOT / "build" / "architecture"
# What the files of a checkout are, below folders that hold nothing built.
TOPS = ("tvm", "csrc", "tests", "docs", "examples", "benchmarks", "apps", "tools", "packaging", ".ci", "rust/src",
        "rust/examples", "rust/tests", "rust/benches")  # fmt: skip
SUFFIXES = frozenset((".py", ".c", ".h", ".cpp", ".hpp", ".rs", ".md", ".toml", ".txt", ".cmake", ".json", ""))
# From so many files on that are asked anew, processes share them.
FILES_OF_PROCESSES = 200
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


class Question(NamedTuple):
    """What is asked of the trees of files in whose text there is the pattern ``hint``: the others have no answer."""

    ask: Callable[[ast.Module], list[Any]]
    hint: re.Pattern[str]
    version: str
    place: Path


QUESTIONS: dict[Callable, Question] = {}


def question(hint: str = "") -> Callable[[Callable], Callable]:
    """A function that is asked of every file of the package, together with those of other tests."""

    def register(ask: Callable) -> Callable:
        asked = inspect.getsource(inspect.getmodule(ask))
        version = _digest(asked + Path(__file__).read_text(encoding="utf-8") + hint)
        place = KEPT / f"{ask.__module__.rpartition('.')[2]}.{ask.__name__}.json"
        QUESTIONS[ask] = Question(ask, re.compile(hint), version, place)
        return ask

    return register


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Trees have many nodes and no cycles: looking for garbage among them takes longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@functools.cache
def _all_answers(questions: tuple[Question, ...]) -> dict[Callable, dict[str, list[Any]]]:
    """The answers of every file to every question, from before where neither has changed."""
    known = {q: _kept(q) for q in questions}
    digests = {name: _digest(text) for name, text in texts().items()}
    new = {
        name: [q.ask.__name__ for q in questions if known[q].get(name, ("",))[0] != digests[name]] for name in digests
    }
    new = {name: asked for name, asked in new.items() if asked}
    for name, found in zip(new, _asked(list(new.items()))):
        for q in questions:
            if q.ask.__name__ in found:
                known[q][name] = (digests[name], found[q.ask.__name__])
    for q in questions:
        if any(q.ask.__name__ in asked for asked in new.values()):
            _keep(q.place, {"version": q.version, "answers": {name: known[q][name] for name in digests}})
    return {q.ask: {name: known[q][name][1] for name in digests} for q in questions}


def _asked(files: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """What each file answers to the questions of these names. Where there are many files, processes that inherit the
    texts share them: nearly all of the time is parsing."""
    if len(files) < FILES_OF_PROCESSES or "PYTEST_XDIST_WORKER" in os.environ or not hasattr(os, "fork"):
        return list(map(_asked_of_file, files))
    with warnings.catch_warnings():
        # Threads of libraries that are loaded hold nothing that parsing asks for.
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(min(8, os.cpu_count() or 1)) as pool:
            return pool.map(_asked_of_file, files, chunksize=32)


def _asked_of_file(file: tuple[str, list[str]]) -> dict[str, Any]:
    text = texts()[file[0]]
    asked = [q for q in QUESTIONS.values() if q.ask.__name__ in file[1]]
    with _no_collection():
        tree = ast.parse(text, file[0]) if any(q.hint.search(text) for q in asked) else None
        return {q.ask.__name__: json.loads(json.dumps(q.ask(tree) if q.hint.search(text) else [])) for q in asked}


def answers(ask: Callable[[ast.Module], list[Any]]) -> dict[str, list[Any]]:
    """What a question gives for every file of the package, tuples as lists."""
    return _all_answers(tuple(QUESTIONS.values()))[ask]


def _kept(q: Question) -> dict[str, Any]:
    """The answers of an earlier run, each with the digest of its file, where the question was the same."""
    try:
        kept = json.loads(q.place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept["answers"] if kept.get("version") == q.version else {}


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


@question()
def outline(tree: ast.Module) -> list[list[tuple]]:
    """What is asked of every file, in one walk: (module, dots, names, line, inside a function) of each import that
    runs, where one of modules has no names, and (name, lines) of each function, docstrings and decorators not
    counted."""
    imports: list[tuple] = []
    functions: list[tuple] = []
    for node, in_function in statements(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, 0, None, node.lineno, in_function) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.module or "", node.level, [a.name for a in node.names], node.lineno, in_function))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node)))
    return [imports, functions]


@functools.cache
def outlines() -> dict[str, list]:
    return answers(outline)
