"""The registry class of this package: maps names to values and rejects duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
V = TypeVar("V")


class Registry(Generic[T]):
    """A table of named values. ``what`` describes the values in error messages."""

    def __init__(self, what: str):
        self.what = what
        self._items: dict[str, T] = {}

    @overload
    def register(self, name: str, value: V, override: bool = False) -> V: ...
    @overload
    def register(self, name: str, value: None = None, override: bool = False) -> Callable[[V], V]: ...
    def register(self, name: str, value: Any = None, override: bool = False) -> Any:
        """Add ``value`` under ``name``; without a value, return a decorator."""
        if value is None:
            return lambda v: self.register(name, v, override)
        if name in self._items and not override:
            raise ValueError(f"{self.what} '{name}' is already registered; pass override=True to replace it")
        self._items[name] = value
        return value

    def get(self, name: str, default: T | None = None) -> T | None:
        return self._items.get(name, default)

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(f"no {self.what} named '{name}'") from None

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def names(self) -> list[str]:
        return sorted(self._items)

    def remove(self, name: str) -> None:
        self._items.pop(name, None)


Factory = Callable[..., object]
