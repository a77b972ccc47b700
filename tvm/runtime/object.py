"""The base all runtime objects share."""

from __future__ import annotations

from abc import ABCMeta


class Object(metaclass=ABCMeta):  # noqa: B024 - the metaclass is there for `register`
    """Base class of objects. Nodes of the compiler, a higher layer, are enrolled with ``Object.register``."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether another object is this very one.

        Parameters
        ----------
        other : object
            The other object.

        Returns
        -------
        bool
            False for an equal object that is another one.
        """
        return self is other


class ObjectGeneric:
    """Base of classes that can be converted to an object: ``asobject()``."""

    __slots__ = ()

    def asobject(self):
        """Convert to an object.

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
