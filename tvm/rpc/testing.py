"""Functions ``rpc.test.*`` that every Python server provides for trying out a session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..runtime import ndarray
from ..runtime.registry import register_func


@register_func("rpc.test.addone")
def add_one(x: int) -> int:
    """Return ``x + 1``."""
    return x + 1


@register_func("rpc.test.strcat")
def join(name: str, x: int) -> str:
    """Return ``name`` and ``x``, separated by a colon."""
    return f"{name}:{x}"


@register_func("rpc.test.except")
def fail(name: str) -> None:
    """Raise a ValueError."""
    raise ValueError(name)


@register_func("rpc.test.runtime_str_concat")
def concatenate(x: str, y: str) -> str:
    """Return the concatenation of two strings."""
    return x + y


@register_func("rpc.test.remote_array_func")
def check_ones(array: Any) -> None:
    """Raise an error unless the array has shape (3, 4) and contains only ones."""
    import numpy as np

    np.testing.assert_equal(array.numpy(), np.ones((3, 4)))


@register_func("rpc.test.add_to_lhs")
def adder(x: int) -> Callable[[int], int]:
    """Return a function that adds ``x``."""
    return lambda y: x + y


@register_func("rpc.test.remote_return_nd")
def about_array(name: str) -> Callable[..., Any]:
    """Return a function for tests of arrays; each call of ``about_array`` creates an array of ten zeros.

    ``get_arr`` returns the array, ``ref_count`` its reference count, ``get_elem`` reads one of its elements;
    ``get_arr_elem`` reads an element of a given array."""
    array = ndarray.empty((10,), "float32")
    array.copyfrom([0.0] * 10)
    functions: dict[str, Callable[..., Any]] = {
        "get_arr": lambda: array,
        "ref_count": lambda: sys.getrefcount(array) - 1,
        "get_elem": lambda index: float(array.numpy()[index]),
        "get_arr_elem": lambda given, index: float(given.numpy()[index]),
    }
    if name not in functions:
        raise RuntimeError(f"rpc.test.remote_return_nd: '{name}' is not one of {', '.join(functions)}")
    return functions[name]
