"""Print patterns as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...ir.visit import post_order
from .patterns import DFPattern


def as_text(pattern: DFPattern, annotate: Callable[[DFPattern], str] | None = None) -> str:
    """Return the text of a pattern: lines ``%0 = CallPattern(...)`` for nested patterns, as in Relay's text format,
    followed by the pattern itself. A pattern may contain itself."""
    order = list(post_order(pattern, operands=lambda p: p.parts()))
    uses = Counter(id(part) for p in order for part in p.parts())
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
