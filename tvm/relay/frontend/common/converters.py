"""Tables of converters, by operator and version of its operator set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....error import OpNotImplemented


class Converters:
    """Converters of operators by name and by the first version of the operator set to which they apply.

    ``@table.op("Softmax", since=13)`` registers a function for version 13 and later, until the next registered version.
    ``versions`` is the word for a version in error messages; a framework without versions registers all converters for
    0.
    """

    def __init__(self, framework: str, versions: str = "operator set"):
        self.framework = framework
        self.versions = versions
        self._rows: dict[str, list[tuple[int, Callable[..., Any]]]] = {}

    def op(self, *names: str, since: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                rows = self._rows.setdefault(name, [])
                if any(v == since for v, _ in rows):
                    raise ValueError(f"{self.framework} operator {name} version {since} is already registered")
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

    def check_all(
        self, used: list[tuple[str, str, int, str]], otherwise: Callable[[str, int, str], bool] = lambda *row: False
    ) -> None:
        """Report all unsupported operators in one error.

        ``used`` are tuples (operator, node name, version, domain). ``otherwise(operator, version, domain)`` returns
        whether an operator without a converter is supported in another way.
        """
        missing: dict[tuple[str, int], list[str]] = {}
        asked: dict[tuple[str, int, str], bool] = {}
        for name, node, version, domain in used:
            key = (name, version, domain)
            if key not in asked:
                asked[key] = self.find(name, version) is not None or otherwise(*key)
            if not asked[key]:
                missing.setdefault((name, version), []).append(node)
        if missing:
            named = [(f"{n} ({self.versions} {v})" if v else n, w) for (n, v), w in sorted(missing.items())]
            rows = [f"{n}: {len(w)} node{'s' if len(w) > 1 else ''}, first '{w[0]}'" for n, w in named]
            raise OpNotImplemented(f"the model uses unsupported {self.framework} operators: " + "; ".join(rows))
