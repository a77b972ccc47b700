"""Functions and files are of a size to be read at once. Docstrings are read instead of the code and do not count."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.sources import all_texts, outline, outlines
from tools.size import lines_of_code

MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 600
OTHER_CODE = (".c", ".h", ".cpp", ".hpp", ".rs")

# Functions that are longer: (file, function) -> why it is right. Each line is used, or the test fails.
LONG_FUNCTIONS = {
    ("tvm/driver/tvmc/autotuner.py", "tune_model"): "a public signature of 33 arguments, one a line",
    ("tvm/driver/tvmc/compiler.py", "compile_model"): "a public signature of 29 arguments, one a line",
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
    """Also those of tests, except tables of cases: a module that defines no test."""
    large = {name: text for name, text in all_texts().items() if len(text.splitlines()) > MOST_LINES_OF_A_FILE}
    counts = {name: lines_of_code(text) for name, text in large.items() if name.endswith(".py")}
    counts |= {name: len(text.splitlines()) for name, text in large.items() if name.endswith(OTHER_CODE)}
    tables = {name for name in counts if name.startswith("tests/") and not Path(name).name.startswith("test_")}
    wrong = [f"{name}: {counts[name]} lines" for name in counts.keys() - tables if counts[name] > MOST_LINES_OF_A_FILE]
    assert not wrong, "\n".join(sorted(wrong))


def test_a_function_of_sixty_lines_passes_and_one_more_does_not():
    body = "        pass\n" * 59
    assert long_functions(outline(ast.parse(f"class C:\n    def f(self):\n{body}"))[1]) == []
    assert long_functions(outline(ast.parse(f"class C:\n    def f(self):\n{body}        pass\n"))[1]) == [("f", 61)]


def test_docstrings_do_not_count():
    described = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    assert lines_of_code(described) == 2
    assert lines_of_code('"""A module."""\n' + described) == 3
