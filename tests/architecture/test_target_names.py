"""A target is asked what it can do (``target.features``) or for its back end, not for its name or its keys."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import ROOT, sources

# Folders whose subject targets are: the kinds themselves, and a face with classic names for tests of users.
OWN = ("tvm/target/", "tvm/testing/")

# Files that ask for a name or for keys: why it is right. Each line is used, or the test fails.
ALLOWED = {
    "tvm/tir/transform/lower_intrin.py": "rules of intrinsics are registered by the name of a kind, also by users",
    "tvm/autotvm/task/dispatcher.py": "records are found by the keys of a target, as their format has it",
    "tvm/autotvm/tophub.py": "files of records are named after kinds",
    "tvm/driver/tvmc/workspace_pools.py": "options of memory pools name targets by their kinds",
    "tvm/topi/testing/common.py": "tables of users' schedules by key",
    "tvm/topi/utils.py": "a public question of classic TVM, which names kinds",
}


def questions(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, what is asked) wherever ``x.kind.name`` or ``x.keys`` is read; ``x.keys()`` is a dictionary's."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        of_kind = isinstance(node.value, ast.Attribute) and node.value.attr == "kind" and node.attr == "name"
        if of_kind or node.attr == "keys" and id(node) not in called:
            found.append((node.lineno, ast.unparse(node)))
    return found


def test_nobody_asks_for_the_name_or_the_keys_of_a_target():
    wrong, used = [], set()
    for path, tree in sources().items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.startswith(OWN) or ".kind.name" not in text and ".keys" not in text:
            continue
        asked = questions(tree)
        if asked and path in ALLOWED:
            used.add(path)
        else:
            wrong += [f"{path}:{line}: {what}" for line, what in asked]
    unused = [f"ALLOWED names a file that does not ask: {path}" for path in sorted(ALLOWED.keys() - used)]
    head = "ask target.features, or the record of its back end (docs/howto_backend.md):"
    assert not wrong + unused, "\n".join([head, *wrong, *unused])


@pytest.mark.parametrize(
    ("text", "count"),
    [("if target.kind.name == 'cuda': pass", 1), ("'gpu' in self.target.keys", 1), ("for k in table.keys(): pass", 0),
     ("x.kind.family", 0), ("kind.name", 0)],
)  # fmt: skip
def test_questions_are_recognized(text, count):
    assert len(questions(ast.parse(text))) == count
