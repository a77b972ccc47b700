"""Python representation of virtual machine values: arrays, ``ADT`` for ADT values and tuples, and closures."""

from __future__ import annotations

import sys
from typing import Any

from ..error import TVMError
from . import _lib
from ._lib import lib
from .container import ADT
from .ndarray import NDArray, array
from .object import Object


class Closure(Object):
    """A function of an executable with its captured values; it can be passed to virtual machines of that executable.

    Parameters
    ----------
    handle : int
        The handle of the C object, which it owns.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: int):
        self._handle = handle

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        if not ending():
            lib.TVMObjectFree(self._handle)

    def __repr__(self) -> str:
        return "<closure of the virtual machine>"


VMClosure = Closure


def take(handle: int) -> ADT | Closure:
    """Convert a C object to a Python value and take over its reference. Not recursive, because the nesting depth of a
    list equals its length."""
    if lib.TVMObjectKind(handle) == _lib.CLOSURE:
        return Closure(handle)
    # ADT values whose fields have not all been converted, each with its tag and the converted fields.
    stack = [_Open(handle)]
    while True:
        top = stack[-1]
        if top.left:
            value, code = top.left.pop()
            if code == _lib.OBJECT and lib.TVMObjectKind(value) == _lib.ADT:
                stack.append(_Open(value))
            else:
                top.done.append(_plain(value, code))
            continue
        made = ADT(top.tag, top.done)
        stack.pop()
        if not stack:
            return made
        stack[-1].done.append(made)


class _Open:
    """An ADT value under conversion: the remaining fields in reverse order, and the converted fields."""

    __slots__ = ("tag", "left", "done")

    def __init__(self, handle: int):
        self.tag = lib.TVMADTTag(handle)
        self.left = _lib.data_fields(handle)[::-1]
        self.done: list[Any] = []
        lib.TVMObjectFree(handle)


def _plain(value: int, code: int) -> Any:
    if code == _lib.NDARRAY:
        return NDArray(value)
    return Closure(value) if code == _lib.OBJECT else value


class Given:
    """An argument of a packed function: a 64-bit value, its type code, and an object to keep alive."""

    __slots__ = ("_tvm_handle", "_tvm_tcode", "_kept", "_owned")

    def __init__(self, value: int, code: int, kept: object = None, owned: bool = False):
        self._tvm_handle, self._tvm_tcode, self._kept, self._owned = value, code, kept, owned

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        if self._owned and not ending():
            lib.TVMObjectFree(self._tvm_handle)


def give(root: Any) -> Given:
    """Convert a Python value for the virtual machine: arrays (also of NumPy), scalars, ``ADT``, tuples, lists,
    closures."""
    done: dict[int, Given] = {}
    stack = [root]
    while stack:
        value = stack[-1]
        if id(value) in done:
            stack.pop()
            continue
        fields = _fields(value)
        if fields is None:
            done[id(value)] = _leaf(value)
            continue
        waits = [f for f in fields if id(f) not in done]
        if waits:
            stack.extend(waits)
            continue
        parts = [done[id(f)] for f in fields]
        handle = _lib.data_create(_tag(value), [p._tvm_handle for p in parts], [p._tvm_tcode for p in parts])
        done[id(value)] = Given(handle, _lib.OBJECT, owned=True)
    return done[id(root)]


def _fields(value: Any) -> Any:
    """Return the fields of an ADT value of the runtime or of the interpreter."""
    if isinstance(value, (tuple, list)):
        return value
    return value.fields if hasattr(value, "constructor") and hasattr(value, "fields") else None


def _tag(value: Any) -> int:
    """Return the tag of a value; tuples have the tag 0."""
    return int(getattr(value, "tag", 0))


def _leaf(value: Any) -> Given:
    if isinstance(value, Closure):
        return Given(value._handle, _lib.OBJECT, value)
    if isinstance(value, NDArray):
        if not value._tensor:
            raise TVMError("an array argument was valid only during a callback; copy it inside the callback")
        return Given(value._tensor, _lib.NDARRAY, value)
    if isinstance(value, (bool, int, float)) and not hasattr(value, "dtype"):
        import numpy

        # Python scalars get the same types as in Relay.
        kind = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
        value = numpy.asarray(value, kind)
    made = array(value)
    return Given(made._tensor, _lib.NDARRAY, made)


__all__ = ["Closure", "Given", "VMClosure", "give", "take"]
