"""Paths from a root object to a place inside it: ``<root>.body.seq[1].value``."""

from __future__ import annotations

from typing import Any


class ObjectPath:
    """A path; each step is an attribute, an element of a list or a value of a dictionary."""

    __slots__ = ("_kind", "_value", "parent")

    def __init__(self, parent: ObjectPath | None, kind: str, value: Any):
        self.parent = parent
        self._kind = kind
        self._value = value

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        return ObjectPath(None, "root", root_name)

    def attr(self, attr_key: str | None) -> ObjectPath:
        """The attribute of that name; None stands for one that cannot be named."""
        return ObjectPath(self, "attr", attr_key)

    def array_index(self, index: int) -> ObjectPath:
        return ObjectPath(self, "array_index", int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        return ObjectPath(self, "missing_array_element", int(index))

    def map_value(self, key: Any) -> ObjectPath:
        return ObjectPath(self, "map_value", key)

    def missing_map_entry(self) -> ObjectPath:
        return ObjectPath(self, "missing_map_entry", None)

    def _steps(self) -> list[tuple[str, Any]]:
        steps = []
        path: ObjectPath | None = self
        while path is not None:
            steps.append((path._kind, path._value))
            path = path.parent
        return steps[::-1]

    def __len__(self) -> int:
        return len(self._steps())

    def get_prefix(self, length: int) -> ObjectPath:
        """The path of the first ``length`` steps; the root is one."""
        if not 1 <= length <= len(self):
            raise IndexError(f"{self} has prefixes of length 1 to {len(self)}, asked for {length}")
        path = self
        for _ in range(len(self) - length):
            path = path.parent
        return path

    def is_prefix_of(self, other: ObjectPath) -> bool:
        steps = self._steps()
        return other._steps()[: len(steps)] == steps

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ObjectPath) and self._steps() == other._steps()

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return "".join(_step_text(kind, value) for kind, value in self._steps())

    __repr__ = __str__


def _step_text(kind: str, value: Any) -> str:
    if kind == "root":
        return value or "<root>"
    if kind == "attr":
        return f".{value}" if value is not None else ".<unknown attribute>"
    if kind == "array_index":
        return f"[{value}]"
    if kind == "map_value":
        return f"[{str(value)!r}]"
    if kind == "missing_array_element":
        return f"[<missing element #{value}>]"
    return "[<missing entry>]"
