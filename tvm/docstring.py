"""Docstrings put together: operators of one family share their parameters, which are described once.

    PARAMETERS = {"data": ("Expr", "The input."), "axis": ("int", "The dimension.")}

    @described(PARAMETERS, returns="Expr")
    def softmax(data, axis=-1):
        \"\"\"exp(x) over the sum of exp along ``axis``.\"\"\"

A docstring may have a section of parameters that are its own, in NumPy's style; it wins over the family's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# A parameter's type and what it is.
Descriptions = Mapping[str, "tuple[str, str]"]
_TITLE = "Parameters\n----------\n"


def docstring(sentence: str, parameters: Iterable[tuple[str, str, str]], returns: str = "") -> str:
    """A docstring in NumPy's style of a sentence, the parameters as (name, type, description), and a type."""
    lines = [sentence, ""]
    entries = [_entry(*parameter) for parameter in parameters]
    if entries:
        lines += [_TITLE + "\n".join(entries), ""]
    if returns:
        lines += [f"Returns\n-------\n{returns}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _entry(name: str, kind: str, text: str) -> str:
    return f"{name} : {kind}\n    {text}"


def described(known: Descriptions, returns: str = "") -> Callable[[Any], Any]:
    """A decorator that adds to a docstring the parameters it says nothing about, as ``known`` describes them."""

    def decorate(function: Any) -> Any:
        function.__doc__ = completed(function.__doc__ or "", function.__code__, known, returns)
        return function

    return decorate


def completed(doc: str, code: Any, known: Descriptions, returns: str = "") -> str:
    """A docstring with a section for every parameter of ``code`` that it or ``known`` describes."""
    sentence, own, rest = _parts(inspect.cleandoc(doc))
    number = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:number])
    for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            names.append(star + code.co_varnames[number])
            number += 1
    if own and own.keys() >= {name.lstrip("*") for name in names}:
        return doc
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
    if rest:
        return f"{text}\n{rest}\n"
    return f"{text}\nReturns\n-------\n{returns}\n" if returns else text


def _parts(doc: str) -> tuple[str, dict[str, str], str]:
    """The sentence of a docstring, its entries of parameters by name, and the sections after them."""
    sentence, found, after = doc.partition(_TITLE)
    if not found:
        sentence, found, rest = doc.partition("Returns\n-------\n")
        return sentence.strip(), {}, (found + rest).strip()
    body, _, rest = after.partition("\n\n")
    own: dict[str, str] = {}
    for line in body.splitlines():
        if line and not line[0].isspace():
            own[line.split(" : ")[0].strip("* ")] = line
        elif own:
            own[next(reversed(own))] += "\n" + line
    return sentence.strip(), own, rest.strip()
