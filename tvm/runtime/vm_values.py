"""Values of the virtual machine as Python has them: arrays, ``ADT`` for data and tuples, and closures."""

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
    """A function of an executable with its captured values. It can be passed to machines of that executable.

    Parameters
    ----------
    handle : int
        The handle of the C side, which it owns.
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
    """The Python value of an object, whose reference is taken over. A list is as deep as it is long: nothing here
    calls itself."""
    if lib.TVMObjectKind(handle) == _lib.CLOSURE:
        return Closure(handle)
    # Data whose fields are still handles, each with its tag and the fields that are done.
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
    """Data on its way to Python: fields that are left, the last first, and those that are done."""

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
    """A value as packed functions take it: a 64-bit value, its code, and what lives as long as it."""

    __slots__ = ("_tvm_handle", "_tvm_tcode", "_kept", "_owned")

    def __init__(self, value: int, code: int, kept: object = None, owned: bool = False):
        self._tvm_handle, self._tvm_tcode, self._kept, self._owned = value, code, kept, owned

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        if self._owned and not ending():
            lib.TVMObjectFree(self._tvm_handle)


def give(root: Any) -> Given:
    """A Python value for the machine: arrays (of NumPy, too), numbers, ``ADT``, tuples and lists of these, closures."""
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
    """The fields of data; values of the interpreter have them, too."""
    if isinstance(value, (tuple, list)):
        return value
    return value.fields if hasattr(value, "constructor") and hasattr(value, "fields") else None


def _tag(value: Any) -> int:
    """The tag of a value; a tuple has none."""
    return int(getattr(value, "tag", 0))


def _leaf(value: Any) -> Given:
    if isinstance(value, Closure):
        return Given(value._handle, _lib.OBJECT, value)
    if isinstance(value, NDArray):
        if not value._tensor:
            raise TVMError("an array argument was lent to a callback and is gone now; copy it inside the callback")
        return Given(value._tensor, _lib.NDARRAY, value)
    if isinstance(value, (bool, int, float)) and not hasattr(value, "dtype"):
        import numpy

        # Python's numbers have the types that Relay's have.
        kind = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
        value = numpy.asarray(value, kind)
    made = array(value)
    return Given(made._tensor, _lib.NDARRAY, made)


__all__ = ["Closure", "Given", "VMClosure", "give", "take"]
