"""A registry of pattern tables by the name of the external compiler."""

from __future__ import annotations

from collections.abc import Callable

_TABLES: dict[str, list] = {}


def register_pattern_table(compiler: str, table: Callable[[], list] | None = None):
    """Register a function that returns the patterns of a compiler. Without ``table``, a decorator is returned."""

    def register(function: Callable[[], list]) -> Callable[[], list]:
        _TABLES[compiler] = function()
        return function

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> list | None:
    """Return the patterns of a compiler; None if it has none."""
    return _TABLES.get(compiler)
