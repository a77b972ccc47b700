"""Paths from a root object to a place inside it: ``<root>.body.seq[1].value``."""

from __future__ import annotations

from typing import Any


class ObjectPath:
    """A path; each step is an attribute, an element of a list or a value of a dictionary.

    Paths compare by their steps; keys of dictionaries that are variables compare by identity.

    Parameters
    ----------
    parent : ObjectPath
        The path it goes on from.
    value : optional
        The step.
    """

    __slots__ = ("parent", "value")

    def __init__(self, parent: ObjectPath | None, value: Any = None):
        self.parent = parent
        self.value = value

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        """The path of an object itself, which others go on from.

        Parameters
        ----------
        root_name : str, optional
            What the object is called in texts; "<root>" without it.

        Returns
        -------
        ObjectPath
        """
        return RootPath(None, root_name)

    def attr(self, attr_key: str | None) -> ObjectPath:
        """The attribute of that name; None stands for one that cannot be named.

        Parameters
        ----------
        attr_key : str, optional
            The name of the attribute.

        Returns
        -------
        ObjectPath
        """
        return UnknownAttributeAccessPath(self) if attr_key is None else AttributeAccessPath(self, attr_key)

    def array_index(self, index: int) -> ObjectPath:
        """The path of an element of the list at this path.

        Parameters
        ----------
        index : int
            The place of the element.

        Returns
        -------
        ObjectPath
        """
        return ArrayIndexPath(self, int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        """The path of an element that the list at this path lacks, where another list has one.

        Parameters
        ----------
        index : int
            The place where it would be.

        Returns
        -------
        ObjectPath
        """
        return MissingArrayElementPath(self, int(index))

    def map_value(self, key: Any) -> ObjectPath:
        """The path of a value of the dictionary at this path.

        Parameters
        ----------
        key : Any
            The key of the value.

        Returns
        -------
        ObjectPath
        """
        return MapValuePath(self, key)

    def missing_map_entry(self) -> ObjectPath:
        """The path of an entry that the dictionary at this path lacks, where another dictionary has one.

        Returns
        -------
        ObjectPath
        """
        return MissingMapEntryPath(self)

    def _text(self) -> str:
        return ""

    def _steps(self) -> list[tuple[type, Any]]:
        steps = []
        path: ObjectPath | None = self
        while path is not None:
            steps.append((type(path), path.value))
            path = path.parent
        return steps[::-1]

    def __len__(self) -> int:
        return len(self._steps())

    def get_prefix(self, length: int) -> ObjectPath:
        """The path of the first ``length`` steps; the root is one.

        Parameters
        ----------
        length : int
            How many steps.

        Returns
        -------
        ObjectPath

        Raises
        ------
        IndexError
            The path has no steps, or fewer.
        """
        size = len(self)
        if not 1 <= length <= size:
            raise IndexError(f"{self} has prefixes of length 1 to {size}; length {length} was asked for")
        path = self
        for _ in range(size - length):
            path = path.parent
        return path

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether another path begins with the steps of this one.

        Parameters
        ----------
        other : ObjectPath
            The other path.

        Returns
        -------
        bool
            True also where they are equal.
        """
        steps = self._steps()
        return other._steps()[: len(steps)] == steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and self._steps() == other._steps()

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        parts = []
        path: ObjectPath | None = self
        while path is not None:
            parts.append(path._text())
            path = path.parent
        return "".join(reversed(parts))

    __repr__ = __str__


class RootPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return self.value or "<root>"


class AttributeAccessPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return f".{self.value}"


class UnknownAttributeAccessPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return ".<unknown attribute>"


class ArrayIndexPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return f"[{self.value}]"


class MissingArrayElementPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return f"[<missing element #{self.value}>]"


class MapValuePath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        key = self.value
        if isinstance(key, str):
            return f'["{key}"]'
        name = getattr(key, "name_hint", None)
        if name is None:
            return f"[{key}]"
        return f'[I.GlobalVar("{name}")]' if type(key).__name__ == "GlobalVar" else f"[{name}]"


class MissingMapEntryPath(ObjectPath):
    __slots__ = ()

    def _text(self) -> str:
        return "[<missing entry>]"
