"""Tables of patterns by the name of the compiler that takes them."""

from __future__ import annotations

from collections.abc import Callable

_TABLES: dict[str, list] = {}


def register_pattern_table(compiler: str, table: Callable[[], list] | None = None):
    """Name the patterns a compiler takes; ``table()`` gives them. Without a table: a decorator."""

    def register(function: Callable[[], list]) -> Callable[[], list]:
        _TABLES[compiler] = function()
        return function

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> list | None:
    """The patterns of a compiler, None if it has none."""
    return _TABLES.get(compiler)
