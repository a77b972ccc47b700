"""Functions and files are of a size to be read at once. Docstrings are read instead of the code and do not count."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.sources import outline, outlines, texts
from tools import size
from tools.size import described_lines, lines_of_code

MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 800

# Functions that are longer: (file, function) -> why it is right. Each line is used, or the test fails.
LONG_FUNCTIONS = {
    ("tvm/ir/pass_config.py", "_declare_known"): "a table of options, one call a row",
    ("tvm/topi/nn/winograd.py", "conv2d_winograd_NCHWc"): "the stages of one algorithm, each reading the one before",
    ("tvm/topi/vision/nms.py", "non_max_suppression"): "a public signature of fourteen arguments and its stages",
}


def long_functions(functions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """(name, lines) of the functions of a source file that are too long."""
    return [(name, lines) for name, lines in functions if lines > MOST_LINES_OF_A_FUNCTION]


def test_functions_are_short():
    wrong, used = [], set()
    for name, (_, functions) in outlines().items():
        for function, lines in long_functions(functions):
            if (name, function) in LONG_FUNCTIONS:
                used.add((name, function))
            else:
                wrong.append(f"{name}: {function} has {lines} lines, {MOST_LINES_OF_A_FUNCTION} are the most")
    unused = [
        f"LONG_FUNCTIONS names a function that is not too long: {entry}" for entry in LONG_FUNCTIONS.keys() - used
    ]
    assert not wrong + unused, "\n".join([*wrong, *sorted(unused)])


def test_files_are_of_a_size_to_be_read():
    lengths = {name: len(text.splitlines()) for name, text in texts().items()}
    lengths = {name: lines - described_lines(ast.parse(texts()[name])) for name, lines in lengths.items()
               if lines > MOST_LINES_OF_A_FILE}
    wrong = [f"{name}: {lines} lines" for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE]
    assert not wrong, "\n".join(sorted(wrong))


def test_a_function_of_sixty_lines_passes_and_one_more_does_not():
    body = "        pass\n" * 59
    assert long_functions(outline(ast.parse(f"class C:\n    def f(self):\n{body}"))[1]) == []
    assert long_functions(outline(ast.parse(f"class C:\n    def f(self):\n{body}        pass\n"))[1]) == [("f", 61)]


def test_docstrings_do_not_count():
    described = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    assert lines_of_code(described) == 2
    assert lines_of_code('"""A module."""\n' + described) == 3


def test_a_folder_over_its_budget_is_named(capsys):
    counts = {Path("tvm/a.py"): 60, Path("tvm/b/c.py"): 50, Path("csrc/a.c"): 10}
    assert size.over_budget(counts, {"tvm": 100, "csrc": 10}) == ["tvm"]
    assert size.over_budget(counts, {"tvm": 110, "csrc": 10}) == []
    assert "tvm                             110     100     -10" in capsys.readouterr().out
