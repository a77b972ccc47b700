"""What is refused is refused in words."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import all_texts, answers, question
from tools.hooks import statements
from tvm.error import not_defined


@question(r"raise NotImplementedError(?:\(\))?\s")
def without_words(tree: ast.AST) -> list[int]:
    """The lines that raise NotImplementedError and do not say what is not there."""
    return [
        node.lineno
        for node, _ in statements(tree)
        if isinstance(node, ast.Raise)
        and node.exc is not None
        and ast.unparse(node.exc) in ("NotImplementedError", "NotImplementedError()")
    ]


def test_what_is_not_there_is_said():
    found = answers(without_words)
    wrong = [f"{name}:{line}" for name, lines in found.items() for line in lines]
    assert not wrong, "NotImplementedError without words: " + ", ".join(wrong)


# Errors that say all by their class, or whose words are the system's or the test's own.
WORDLESS = (
    "AssertionError",
    "KeyError",
    "KeyboardInterrupt",
    "ProcessLookupError",
    "RPCError",
    "SystemExit",
    "TimeoutError",
    "ZeroDivisionError",
    "dataclasses.FrozenInstanceError",
)


def refusals_without_words(text: str) -> list[str]:
    """The lines that expect an error whatever it says: no pattern is given, and it is not kept to be looked at."""
    expected = [line.strip() for line in text.splitlines() if re.match(r"\s*with pytest\.raises\(", line)]
    unread = [line for line in expected if "match=" not in line and not re.search(r"\) as \w+|\($", line)]
    return [line for line in unread if not re.match(rf"with pytest\.raises\((?:{'|'.join(WORDLESS)})\)", line)]


def test_tests_of_refusals_read_the_words():
    tests = {name: text for name, text in all_texts().items() if name.startswith("tests/") and name.endswith(".py")}
    wrong = [f"{name}: {line}" for name, text in tests.items() for line in refusals_without_words(text)]
    assert not wrong, "pytest.raises without match=:\n" + "\n".join(wrong)


def test_an_expectation_without_words_is_found():
    line = "with pytest." + "raises("
    assert refusals_without_words(f"    {line}ValueError):\n") == [f"{line}ValueError):"]
    assert refusals_without_words(f"{line}ValueError, match='x'):\n{line}ValueError) as e:\n{line}KeyError):\n") == []


@pytest.mark.parametrize(
    "text, lines",
    [
        ("raise NotImplementedError", [1]),
        ("raise NotImplementedError()", [1]),
        ("def f():\n    raise NotImplementedError('no f')", []),
        ("try:\n    f()\nexcept ValueError:\n    raise", []),
    ],
)
def test_an_error_without_words_is_found(text, lines):
    assert without_words(ast.parse(text)) == lines


def test_a_class_without_a_method_is_named():
    class Lazy:
        def run(self):
            raise not_defined(self, "run")

    with pytest.raises(NotImplementedError, match="^Lazy does not define run$"):
        Lazy().run()
