"""No six lines of code are written twice: code that two places need is a function."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.architecture.sources import texts

LINES = 6
TOPS = ("tvm/", "benchmarks/")


Lines = list[tuple[int, str]]


def plain_lines(text: str) -> Lines:
    """The lines of a text with their numbers, without blanks at their ends.

    Comments are left out, and so are lines that end with a comma: elements of a list or arguments of a call, one each
    line, repeat a form and no logic.
    """
    lines = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1))
    return [(i, line) for i, line in lines if len(line) > 3 and line[0] != "#" and line[-1] != ","]


def code_lines(text: str) -> Iterator[Lines]:
    """Those of each function, without its docstring."""
    lines = plain_lines(text)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body:
            yield [(i, line) for i, line in lines if body[0].lineno <= i <= (node.end_lineno or 0)]


def windows(lines: Lines) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every six lines, and the number of the first of them."""
    for k in range(len(lines) - LINES + 1):
        yield tuple(line for _, line in lines[k : k + LINES]), lines[k][0]


def repetitions(sources: dict[str, str]) -> list[str]:
    """Places with six equal lines; of several of the same files the first."""
    # Most files have no line that repeats: only the others are parsed.
    counts = Counter(hash(six) for text in sources.values() for six, _ in windows(plain_lines(text)))
    repeated = [n for n, text in sources.items() if any(counts[hash(s)] > 1 for s, _ in windows(plain_lines(text)))]
    places: dict[tuple[str, ...], set[tuple[str, int]]] = defaultdict(set)
    for name in repeated:
        for lines in code_lines(sources[name]):
            for six, first in windows(lines):
                places[six].add((name, first))
    found: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for equal in places.values():
        if len(equal) > 1:
            where = sorted(equal)
            found.setdefault(tuple(name for name, _ in where), where)
    return [" and ".join(f"{name}:{line}" for name, line in where) for where in found.values()]


@pytest.mark.slow("reads every file of the package")
def test_no_six_lines_are_written_twice():
    sources = {name: text for name, text in texts().items() if name.startswith(TOPS)}
    assert len(sources) > 100
    assert repetitions(sources) == []


def test_repeated_lines_are_found_wherever_they_are():
    body = "".join(f"    value = step_{i}(value)\n" for i in range(6))
    first, second = f"def f(value):\n{body}", f"class C:\n    def g(self, value):\n{body.replace('    ', '        ')}"
    assert repetitions({"a.py": first, "b.py": second}) == ["a.py:2 and b.py:3"]
    assert repetitions({"a.py": first, "b.py": second.replace("step_5", "other")}) == []


def test_arguments_and_docstrings_may_be_equal():
    text = 'def f():\n    """A.\n\n    B.\n    """\n    return g(\n' + "        name,\n" * 6 + "    )\n"
    assert repetitions({"a.py": text, "b.py": text}) == []
