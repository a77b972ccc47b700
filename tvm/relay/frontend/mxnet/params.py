"""Read parameter files: named arrays as ``mx.nd.save`` of any version writes them.

Every length is checked against the available bytes before an array is allocated. Sparse arrays become dense.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ....error import TVMError
from ..common.context import check_count
from .schema import DTYPES

MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_DIMS = 32
_DENSE, _ROWS, _CSR = 0, 1, 2


def _numpy(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class _Bytes:
    """A bounds-checked reader of bytes."""

    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def take(self, count: int) -> memoryview:
        if count < 0 or self.at + count > len(self.data):
            raise TVMError(f"the parameters are corrupt: {count} bytes at offset {self.at} exceed the file size of "
                           f"{len(self.data)}")  # fmt: skip
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str) -> int:
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def shape(self, size: str) -> tuple[int, ...]:
        rank = self.number("i")
        return self.sizes(rank, size)

    def sizes(self, rank: int, size: str) -> tuple[int, ...]:
        if not 0 <= rank <= _MAX_DIMS:
            raise TVMError(f"the parameters are corrupt: an array has {rank} dimensions")
        dims = tuple(self.number(size) for _ in range(rank))
        if any(d < 0 for d in dims):
            raise TVMError(f"the parameters are corrupt: an array has shape {dims}")
        return dims

    def dtype(self) -> np.dtype:
        number = self.number("i")
        if not 0 <= number < len(DTYPES):
            raise TVMError(f"the parameters are corrupt: unknown element type {number}")
        return _numpy(DTYPES[number])

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        data = self.take(math.prod(shape) * dtype.itemsize)
        # An array without elements may have arbitrary other dimensions, so check them separately.
        if math.prod(d for d in shape if d) >= 1 << 47:
            raise TVMError(f"the parameters are corrupt: an array has shape {shape}")
        return np.frombuffer(data, np.uint8).view(dtype).reshape(shape) if len(data) else np.zeros(shape, dtype)


def _array(file: _Bytes) -> np.ndarray | None:
    """Return the next array, or None for an empty entry."""
    magic = file.number("I")
    if magic not in (_V1, _V2, _V3):
        # Files without a version start with the number of dimensions.
        shape, stored, kind = file.sizes(magic, "I"), (), _DENSE
    elif magic == _V1:
        shape, stored, kind = file.shape("q"), (), _DENSE
    else:
        kind = file.number("i")
        if kind not in (_DENSE, _ROWS, _CSR):
            raise TVMError(f"the parameters are corrupt: unknown storage type {kind}")
        stored = file.shape("q") if kind != _DENSE else ()
        shape = file.shape("q")
    if not shape and magic != _V3:
        return None
    file.take(8)  # The device of the array.
    dtype = file.dtype()
    if kind == _DENSE:
        return file.array(shape, dtype)
    parts = [(file.dtype(), file.shape("q")) for _ in range(1 if kind == _ROWS else 2)]
    values = file.array(stored, dtype)
    places = [file.array(dims, of) for of, dims in parts]
    return _dense(kind, shape, values, places)


def _dense(kind: int, shape: tuple[int, ...], values: np.ndarray, places: list[np.ndarray]) -> np.ndarray:
    check_count("a dense copy of a sparse array", shape)
    out = np.zeros(shape, values.dtype)
    at = [p.astype("int64") for p in places]
    if any(p.ndim != 1 for p in at) or kind == _CSR and len(shape) != 2:
        raise TVMError("the parameters are corrupt: the indices of a sparse array are not a vector")
    if kind == _ROWS:
        rows, columns = at[0], None
        fits = values.shape == (len(rows), *shape[1:])
    else:
        counts, columns = np.diff(at[0]), at[1]
        fits = len(counts) == shape[0] and (counts >= 0).all() and counts.sum() == len(columns) == values.size
        rows = np.repeat(np.arange(len(counts)), counts) if fits else at[0]
    inside = all(((p >= 0) & (p < d)).all() for p, d in zip((rows, columns), shape) if p is not None)
    if not fits or not inside:
        raise TVMError("the parameters are corrupt: the indices of a sparse array are out of range")
    if columns is None:
        out[rows] = values
    else:
        out[rows, columns] = values.reshape(-1)
    return out


def read_params(data) -> dict[str, np.ndarray]:
    """Return the arrays of a parameter file by name."""
    file = _Bytes(data)
    if len(data) < 24 or file.number("Q") != MAGIC:
        raise TVMError("the parameters are not an MXNet list of arrays: they do not begin with 0x112")
    file.number("Q")
    count = file.number("Q")
    if count > len(data) // 4:
        raise TVMError(f"the parameters are corrupt: {count} arrays are declared in {len(data)} bytes")
    arrays = [_array(file) for _ in range(count)]
    names = file.number("Q")
    if names != count:
        raise TVMError(f"the parameters are corrupt, or the arrays have no names: {count} arrays, {names} names")
    found: dict[str, np.ndarray] = {}
    for array in arrays:
        try:
            name = bytes(file.take(file.number("Q"))).decode()
        except UnicodeDecodeError:
            raise TVMError("the parameters are corrupt: a name is not valid UTF-8") from None
        if name in found:
            raise TVMError(f"the parameters are corrupt: two arrays have the name '{name}'")
        if array is not None:
            found[name] = array
    return found


def plain_name(name: str) -> str:
    """Return the name of a variable without the prefix ``arg:`` or ``aux:``."""
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def as_arrays(given, what: str) -> dict[str, np.ndarray]:
    """Convert user-given parameters (arrays of NumPy, TVM or MXNet by name) to NumPy arrays."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"from_mxnet: {what} must be a dictionary by name, got {type(given).__name__}")
    return {plain_name(str(name)): _as_array(value, name) for name, value in given.items()}


def _as_array(value: Any, name: str) -> np.ndarray:
    # A Gluon parameter returns its array from data().
    value = value.data() if callable(getattr(value, "data", None)) else value
    for method in ("asnumpy", "numpy"):
        if hasattr(value, method):
            value = getattr(value, method)()
            break
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"from_mxnet: the parameter '{name}' is not an array, but {type(value).__name__}")
    return array


__all__ = ["MAGIC", "as_arrays", "plain_name", "read_params"]
