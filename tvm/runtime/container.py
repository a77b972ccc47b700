"""Container types of Apache TVM as thin subclasses of tuple, dict and str."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .object import Object


class Array(tuple, Object):
    """An immutable sequence.

    Parameters
    ----------
    items : Iterable, optional
        The elements.
    """

    __slots__ = ()
    type_key = "Array"

    def __new__(cls, items: Iterable = ()):
        return tuple.__new__(cls, items)

    def __getitem__(self, index):
        got = tuple.__getitem__(self, index)
        return Array(got) if isinstance(index, slice) else got

    def __add__(self, other):
        return Array((*self, *other))

    def __radd__(self, other):
        return Array((*other, *self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return repr(list(self))


class Map(dict, Object):
    """A mapping; treat it as immutable."""

    __slots__ = ()
    type_key = "Map"

    def items(self):
        return list(dict.items(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class String(str, Object):
    """A string."""

    __slots__ = ()
    type_key = "runtime.String"

    @property
    def __tvm_object__(self) -> String:
        return self


class ShapeTuple(tuple, Object):
    """A shape: a tuple of integers.

    Parameters
    ----------
    shape : Iterable[int], optional
        The dimensions.
    """

    __slots__ = ()
    type_key = "runtime.ShapeTuple"

    def __new__(cls, shape: Iterable[int] = ()):
        extents = tuple(shape)
        for extent in extents:
            if not hasattr(extent, "__index__"):
                raise TypeError(f"ShapeTuple: expected integers, got {type(extent).__name__}")
        return tuple.__new__(cls, (extent.__index__() for extent in extents))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class ADT(tuple, Object):
    """A tagged tuple: an algebraic data type (ADT) value of the virtual machine.

    Parameters
    ----------
    tag : int
        The tag of the constructor.
    fields : Iterable, optional
        The fields.
    """

    def __new__(cls, tag: int, fields: Iterable = ()):
        made = tuple.__new__(cls, fields)
        made._tag = int(tag)
        return made

    @property
    def tag(self) -> int:
        return self._tag

    def __repr__(self) -> str:
        return f"ADT(tag={self._tag}, fields={list(self)})"


def tuple_object(fields: Iterable | None = None) -> ADT:
    """A tuple as an ADT with tag 0.

    Parameters
    ----------
    fields : Iterable, optional
        The fields.

    Returns
    -------
    ADT
    """
    return ADT(0, fields or ())


def convert_container(value):
    """Convert lists and tuples to Array and dicts to Map, recursively; leave other values unchanged."""
    if isinstance(value, Object):
        return value
    if isinstance(value, (list, tuple)):
        return Array(convert_container(item) for item in value)
    if isinstance(value, Mapping):
        return Map((key, convert_container(item)) for key, item in value.items())
    return value


def getitem_helper(obj, elem_getter, length: int, index):
    """Python indexing (negative, slices) over ``elem_getter``."""
    if isinstance(index, slice):
        return [elem_getter(obj, i) for i in range(*index.indices(length))]
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for length {length}")
    return elem_getter(obj, index % length if index < 0 else index)
