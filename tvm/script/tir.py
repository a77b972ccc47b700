"""The namespace of TVMScript: ``from tvm.script import tir as T``.

The names of expressions and of element types are those of ``tvm.tir``. Parsing a Python function as TVMScript is not
supported: a function decorated with ``prim_func`` raises an error when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import tir as _tir
from ..ir.prim import const, convert
from ..ir.type import PointerType, PrimType
from ..not_built import name_of as _name_of
from ..tir import Broadcast as broadcast
from ..tir import Ramp as ramp
from ..tir.function import PrimFunc

_DTYPES = (
    *(f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16", "float32", "float64", "bfloat16", "bool",
)  # fmt: skip


def _dtype(name: str) -> Callable[..., Any]:
    def of_type(expr: Any = None, is_size_var: bool = False) -> Any:
        if expr is None:
            return (_tir.SizeVar if is_size_var else _tir.Var)("", name)
        return const(expr, name) if isinstance(expr, (int, float)) else _tir.Cast(name, convert(expr))

    of_type.__name__ = of_type.__qualname__ = name
    of_type.__doc__ = f"A value of type {name}; without a value, a variable."
    return of_type


globals().update({name: _dtype(name) for name in _DTYPES})
globals().update({f"{name}x{lanes}": _dtype(f"{name}x{lanes}") for name in _DTYPES for lanes in (4, 8, 16, 32, 64)})


def boolean(expr: Any = None, is_size_var: bool = False) -> Any:
    """Return a bool constant."""
    return _dtype("bool")(expr, is_size_var)


def handle(dtype: str | None = None, storage_scope: str = "global", *, is_size_var: bool = False) -> Any:
    """Return a variable that contains an address."""
    return _tir.Var("", "handle" if dtype is None else PointerType(PrimType(dtype), storage_scope))


def cast(src: Any, dtype: str, span: Any = None) -> Any:
    """Return the value cast to another element type."""
    return _tir.Cast(dtype, convert(src), span)


def Let(expr: Any, where: dict[Any, Any]) -> Any:
    """Return the expression with the variable values in ``where``."""
    for var, value in reversed(where.items()):
        expr = _tir.Let(var, value, expr)
    return expr


def _buffer(
    shape: Any, dtype: str = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
    scope: str = "global", align: int = 0, offset_factor: int = 0, buffer_type: str = "", axis_separators: Any = None,
) -> Any:  # fmt: skip
    return _tir.decl_buffer(
        shape, dtype, "buffer", data, strides, elem_offset, scope, align or -1, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip


def fabs(x: Any) -> Any:
    """Return the absolute value."""
    return _tir.abs(x)


class _ByCallOrIndex:
    """``T.Buffer((16,), "float32")`` and its older form ``T.Buffer[(16,), "float32"]``."""

    def __init__(self, make: Callable[..., Any]):
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(*args, **kwargs)

    def __getitem__(self, keys: Any) -> Any:
        return self._make(*keys) if isinstance(keys, tuple) and isinstance(keys[-1], str) else self._make(keys)


Buffer = _ByCallOrIndex(_buffer)
Ptr = ptr = _ByCallOrIndex(lambda dtype, scope="global": handle(getattr(dtype, "__name__", dtype), scope))


def __getattr__(name: str) -> Any:
    try:
        return _name_of(__name__, name)
    except AttributeError:
        if name.startswith("_") or not hasattr(_tir, name):
            raise
        return getattr(_tir, name)


__all__ = ["Buffer", "Let", "PrimFunc", "Ptr", "boolean", "broadcast", "cast", "fabs", "handle", "ptr", "ramp",
           *_DTYPES]  # fmt: skip
