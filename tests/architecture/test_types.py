"""Types of expressions are written in one place: nodes do not change, but for the type that inference finds."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import answers, question
from tools.hooks import statements

SLOT = "checked_type_"
# The one function that writes it, and the file of the node classes, whose constructors begin with it.
WRITER, CLASSES = "tvm/relay/checked_type.py", "tvm/relay/expr.py"


@question(SLOT)
def writes(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, owner) of every assignment to the type of an expression."""
    found = []
    for node, _ in statements(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        targets = [t for target in targets if target is not None for t in ast.walk(target)]
        owners = [ast.unparse(t.value) for t in targets if isinstance(t, ast.Attribute) and t.attr == SLOT]
        # Setting it by its name is writing it, too.
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and any(isinstance(a, ast.Constant) and a.value == SLOT for a in call.args):
            owners.append(ast.unparse(call.args[0]))
        found += [(node.lineno, owner) for owner in owners]
    return found


def test_types_are_written_by_one_function_and_by_constructors():
    found = {path: of_file for path, of_file in answers(writes).items() if of_file}
    assert len(found.pop(WRITER)) == 1
    assert {owner for _, owner in found.pop(CLASSES)} == {"self"}
    wrong = [f"{path}:{line}" for path, of_file in found.items() for line, _ in of_file]
    assert not wrong, f"use with_type, with_type_of or with_derived_type of {WRITER}: {', '.join(wrong)}"


@pytest.mark.parametrize(
    "text, owners",
    [
        ("e.checked_type_ = t", ["e"]),
        ("a.b.checked_type_, a.b.virtual_device_ = t, None", ["a.b"]),
        ("if x:\n    e.checked_type_: Type = t", ["e"]),
        ("object.__setattr__(e, 'checked_type_', t)", ["e"]),
        ("t = e.checked_type_\nf(x=e.checked_type_)\ngetattr(e, 'checked_type_', None).shape", []),
    ],
)
def test_writes_are_recognized(text, owners):
    assert [owner for _, owner in writes(ast.parse(text))] == owners
