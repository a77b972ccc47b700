"""The tokenizer of Relay text, and the base class of its parsers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..error import DiagnosticError
from ..ir.serialize import load_json

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<comment>/\*)
    |(?P<version>\#\[version[^\]]*\])
    |(?P<metadata>\#\[metadata\])
    |(?P<local>%[A-Za-z_]\w*(?:/[A-Za-z_]\w*)*)
    |(?P<graph>%\d+)
    |(?P<global>@[A-Za-z_][\w.]*)
    |(?P<float>(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?:f\d*)?|\d+f\d*|(?:inf|nan)f\d*\b)
    |(?P<int>\d+(?:[iu]\d+|i\b)?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    |(?P<mark>->|=>|==|!=|<=|>=|[-+*/()\[\]{},;:=<>.?])
    """,
    re.VERBOSE | re.DOTALL,
)

# No number of any element type needs more characters.
_MOST_DIGITS = 2000


class Token(NamedTuple):
    kind: str
    text: str
    at: int


class TokenReader:
    """Splits a text into tokens and reads them one by one; error messages contain the line and the column."""

    def __init__(self, source: str, name: str, meta: Mapping | None):
        self.source, self.source_name = source, name
        self.meta: dict[str, list] = {k: list(v) for k, v in (meta or {}).items()}
        self.tokens = self.tokenize()
        self.at = 0

    def tokenize(self) -> list[Token]:
        out: list[Token] = []
        at, source = 0, self.source
        while at < len(source):
            m = _TOKEN.match(source, at)
            if m is None:
                raise self.fail(f"unexpected character {source[at]!r}", at)
            kind = m.lastgroup or ""
            if kind == "comment":
                at = self.end_of_comment(at)
                continue
            if kind == "metadata":
                self.load_meta(source[m.end() :], m.end())
                break
            if kind in ("int", "float") and m.end() - at > _MOST_DIGITS:
                raise self.fail(f"a number has {m.end() - at} characters; the maximum is {_MOST_DIGITS}", at)
            if kind not in ("space", "version"):
                out.append(Token(kind, m.group(), at))
            at = m.end()
        out.append(Token("end", "", len(source)))
        return out

    def end_of_comment(self, at: int) -> int:
        """Return the end of the comment at a position; comments may be nested."""
        begin, depth = at, 0
        for m in re.compile(r"/\*|\*/").finditer(self.source, at):
            depth += 1 if m.group() == "/*" else -1
            if depth == 0:
                return m.end()
        raise self.fail("this comment is not closed", begin)

    def load_meta(self, text: str, at: int) -> None:
        try:
            table = load_json(text.strip())
        except ValueError as problem:
            raise self.fail(f"the metadata cannot be read: {problem}", at) from None
        if not isinstance(table, Mapping):
            raise self.fail("the metadata must be a map of lists", at)
        for key, values in table.items():
            self.meta[str(key)] = list(values)

    def fail(self, message: str, at: int | None = None) -> DiagnosticError:
        at = self.tokens[self.at].at if at is None else at
        line = self.source.count("\n", 0, at) + 1
        column = at - (self.source.rfind("\n", 0, at) + 1) + 1
        text = self.source.splitlines()[line - 1] if self.source.splitlines()[line - 1 :] else ""
        return DiagnosticError(f"{self.source_name}:{line}:{column}: {message}\n  {text}\n  {' ' * (column - 1)}^")

    def look(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def sees(self, *texts: str) -> bool:
        token = self.tokens[self.at]
        return token.kind in ("mark", "name") and token.text in texts

    def accept(self, text: str) -> bool:
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            found = self.look().text or "the end of the text"
            raise self.fail(f"expected '{text}', found '{found}'")

    def need(self, kind: str, what: str) -> str:
        token = self.look()
        if token.kind != kind:
            raise self.fail(f"expected {what}, found '{token.text or 'the end of the text'}'")
        self.at += 1
        return token.text

    def items(self, close: str, read) -> list:
        """Read comma-separated items up to a closing token, which is consumed."""
        out = []
        while not self.accept(close):
            out.append(read())
            if not self.accept(","):
                self.expect(close)
                break
        return out


__all__ = ["Token", "TokenReader"]
