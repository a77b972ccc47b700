"""What importers share: tables of converters and readers of attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import OpNotImplemented


class Converters:
    """Converters of operators by name and by the version of the operator set they start with.

    ``@table.op("Softmax", 13)`` registers a function for version 13 and later, until a newer one.
    """

    def __init__(self, framework: str):
        self.framework = framework
        self._rows: dict[str, list[tuple[int, Callable[..., Any]]]] = {}

    def op(self, *names: str, since: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                rows = self._rows.setdefault(name, [])
                if any(v == since for v, _ in rows):
                    raise ValueError(f"{self.framework} operator {name} version {since} is registered already")
                rows.append((since, function))
                rows.sort(key=lambda row: row[0])
            return function

        return add

    def find(self, name: str, version: int) -> Callable[..., Any] | None:
        found = None
        for since, function in self._rows.get(name, ()):
            if since <= version:
                found = function
        return found

    def names(self) -> list[str]:
        return sorted(self._rows)

    def check(self, used: list[tuple[str, str]], version: int) -> None:
        """``used`` are (operator, node name) pairs; every one that is not supported is listed in one error."""
        missing: dict[str, list[str]] = {}
        for name, node in used:
            if self.find(name, version) is None:
                missing.setdefault(name, []).append(node)
        if missing:
            rows = [f"  {n} (operator set {version}): {len(w)} node{'s' if len(w) > 1 else ''}, first '{w[0]}'"
                    for n, w in sorted(missing.items())]
            raise OpNotImplemented(
                f"the model uses {self.framework} operators that are not supported:\n" + "\n".join(rows)
            )
