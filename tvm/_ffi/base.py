"""``tvm._ffi.base``: the error class and helper functions."""

from __future__ import annotations

from numbers import Integral, Number

from ..error import TVMError  # noqa: F401

string_types = (str,)
integer_types = (int, Integral)
numeric_types = (Number,)


def py_str(text: bytes) -> str:
    return text.decode("utf-8")


def c_str(text: str) -> bytes:
    return text.encode("utf-8")
