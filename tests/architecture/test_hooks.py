"""Calls from a layer to one above it go through hooks: one class, all of them listed in the map."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import answers, question, texts
from tools import hooks
from tools.hooks import statements
from tvm.hooks import HOOKS, Hook


@pytest.fixture(scope="module")
def table() -> str:
    return hooks.table(texts())


def test_the_map_lists_every_hook(table):
    found = hooks.difference(hooks.MAP.read_text(encoding="utf-8"), table)
    assert found == "", "python -m tools hooks writes the table"


def test_the_table_has_the_hooks_that_are_loaded_and_who_gave_them_functions(table):
    ours = {name: hook for name, hook in HOOKS.items() if not name.startswith("tests.")}
    assert len(ours) >= 2
    for name, hook in ours.items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| `{name}` |")]
        assert hook.what in row and all(f"`{giver}`" in row for giver in hook.givers if giver.startswith("tvm"))


@question(r"[A-Z]\[(?:0|:)\]")
def cells(tree: ast.AST) -> list[str]:
    """Assignments to the first item or the whole of a public constant list, which make it a cell for one function."""
    found = []
    for node, _ in statements(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if not isinstance(target, ast.Subscript):
                continue
            owner = target.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            whole = isinstance(target.slice, ast.Slice) and target.slice.lower is target.slice.upper is None
            first = isinstance(target.slice, ast.Constant) and target.slice.value == 0
            if name.isupper() and name[0] != "_" and (whole or first):
                found.append(f"{name} in line {node.lineno}")
    return found


@pytest.mark.slow("reads every source file")
def test_no_list_stands_in_for_a_hook():
    found = [f"{path}: {cell}" for path, of_file in answers(cells).items() for cell in of_file]
    assert not found, "use tvm.hooks.Hook: " + "; ".join(found)


def test_the_search_for_cells_finds_them():
    assert cells(ast.parse("x.PRINTERS[0] = f")) == ["PRINTERS in line 1"]
    assert cells(ast.parse("CALL[:] = [f]")) == ["CALL in line 1"]
    assert not cells(ast.parse("table[0] = f\nROWS['a'] = 1\n_STATE[0] = 1"))


@pytest.fixture
def hook():
    made = Hook("tests.HOOK", "twice a number")
    yield made
    del HOOKS["tests.HOOK"]


def test_a_hook_calls_what_was_given_last_and_says_what_it_lacks(hook):
    assert not hook
    with pytest.raises(RuntimeError, match="no function is registered for hook tests.HOOK: twice a number"):
        hook(1)
    hook.give(lambda x: 2 * x)
    assert hook and hook(3) == 6
    before = hook.give(lambda x: before(x) + 1)
    assert hook(3) == 7 and hook.givers == [__name__, __name__]
    with pytest.raises(ValueError, match="hook 'tests.HOOK' already exists"):
        Hook("tests.HOOK", "another")
