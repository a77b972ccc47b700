"""Check that prose is written in plain words: ``python -m tools words`` prints each violation with the word to use.

Prose is the text of documents and the docstrings and comments of code, without code in fences, back quotes and
doctests. ``tools/words.json`` contains the rules:

``prose``
    The files that are checked, as glob patterns.
``words``
    Regular expressions that are rejected in prose (``refuse``), the words to write instead (``write``), and the paths
    where the rule applies (``in``, path prefixes; everywhere if absent). A space matches any white space.
``headings``, ``decisions``
    Regular expressions of rejected headings in documents and of rejected titles of decisions.
``longest_line``
    The maximum length of a line of a document, in characters.
``not_yet``
    The number of violations that remain in folders and files that are not rewritten yet. More violations are an error;
    ``--lower`` writes smaller numbers after a rewrite.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
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
    parts, end, code = [], 0, ""
    for token in (PYTHON_TOKEN if is_python else C_TOKEN).finditer(text):
        before = text[end : token.start()]
        code += before
        if _is_prose(token[0], code) if is_python else not token[0].startswith('"'):
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


def place(path: str, not_yet: dict[str, int]) -> str:
    """Return the longest path of ``not_yet`` that contains a file, or the file itself."""
    parts = path.split("/")
    prefixes = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in not_yet), path)


def unexpected(found: list[Offence], not_yet: dict[str, int]) -> list[Offence]:
    """Return the violations of each place that has more of them than ``not_yet`` lists."""
    counts = Counter(place(one.path, not_yet) for one in found)
    return [one for one in found if counts[place(one.path, not_yet)] > not_yet.get(place(one.path, not_yet), 0)]


def summary(wrong: list[Offence], not_yet: dict[str, int]) -> list[str]:
    """Return a line for each violation, but one line for a place that ``not_yet`` lists."""
    counts = Counter(place(one.path, not_yet) for one in wrong)
    many = [
        f"{name}: {count} offences, {not_yet[name]} are listed; python -m tools words {name} prints them"
        for name, count in counts.items()
        if name in not_yet
    ]
    return [*(str(one) for one in wrong if place(one.path, not_yet) not in not_yet), *many]


def lower(not_yet: dict[str, int], found: list[Offence]) -> dict[str, int]:
    """Return ``not_yet`` with its numbers lowered to the remaining violations, without places that have none."""
    counts = Counter(place(one.path, not_yet) for one in found)
    return {name: min(count, counts[name]) for name, count in not_yet.items() if counts[name]}


def with_not_yet(text: str, not_yet: dict[str, int]) -> str:
    """Return the text of the data file with other numbers and otherwise unchanged lines."""
    rows = ",\n".join(f"  {json.dumps(name)}: {count}" for name, count in not_yet.items())
    return text[: text.index('"not_yet"')] + f'"not_yet": {{\n{rows}\n }}\n}}\n'


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools words", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="print the offences of these files and folders, listed ones too")
    parser.add_argument("--lower", action="store_true", help="write smaller numbers of remaining offences")
    options = parser.parse_args(arguments)
    data = json.loads(DATA.read_text(encoding="utf-8"))
    found = all_offences(Rules(data))
    if options.lower:
        data["not_yet"] = lower(data["not_yet"], found)
        DATA.write_text(with_not_yet(DATA.read_text(encoding="utf-8"), data["not_yet"]), encoding="utf-8")
    wrong = unexpected(found, data["not_yet"])
    under = tuple(path.rstrip("/") + "/" for path in options.paths)
    listed = [one for one in found if f"{one.path}/".startswith(under)] if under else []
    for line in listed or summary(wrong, data["not_yet"]):
        print(line)
    total = sum(data["not_yet"].values())
    print(f"{len(wrong)} offences to fix; {len(found)} of at most {total} remain in {len(data['not_yet'])} places")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
