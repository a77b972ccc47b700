"""Parse the text format of protobuf into nested messages without a schema, because Caffe's forks add their own fields.

A message maps each field name to the list of its values in file order: ``Word`` for strings, names and numbers, or a
nested ``Message``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ....error import TVMError

# The maximum nesting depth of messages.
_MAX_DEPTH = 64
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[A-Za-z0-9_.+-]+)|(?P<mark>[{}<>\[\]:;,])"""
)
_CLOSING = {"{": "}", "<": ">"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Word(NamedTuple):
    """A name, a number or a quoted string."""

    value: str
    quoted: bool = False


class Message(dict):
    """A message: the lists of values by field name."""

    def add(self, name: str, value) -> None:
        self.setdefault(name, []).append(value)

    def messages(self, name: str) -> list[Message]:
        found = self.get(name, [])
        if any(not isinstance(v, Message) for v in found):
            raise TVMError(f"the field {name} must be a message")
        return found

    def words(self, name: str) -> list[str]:
        found = self.get(name, [])
        if any(isinstance(v, Message) for v in found):
            raise TVMError(f"the field {name} must be a scalar, got a message")
        return [v.value for v in found]

    def word(self, name: str, default: str = "") -> str:
        """Return the value of a field. The last one counts if the field is repeated."""
        found = self.words(name)
        return found[-1] if found else default

    def ints(self, name: str) -> list[int]:
        """Return the values of an integer field."""
        try:
            found = [int(v) for v in self.words(name)]
        except ValueError:
            raise TVMError(f"the field {name} must be an integer, got {', '.join(self.words(name))[:60]}") from None
        if any(abs(v) >= 1 << 63 for v in found):
            raise TVMError(f"the field {name} has an integer of more than 64 bits")
        return found

    def merged(self, name: str) -> Message:
        """Return the message of a field; repeated occurrences are merged into one."""
        out = Message()
        for part in self.messages(name):
            for key, values in part.items():
                out.setdefault(key, []).extend(values)
        return out


class _Tokens:
    """The token stream of a text."""

    def __init__(self, text: str):
        self.text, self.at = text, 0
        self.ahead: tuple[str, Word] | None = None

    def peek(self) -> tuple[str, Word] | None:
        """Return the kind and the value of the next token without consuming it, or None at the end."""
        while self.ahead is None and self.at < len(self.text):
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                raise self.wrong(f"unexpected character '{self.text[self.at]}'")
            self.at = found.end()
            if found.lastgroup == "text":
                body = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), found["text"][1:-1])
                self.ahead = ("word", Word(body, True))
            elif found.lastgroup is not None:
                self.ahead = (found.lastgroup, Word(found[0]))
        return self.ahead

    def next(self) -> tuple[str, Word]:
        found = self.peek()
        if found is None:
            raise self.wrong("unexpected end of the text inside a message")
        self.ahead = None
        return found

    def skip(self, *marks: str) -> bool:
        found = self.peek()
        if found is not None and found[0] == "mark" and found[1].value in marks:
            self.ahead = None
            return True
        return False

    def wrong(self, problem: str) -> TVMError:
        return TVMError(f"line {self.text.count(chr(10), 0, self.at) + 1} of the network: {problem}")


def parse(text: str) -> Message:
    """Parse a text into a message."""
    tokens = _Tokens(text)
    stack: list[tuple[Message, str]] = [(Message(), "")]
    while True:
        message, end = stack[-1]
        tokens.skip(",", ";")
        if tokens.peek() is None and len(stack) == 1:
            return message
        kind, name = tokens.next()
        if kind == "mark" and name.value == end and end:
            stack.pop()
            continue
        if kind != "word" or name.quoted:
            raise tokens.wrong(f"expected a field name, got '{name.value[:40]}'")
        colon = tokens.skip(":")
        kind, value = tokens.next()
        if kind == "mark" and value.value in _CLOSING:
            inner = Message()
            message.add(name.value, inner)
            stack.append((inner, _CLOSING[value.value]))
            if len(stack) > _MAX_DEPTH:
                raise tokens.wrong(f"messages are nested deeper than {_MAX_DEPTH}")
        elif colon:
            _add_values(tokens, message, name.value, kind, value)
        else:
            raise tokens.wrong(f"expected a value of the field {name.value[:40]}, got '{value.value[:40]}'")


def _add_values(tokens: _Tokens, message: Message, name: str, kind: str, value: Word) -> None:
    """Add the value of a field, or the values of a list in brackets. Adjacent quoted strings are concatenated."""
    if kind == "word":
        while value.quoted and (found := tokens.peek()) is not None and found[1].quoted:
            value = Word(value.value + tokens.next()[1].value, True)
        message.add(name, value)
        return
    if value.value != "[":
        raise tokens.wrong(f"expected a value of the field {name[:40]}, got '{value.value}'")
    while not tokens.skip("]"):
        kind, value = tokens.next()
        if kind != "word":
            raise tokens.wrong(f"expected a value of the field {name[:40]}, got '{value.value}'")
        message.add(name, value)
        tokens.skip(",")


__all__ = ["Message", "Word", "parse"]
