"""Text of the rules of the rewriting simplifier."""

from __future__ import annotations

from typing import Any


def row(pattern: str, replacement: str, when: str | None = None, swap: bool = True) -> tuple[Any, ...]:
    return pattern, replacement, when, swap


def duals(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the rules, and the same rules with min and max exchanged."""
    table = {"min": "max", "max": "min"}

    def flip(text: str | None) -> str | None:
        if text is None:
            return None
        parts = text.replace("(", " ( ").split(" ")
        return " ".join(table.get(p, p) for p in parts).replace(" ( ", "(").replace("  ", " ")

    return [*rows, *[(flip(p), flip(r), flip(w), s) for p, r, w, s in rows]]
