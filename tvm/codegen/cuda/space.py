"""Execution and memory spaces in CUDA source: functions and variables without a space are marked ``__device__``. NVRTC
assumes this (``--device-as-default-execution-space``), nvcc does not."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"|(?P<mark>[{}();=])|(?P<word>\w+)|(?P<other>[^\s\w])",
    re.DOTALL | re.MULTILINE,
)
_SPACES = {"__device__", "__global__", "__host__", "__constant__", "__shared__", "__managed__"}
# Keywords of declarations that declare neither a function nor a variable.
_NO_ENTITY = {"typedef", "using", "static_assert", "_Static_assert", "namespace", "asm", "__asm__"}
_TYPES = {"struct", "class", "union", "enum"}
# Prefixes of a declaration before its specifiers.
_PREFIX = re.compile(r'(?:template\s*<[^{;()]*>\s*|extern\s*"C(?:\+\+)?"\s*)*')


def on_device(text: str) -> str:
    """Return ``text`` with ``__device__`` before each function and variable at file scope without a space."""
    out, done = [], 0
    for offset in _offsets(text):
        out += [text[done:offset], "__device__ "]
        done = offset
    return "".join([*out, text[done:]])


def _offsets(text: str) -> list[int]:
    """Return the offsets of the declarations to be marked, in order."""
    offsets: list[int] = []
    begin = head_end = None  # First character of the current declaration, and the end of its words
    braces = parentheses = 0  # Number of open braces and parentheses in the declaration
    for token in _TOKEN.finditer(text):
        mark, at = token.group("mark"), token.start()
        if token.group("skip") is not None and not token.group().startswith(('"', "'")):
            continue
        if begin is None:
            if mark in (";", "}"):  # End of a namespace or an empty declaration
                continue
            begin, head_end = at, None
        if mark in ("(", ")"):
            parentheses += 1 if mark == "(" else -1
        elif mark == "{" and not braces and not parentheses and _opens(text[begin:at]):
            begin = None
        elif mark == "{":
            head_end = at if head_end is None else head_end
            braces += 1
        elif mark == "}":
            braces -= 1
            if not braces and not parentheses and _is_function(text[begin:head_end]):
                offsets += _marked(text, begin, head_end)
                begin = None
        elif mark == "=" and not braces and not parentheses and head_end is None:
            head_end = at
        elif mark == ";" and not braces and not parentheses:
            offsets += _marked(text, begin, at if head_end is None else head_end)
            begin = None
    return offsets


def _words(head: str) -> list[str]:
    """Return the words and brackets of a declaration, without comments, strings and template parameters."""
    found = _TOKEN.finditer(_PREFIX.sub("", head, count=1))
    return [token.group() for token in found if token.group("skip") is None]


def _opens(head: str) -> bool:
    """Return whether a brace after the declaration contains declarations at file scope."""
    words = _words(head)
    return words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"] or (not words and "extern" in head)


def _is_function(head: str) -> bool:
    """Return whether a brace after the declaration contains statements, so that the declaration ends with it."""
    words = _words(head)
    while words and words[-1] in ("const", "noexcept"):
        words.pop()
    return words[-1:] == [")"] and words[0] != "typedef"


def _marked(text: str, begin: int, end: int) -> list[int]:
    words = _words(text[begin:end])
    if not words or words[0] in _NO_ENTITY or _SPACES & set(words):
        return []
    plain = [w for w in words if w not in ("static", "const", "inline", "extern", "volatile")]
    if plain[:1] and plain[0] in _TYPES:
        defines = text[end] == "{" and not _is_function(text[begin:end])
        if defines or text[end] == ";" and len(plain) <= 2:
            return []
    return [end if (prefix := _PREFIX.match(text, begin, end)) is None else prefix.end()]


__all__ = ["on_device"]
