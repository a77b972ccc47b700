"""Conversion of Python values to runtime objects."""

from __future__ import annotations

from numbers import Number

from ..hooks import Hook
from .container import Array, Map, String
from .object import Object, ObjectGeneric
from .packed_func import PackedFunc, convert_to_function

# The compiler converts numbers to constant expressions; the runtime-only package does not.
CONVERT_NUMBER: Hook[..., object] = Hook(
    "runtime.object_generic.CONVERT_NUMBER",
    "converts a number to an object, `(number, dtype=None)`",
    lambda value, dtype=None: value,
)


def const(value: object, dtype: str | None = None, span: object = None) -> object:
    """A Python number as a constant of type ``dtype``.

    Parameters
    ----------
    value : int, float or bool
        The number.
    dtype : str, optional
        The type.

    Returns
    -------
    object
    """
    return CONVERT_NUMBER(value, dtype)


def convert_to_object(value: object, span: object = None) -> object:
    """A Python value as a runtime object.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        A dictionary key cannot be a key of a Map.
    """
    if isinstance(value, (Object, PackedFunc)) or value is None:
        return value
    if isinstance(value, (bool, Number)) or type(value).__name__ in ("bool", "bool_"):  # NumPy's bool is not a Number
        return CONVERT_NUMBER(value)
    if isinstance(value, str):
        return String(value)
    if isinstance(value, (list, tuple)):
        return Array(convert_to_object(item) for item in value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) and not isinstance(key, Object) and not hasattr(key, "__hash__"):
                raise ValueError(f"convert: a {type(key).__name__} cannot be the key of a Map")
        return Map(
            (String(key) if isinstance(key, str) else key, convert_to_object(item)) for key, item in value.items()
        )
    if isinstance(value, ObjectGeneric) or hasattr(value, "asobject"):
        return value.asobject()
    return _convert_other(value)


def _convert_other(value: object) -> object:
    from .module import Module
    from .ndarray import NDArrayBase

    if isinstance(value, (NDArrayBase, Module, bytes, bytearray)) or hasattr(value, "device_type"):
        return value
    if callable(value):
        return convert_to_function(value)
    # Compiler nodes are already objects.
    if hasattr(type(value), "__slots__"):
        return value
    raise TypeError(f"convert: cannot convert a {type(value).__name__} to an object")


def convert(value: object, span: object = None) -> object:
    """A Python value as a runtime object: numbers, strings, lists, dicts, functions.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    object
    """
    return convert_to_object(value, span)
