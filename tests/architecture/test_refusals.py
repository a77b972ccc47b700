"""What is refused is refused in words."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import answers, statements
from tvm.error import not_defined


def without_words(tree: ast.AST) -> list[int]:
    """The lines that raise NotImplementedError and do not say what is not there."""
    return [node.lineno for node, _ in statements(tree) if isinstance(node, ast.Raise) and node.exc is not None
            and ast.unparse(node.exc) in ("NotImplementedError", "NotImplementedError()")]


def test_what_is_not_there_is_said():
    found = answers(without_words, r"NotImplementedError(?:\(\))?\s")
    wrong = [f"{name}:{line}" for name, lines in found.items() for line in lines]
    assert not wrong, "NotImplementedError without words: " + ", ".join(wrong)


@pytest.mark.parametrize("text, lines", [
    ("raise NotImplementedError", [1]),
    ("raise NotImplementedError()", [1]),
    ("def f():\n    raise NotImplementedError('no f')", []),
    ("try:\n    f()\nexcept ValueError:\n    raise", []),
])
def test_an_error_without_words_is_found(text, lines):
    assert without_words(ast.parse(text)) == lines


def test_a_class_without_a_method_is_named():
    class Lazy:
        def run(self):
            raise not_defined(self, "run")

    with pytest.raises(NotImplementedError, match="^Lazy does not define run$"):
        Lazy().run()
