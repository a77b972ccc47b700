"""Paths from a root object to a nested element: ``<root>.body.seq[1].value``."""

from __future__ import annotations

from typing import Any


class ObjectPath:
    """A path; each step is an attribute, an element of a list or a value of a dictionary.

    Paths compare by their steps; keys of dictionaries that are variables compare by identity.

    Parameters
    ----------
    parent : ObjectPath
        The parent path.
    value : optional
        The last step.
    """

    __slots__ = ("parent", "value")

    def __init__(self, parent: ObjectPath | None, value: Any = None):
        self.parent = parent
        self.value = value

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        """The path of a root object.

        Parameters
        ----------
        root_name : str, optional
            The name of the object in texts; "<root>" by default.

        Returns
        -------
        ObjectPath
        """
        return RootPath(None, root_name)

    def attr(self, attr_key: str | None) -> ObjectPath:
        """The path of an attribute; None represents an attribute without a name.

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
            The index of the element.

        Returns
        -------
        ObjectPath
        """
        return ArrayIndexPath(self, int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        """The path of an element that is missing in the list at this path but exists in another list.

        Parameters
        ----------
        index : int
            The index of the missing element.

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
        """The path of an entry that is missing in the dictionary at this path but exists in another dictionary.

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
        """The path of the first ``length`` steps; the root counts as one step.

        Parameters
        ----------
        length : int
            The number of steps.

        Returns
        -------
        ObjectPath

        Raises
        ------
        IndexError
            ``length`` is zero, or the path has fewer steps.
        """
        size = len(self)
        if not 1 <= length <= size:
            raise IndexError(f"{self} has prefixes of length 1 to {size}, got {length}")
        path = self
        for _ in range(size - length):
            path = path.parent
        return path

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether this path is a prefix of another path.

        Parameters
        ----------
        other : ObjectPath
            The other path.

        Returns
        -------
        bool
            Whether it is a prefix; also True if the paths are equal.
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
