"""Apache TVM's names for sequences and mappings inside nodes, which are plain tuples and dictionaries."""

from __future__ import annotations

from typing import Any


class _ContainerMeta(type):
    """Makes ``isinstance(x, Array)`` test for the plain Python type."""

    _plain: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls._plain)


class Array(metaclass=_ContainerMeta):
    """A sequence in a node: ``Array(items)`` is a tuple.

    Parameters
    ----------
    items : optional
        The contents.
    """

    _plain: tuple[type, ...] = (tuple, list)

    def __new__(cls, items: Any = ()):
        return tuple(items)


class Map(metaclass=_ContainerMeta):
    """A mapping in a node: ``Map(items)`` is a dictionary.

    Parameters
    ----------
    items : optional
        The contents.
    """

    _plain: tuple[type, ...] = (dict,)

    def __new__(cls, items: Any = ()):
        return dict(items)


__all__ = ["Array", "Map"]
