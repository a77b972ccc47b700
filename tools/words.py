"""Check that prose is written in plain words: ``python -m tools words`` prints each violation with the word to use.

Prose is the text of documents and the docstrings, comments and error messages of code, without code in fences, back
quotes and doctests. ``tools/words.json`` contains the rules:

``prose``
    The files that are checked, as glob patterns.
``words``
    Regular expressions that are rejected in prose (``refuse``), the words to write instead (``write``), and the paths
    where the rule applies (``in``, path prefixes; everywhere if absent). A space matches any white space.
``headings``, ``decisions``
    Regular expressions of rejected headings in documents and of rejected titles of decisions.
``longest_line``
    The maximum length of a line of a document, in characters.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).with_suffix(".json")
# Replaces code in the text that is searched: no pattern matches across it.
CODE = "\0"
FENCE = re.compile(r"^([ \t]*)(```|~~~).*?(?:^[ \t]*\2[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(`+)[^`]+\1|\]\([^)\n]*\)|https?://\S+|^[ \t]*(?:>>>|\.\.\. ).*$", re.MULTILINE)
# Strings and comments of a language; the comments, and Python's strings that begin a line, may be prose.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
PYTHON_TOKEN = re.compile(
    r'#[^\n]*|"""(?:\\.|[^\\])*?"""|' r"'''(?:\\.|[^\\])*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
COMMENT_MARK = re.compile(r"^([ \t]*)(?:#:?|//+|/?\*+/?)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*$", re.MULTILINE)
DECISION = re.compile(r"(?:^|/)docs/decisions/\d{3}-[^/]*\.md$")


class Offence(NamedTuple):
    """A violation of a rule, at a line of a file."""

    path: str
    line: int
    found: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}: {self.advice}"


def _blank(code: str) -> str:
    """Return the replacement of code that is not prose: white space and all line ends."""
    return code if not code.strip() else CODE + "\n" * code.count("\n") + CODE


def _without_code_spans(text: str) -> str:
    return CODE_SPAN.sub(lambda found: _blank(found[0]), FENCE.sub(lambda found: _blank(found[0]), text))


def _message_lines(text: str) -> set[int]:
    """Return the lines of the ``raise`` statements of a Python file; none if the file cannot be parsed."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    raises = (node for node in ast.walk(tree) if isinstance(node, ast.Raise))
    return {line for node in raises for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _is_prose(token: str, code: str) -> bool:
    """Return whether a token is prose: a comment, or a docstring, before which ``code`` ends a heading or is empty."""
    if token.startswith("#"):
        return True
    return token.startswith('"""') and (not code.strip() or bool(re.search(r":[ \t]*\n\s*[rR]?$", code)))


def prose(path: str, text: str) -> str:
    """Return the prose of a file, each word in its line: code and comment marks are blanked out."""
    if path.endswith(".md"):
        return _without_code_spans(text)
    is_python = path.endswith(".py")
    messages = _message_lines(text) if is_python else set()
    parts, end, code = [], 0, ""
    for token in (PYTHON_TOKEN if is_python else C_TOKEN).finditer(text):
        before = text[end : token.start()]
        code += before
        if is_python:
            is_prose = _is_prose(token[0], code) or text.count("\n", 0, token.start()) + 1 in messages
        else:
            is_prose = not token[0].startswith('"')
        if is_prose:
            parts += [_blank(before), COMMENT_MARK.sub(_spaces, token[0])]
        else:
            parts.append(_blank(before + token[0]))
        code = (code if token[0].startswith("#") else CODE)[-200:]
        end = token.end()
    return _without_code_spans("".join([*parts, _blank(text[end:])]))


def _spaces(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _line(found: re.Match[str]) -> int:
    return found.string.count("\n", 0, found.start()) + 1


def expression(pattern: str) -> re.Pattern[str]:
    """Return a pattern of the data as a regular expression: whole words in any case, and any white space for a
    space."""
    return re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), re.IGNORECASE)


class Rules:
    """The rules of a data file, ready to be applied.

    Parameters
    ----------
    data : dict
        The contents of ``tools/words.json``.
    """

    def __init__(self, data: dict):
        self.data = data
        self.words = [(expression(row["refuse"]), row["write"], tuple(row.get("in", [""]))) for row in data["words"]]
        self.any_word = expression("|".join(row["refuse"] for row in data["words"]))

    def offences(self, path: str, text: str) -> list[Offence]:
        """The offences in a file.

        Parameters
        ----------
        path : str
            The path of the file from the top folder, with slashes.
        text : str
            The text of the file.

        Returns
        -------
        offences : list of Offence
            The offences in the order of the rules.
        """
        found: list[tuple[int, str, str]] = []
        searched = prose(path, text)
        if self.any_word.search(searched):
            for refused, write, prefixes in self.words:
                if path.startswith(prefixes):
                    found += [(_line(hit), hit[0], f"write {write}") for hit in refused.finditer(searched)]
        if path.endswith(".md"):
            found += self._headings(path, text)
        longest = self.data["longest_line"].get(path)
        if longest:
            long = re.finditer(rf"^.{{{longest + 1},}}$", text, re.MULTILINE)
            found += [(_line(hit), hit[0][:40] + "...", f"{len(hit[0])} characters, at most {longest}") for hit in long]
        return [Offence(path, line, " ".join(word.split()), advice) for line, word, advice in found]

    def _headings(self, path: str, text: str) -> Iterator[tuple[int, str, str]]:
        rules = self.data["headings"] + (self.data["decisions"] if DECISION.search(path) else [])
        for heading in HEADING.finditer(FENCE.sub(lambda found: _blank(found[0]), text)):
            for rule in rules:
                if re.search(rule["refuse"], heading[1]) and heading[1] not in rule.get("allow", ()):
                    yield _line(heading), heading[1], f"write {rule['write']}"
            rules = self.data["headings"]  # Only the first heading of a decision is its title.


def all_offences(rules: Rules, root: Path = ROOT) -> list[Offence]:
    """Return the violations in all files of the data's ``prose``."""
    paths = sorted({path for pattern in rules.data["prose"] for path in root.glob(pattern) if path.is_file()})
    found: list[Offence] = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        if not set(name.split("/")) & {"build", "__pycache__"}:
            found += rules.offences(name, path.read_text(encoding="utf-8"))
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools words", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="check only these files and folders")
    options = parser.parse_args(arguments)
    found = all_offences(Rules(json.loads(DATA.read_text(encoding="utf-8"))))
    under = tuple(path.rstrip("/") + "/" for path in options.paths)
    shown = [one for one in found if f"{one.path}/".startswith(under)] if under else found
    for offence in shown:
        print(offence)
    print(f"{len(shown)} offences to fix")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
