"""Prose is in plain words: the rules of tools/words.json hold, and each kind of offence is found."""

from __future__ import annotations

import json

import pytest

from tools import words

DATA = json.loads(words.DATA.read_text(encoding="utf-8"))
RULES = words.Rules(DATA)


def found(path: str, text: str) -> list[tuple[int, str]]:
    return [(one.line, one.found) for one in RULES.offences(path, text)]


@pytest.mark.slow("reads every source file and document")
def test_the_tree_has_no_new_offence_and_the_command_says_so(capsys):
    assert words.main([]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.startswith("0 offences to fix")


@pytest.mark.parametrize("rule", DATA["words"], ids=lambda rule: rule["write"])
def test_a_word_to_write_is_not_refused_itself(rule):
    assert rule["write"] and not words.expression(rule["refuse"]).search(rule["write"])


OFFENDING = "This kernel has open sizes."


def test_an_offence_in_a_document_is_found_with_the_word_to_use():
    (offence,) = RULES.offences("docs/vm.md", f"# VM\n\n{OFFENDING}\n")
    assert str(offence) == "docs/vm.md:3: 'open sizes': write dynamic dimension, dynamic shape"


def test_a_phrase_across_lines_is_found_in_its_first_line():
    assert found("docs/vm.md", "A kernel with open\nsizes runs.") == [(1, "open sizes")]
    assert found("tvm/a.py", "x = 1\n# A kernel with open\n# sizes runs.\n") == [(2, "open sizes")]
    assert found("csrc/a.c", "int x;\n/* A kernel with open\n * sizes runs. */\n") == [(2, "open sizes")]


@pytest.mark.parametrize(
    "text",
    [
        f'"""{OFFENDING}"""\n',
        f'def f():\n    """A function.\n\n    {OFFENDING}\n    """\n',
        f'class A:  # a comment\n    r"""{OFFENDING}"""\n',
        f"x = 'a'  # {OFFENDING}\n",
        f"#: {OFFENDING}\nx = 1\n",
    ],
)
def test_docstrings_and_comments_of_python_are_prose(text):
    assert [word for _, word in found("tvm/a.py", text)] == ["open sizes"]


def test_error_messages_of_python_are_prose():
    text = f"def f(x):\n    raise ValueError(\n        f'{{x}}: {OFFENDING}'\n    )\n"
    assert found("tvm/a.py", text) == [(3, "open sizes")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tvm/a.py", f'x = """\n{OFFENDING}"""\n'),
        ("tvm/a.py", "f('# open sizes')\n"),
        ("tvm/a.py", '"""Calls `open sizes` and ``open sizes``.\n\n    >>> open sizes\n"""\n'),
        ("tvm/a.py", "x = 1  # open\nsizes = 2\n"),
        ("tvm/a.py", "open sizes\n"),
        ("csrc/a.c", 'fail("/* open sizes */");\n'),
        ("docs/a.md", "```\nopen sizes\n# What is here\n```\n`open sizes`, [a link](open sizes)\n"),
    ],
)
def test_code_is_no_prose(path, text):
    assert found(path, text) == []


@pytest.mark.parametrize(
    "title", ["What is kept", "Where trials go", "How fast it is", "Tuned", "Passes that are rejected"]
)
def test_headings_that_are_clauses_are_refused(title):
    assert found("docs/a.md", f"# A page\n\n## {title}\n") == [(3, title)]


@pytest.mark.parametrize(
    "title", ["What can go wrong", "How to add a pass", "Dynamic shapes", "Fixed", "Add a back end"]
)
def test_headings_that_are_nouns_or_tasks_are_accepted(title):
    assert found("docs/a.md", f"# {title}\n") == []


def test_the_title_of_a_decision_begins_with_an_imperative():
    path = "docs/decisions/099-some-title.md"
    for title in ("Products of GPUs read their operands in place", "The compiler unrolls loops", "Unrolling loops"):
        assert found(path, f"# 099. {title}\n\n## Context\n") == [(1, f"099. {title}")]
        assert found("docs/a.md", f"# 099. {title}\n") == []
    for title in ("Unroll loops in code generation", "Process RPC sessions in parallel", "Guard every split"):
        assert found(path, f"# 099. {title}\n\n## Context\n") == []


def test_long_lines_of_the_changelog_are_refused():
    ((line, text),) = found("CHANGELOG.md", "# Changelog\n" + "a" * 121 + "\n" + "b" * 120 + "\n")
    assert line == 2 and text.startswith("aaaa")
    assert found("README.md", "a" * 121) == []


def test_a_rule_applies_where_it_says():
    rules = words.Rules({**DATA, "words": [{"refuse": "riddle", "write": "sentence", "in": ["docs/"]}]})
    assert len(rules.offences("docs/a.md", "A riddle.")) == 1
    assert rules.offences("README.md", "A riddle.") == []
