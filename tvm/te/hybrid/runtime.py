"""Execution of hybrid script as plain Python: its built-in names, implemented with NumPy."""

from __future__ import annotations

import math
from typing import Any


class _Bind:
    def __init__(self, tag: str, extent: int):
        self.tag, self.extent = tag, extent

    def __iter__(self):
        return iter(range(int(self.extent)))


def _allocate(shape: Any, dtype: str = "float32", scope: str = "global"):
    import numpy

    return numpy.zeros(tuple(int(s) for s in shape) if isinstance(shape, (tuple, list)) else (int(shape),), dtype)


def _sigmoid(x: Any):
    return 1.0 / (1.0 + math.exp(-x))


def _popcount(x: Any) -> int:
    return bin(int(x)).count("1")


def _likely(cond: Any) -> Any:
    return cond


def _ceil_div(a: Any, b: Any) -> Any:
    return (a + b - 1) // b


def _names() -> dict[str, Any]:
    import numpy

    def rsqrt(x: Any) -> Any:
        return numpy.ones_like(x) / numpy.sqrt(x)

    out: dict[str, Any] = {
        "unroll": range,
        "vectorize": range,
        "parallel": range,
        "const_range": range,
        "serial": range,
        "bind": _Bind,
        "allocate": _allocate,
        "output_tensor": _allocate,
        "sqrt": numpy.sqrt,
        "rsqrt": rsqrt,
        "log": numpy.log,
        "tanh": numpy.tanh,
        "power": numpy.power,
        "exp": numpy.exp,
        "erf": numpy.vectorize(math.erf),
        "sigmoid": _sigmoid,
        "popcount": _popcount,
        "round": round,
        "likely": _likely,
        "ceil_div": _ceil_div,
        "max_num_threads": lambda allow_none=True: 1024,
    }
    for kind in (
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
    ):
        out[kind] = getattr(numpy, kind)
    return out


def __getattr__(name: str):
    # The table is created on first use, so importing the compiler does not import NumPy.
    if name == "HYBRID_GLOBALS":
        return _names()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def run(pyfunc: Any, args: Any) -> Any:
    """Call the function as Python, with the built-in names of hybrid script defined."""
    names = _names()
    space = pyfunc.__globals__
    saved = {k: space[k] for k in names if k in space}
    space.update(names)
    try:
        return pyfunc(*args)
    finally:
        for k in names:
            if k in saved:
                space[k] = saved[k]
            else:
                space.pop(k, None)
