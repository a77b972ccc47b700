"""The text of a pattern: a line for each pattern inside it that has parts or is used again, then its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .patterns import DFPattern


def as_text(pattern: DFPattern, annotate: Callable[[DFPattern], str] | None = None) -> str:
    """``%0 = CallPattern(...)`` for what is inside, as Relay's text has it; a pattern may be a part of itself."""
    order, uses = _parts_first(pattern)
    numbered = [p for p in order if uses[id(p)] > 1 or uses[id(p)] and (p is pattern or p.parts())]
    names = {id(p): f"%{i}" for i, p in enumerate(numbered)}

    def line(p: DFPattern) -> str:
        fields = ", ".join(written(value) for value in vars(p).values() if value is not None)
        return f"{type(p).__name__}({fields})"

    def written(value: Any) -> str:
        if isinstance(value, DFPattern):
            return names.get(id(value)) or line(value)
        if isinstance(value, list):
            return f"[{', '.join(map(written, value))}]"
        return str(value)

    def whole(p: DFPattern) -> str:
        comment = annotate(p) if annotate is not None else ""
        return (f"{names[id(p)]} = " if id(p) in names else "") + line(p) + (f" /* {comment} */" if comment else "")

    return "\n".join(map(whole, [*(p for p in numbered if p is not pattern), pattern]))


def _parts_first(pattern: DFPattern) -> tuple[list[DFPattern], dict[int, int]]:
    """All patterns, each after its parts but where those lead back to it, and how often each is a part."""
    order, uses, seen = [], {id(pattern): 0}, {id(pattern)}
    stack = [(pattern, iter(pattern.parts()))]
    while stack:
        p, rest = stack[-1]
        part = next(rest, None)
        if part is None:
            order.append(p)
            stack.pop()
            continue
        uses[id(part)] = uses.get(id(part), 0) + 1
        if id(part) not in seen:
            seen.add(id(part))
            stack.append((part, iter(part.parts())))
    return order, uses
