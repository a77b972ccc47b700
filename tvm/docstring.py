"""Generates common sections of docstrings, so that the parameters of an operator family are described once.

    PARAMETERS = {"data": ("Expr", "The input."), "axis": ("int", "The dimension.")}

    @described(PARAMETERS, returns="Expr")
    def softmax(data, axis=-1):
        \"\"\"exp(x) over the sum of exp along ``axis``.\"\"\"

A docstring may have its own section of parameters in NumPy's style, which takes precedence over the family's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
# The type and description of a parameter.
Descriptions = Mapping[str, "tuple[str, str]"]
_TITLE = "Parameters\n----------\n"
_LATER = re.compile(r"^(Returns|Yields|Raises|Examples|Notes)\n-+$", re.MULTILINE)


def docstring(
    sentence: str, parameters: Iterable[tuple[str, str, str]], returns: str = "", raises: tuple[str, str] | None = None
) -> str:
    """Return a NumPy-style docstring from a sentence, parameters as (name, type, description), and a return type.

    ``raises`` is an exception and its condition.
    """
    lines = [sentence, ""]
    entries = [_entry(*parameter) for parameter in parameters]
    if entries:
        lines += [_TITLE + "\n".join(entries), ""]
    if returns:
        lines += [f"Returns\n-------\n{returns}", ""]
    if raises:
        lines += [f"Raises\n------\n{raises[0]}\n    {raises[1]}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _entry(name: str, kind: str, text: str) -> str:
    return f"{name} : {kind}\n    {text}"


def described(known: Descriptions, returns: str = "") -> Callable[[T], T]:
    """Return a decorator that adds parameters from ``known`` to the docstring of a function or class, unless the
    docstring describes them."""

    def decorate(value: T) -> T:
        function: Any = value.__init__ if isinstance(value, type) else value
        value.__doc__ = completed(value.__doc__ or "", function.__code__, known, returns)
        return value

    return decorate


def completed(doc: str, code: Any, known: Descriptions, returns: str = "") -> str:
    """Return a docstring with a section for every parameter of ``code`` that the docstring or ``known`` describes."""
    sentence, own, rest = _parts(inspect.cleandoc(doc))
    number = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:number])
    for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            names.append(star + code.co_varnames[number])
            number += 1
    if returns and not rest.startswith(("Returns", "Yields")):
        rest = f"Returns\n-------\n{returns}\n\n{rest}".strip()
    entries = []
    for name in names:
        plain = name.lstrip("*")
        if plain in own:
            entries.append(own[plain])
        elif plain in known:
            entries.append(_entry(name, *known[plain]))
    text = docstring(sentence, (), "")
    if entries:
        text += "\n" + _TITLE + "\n".join(entries) + "\n"
    return f"{text}\n{rest}\n" if rest else text


def describe_returns(functions: Iterable[Any], words: str, kinds: str) -> None:
    """Add a description of the return value to docstrings that contain only its type, for functions whose return
    annotation ends with one of ``kinds``."""
    for function in functions:
        kind = getattr(function, "__annotations__", {}).get("return", "")
        if isinstance(kind, str) and kind.endswith(kinds):
            doc = inspect.cleandoc(function.__doc__ or "")
            sentence, _, rest = doc.partition("Returns\n-------\n")
            own, _, more = rest.partition("\n")
            if not more.startswith(" "):
                function.__doc__ = f"{sentence.rstrip()}\n\nReturns\n-------\n{own or kind}\n    {words}\n{more}"


def words(doc: str) -> str:
    """Return a docstring without its sections."""
    text = inspect.cleandoc(doc)
    sections = [at for at in (text.find(_TITLE), *(found.start() for found in _LATER.finditer(text))) if at >= 0]
    return text[: min(sections, default=len(text))].strip()


def _parts(doc: str) -> tuple[str, dict[str, str], str]:
    """Split a docstring into its sentence, its parameter entries by name, and the remaining sections."""
    sentence, found, after = doc.partition(_TITLE)
    if not found:
        later = _LATER.search(doc)
        at = later.start() if later else len(doc)
        return doc[:at].strip(), {}, doc[at:].strip()
    body, _, rest = after.partition("\n\n")
    own: dict[str, str] = {}
    for line in body.splitlines():
        if line and not line[0].isspace():
            own[line.split(" : ")[0].strip("* ")] = line
        elif own:
            own[next(reversed(own))] += "\n" + line
    return sentence.strip(), own, rest.strip()
