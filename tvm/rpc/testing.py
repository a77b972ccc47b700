"""Functions ``rpc.test.*``, which every Python server has, so that clients can try a session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..runtime import ndarray
from ..runtime.registry import register_func


@register_func("rpc.test.addone")
def add_one(x: int) -> int:
    """``x + 1``."""
    return x + 1


@register_func("rpc.test.strcat")
def join(name: str, x: int) -> str:
    """The two with a colon between them."""
    return f"{name}:{x}"


@register_func("rpc.test.except")
def fail(name: str) -> None:
    """Raises ValueError."""
    raise ValueError(name)


@register_func("rpc.test.runtime_str_concat")
def concatenate(x: str, y: str) -> str:
    """One text behind the other."""
    return x + y


@register_func("rpc.test.remote_array_func")
def check_ones(array: Any) -> None:
    """Raises an error unless the array is one of 3 by 4 ones."""
    import numpy as np

    np.testing.assert_equal(array.numpy(), np.ones((3, 4)))


@register_func("rpc.test.add_to_lhs")
def adder(x: int) -> Callable[[int], int]:
    """A function that adds ``x``."""
    return lambda y: x + y


@register_func("rpc.test.remote_return_nd")
def about_array(name: str) -> Callable[..., Any]:
    """A function about one array of ten zeros, which each call makes anew: ``get_arr`` returns it, ``ref_count`` counts
    the references to it, and ``get_elem`` reads an element; ``get_arr_elem`` reads one of a given array."""
    array = ndarray.empty((10,), "float32")
    array.copyfrom([0.0] * 10)
    functions: dict[str, Callable[..., Any]] = {
        "get_arr": lambda: array,
        "ref_count": lambda: sys.getrefcount(array) - 1,
        "get_elem": lambda index: float(array.numpy()[index]),
        "get_arr_elem": lambda given, index: float(given.numpy()[index]),
    }
    if name not in functions:
        raise RuntimeError(f"rpc.test.remote_return_nd: '{name}' is none of {', '.join(functions)}")
    return functions[name]
