"""The base class of all runtime objects."""

from __future__ import annotations

from abc import ABCMeta


class Object(metaclass=ABCMeta):  # noqa: B024 - the metaclass is there for `register`
    """Base class of objects. Compiler nodes, which are in a higher layer, are added with ``Object.register``."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether another object is identical to this one.

        Parameters
        ----------
        other : object
            The other object.

        Returns
        -------
        bool
            False for an equal but different object.
        """
        return self is other


class ObjectGeneric:
    """Base class of objects that are convertible to a node with ``asobject()``."""

    __slots__ = ()

    def asobject(self):
        """Convert to a node.

        Returns
        -------
        Object

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement asobject")


ObjectTypes = (Object, ObjectGeneric)
