"""Conversion of tensors in model files to arrays."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ....error import TVMError
from .schema import dtype_name

_FIELDS = {"float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val", "int16": "int_val",
           "int8": "int_val", "int64": "int64_val", "bool": "bool_val", "uint16": "int_val", "uint32": "uint32_val",
           "uint64": "uint64_val", "float16": "half_val", "bfloat16": "half_val"}  # fmt: skip
# Maximum number of elements of a constant that the file stores as fewer values, the last of which is repeated.
_MOST_REPEATED = 1 << 26
# Maximum number of axes of a NumPy array.
_MOST_AXES = 32


class Text:
    """A string tensor. It can contain names of files, keys and operators; compiled models have no string tensors."""

    def __init__(self, array: np.ndarray):
        self.array = array


def plain_dtype(name: str) -> str:
    """Return the element type of a tensor if compiled models support it."""
    if name not in _FIELDS:
        raise TVMError(f"tensors of {name} are not supported")
    return name


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(plain_dtype(name))


def shape_of(proto) -> tuple[int, ...] | None:
    """Return the dimensions that a file declares, -1 for dynamic ones; None for an unknown rank."""
    if proto.unknown_rank:
        return None
    dims = tuple(d.size for d in proto.dim)
    if any(d < -1 for d in dims):
        raise TVMError(f"the shape {dims} has a negative dimension")
    if len(dims) > _MOST_AXES:
        raise TVMError(f"a shape of {len(dims)} dimensions is not supported")
    return dims


def array_of(proto):
    """Return the array of a tensor, or ``Text``. The last value is repeated if the tensor has more elements than
    values.
    """
    name, shape = dtype_name(proto.dtype), shape_of(proto.tensor_shape)
    if shape is None or -1 in shape:
        raise TVMError("a constant has dynamic dimensions")
    count = math.prod(shape)
    if name == "string":
        values = list(proto.string_val)
        if count > _MOST_REPEATED or len(values) > 1 and len(values) != count:
            raise TVMError(f"a constant of shape {shape} contains {len(values)} strings")
        array = np.empty(count, object)
        array[:] = values if len(values) == count else (values or [b""]) * count
        return Text(array.reshape(shape))
    dtype = numpy_dtype(name)
    content = proto.tensor_content
    if content:
        return raw_array(content, name, shape)
    values = getattr(proto, _FIELDS[name])
    if len(values) > count or count > _MOST_REPEATED and len(values) < count:
        raise TVMError(f"a constant of shape {shape} contains {len(values)} values")
    if name in ("float16", "bfloat16"):
        got = np.array(values, "int64").astype("uint16").view(dtype)
    else:
        got = np.array(values, "int64" if dtype.kind in "iu" and name != "uint64" else dtype).astype(dtype)
    if len(values) < count:
        last = got[-1:] if len(values) else np.zeros(1, dtype)
        got = np.concatenate([got, np.repeat(last, count - len(values))])
    return got.reshape(shape)


def raw_array(content, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array from the bytes of its elements."""
    dtype, count = numpy_dtype(name), math.prod(shape)
    if count * dtype.itemsize != len(content):
        raise TVMError(
            f"a tensor of shape {shape} and type {name} requires {count * dtype.itemsize} bytes, but the "
            f"file contains {len(content)}"
        )
    if name == "bool":
        return (np.frombuffer(content, "uint8") != 0).reshape(shape)
    plain = dtype if name == "bfloat16" else dtype.newbyteorder("<")
    return np.frombuffer(content, plain).astype(dtype, copy=False).reshape(shape)


__all__ = ["Text", "array_of", "numpy_dtype", "plain_dtype", "raw_array", "shape_of"]
