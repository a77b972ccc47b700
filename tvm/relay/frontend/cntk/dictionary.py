"""Read the CNTK 2 format: protobuf messages with nested dictionaries, converted to Python values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from .schema import DTYPES, FILES

# The maximum nesting depth of dictionaries and lists.
_MAX_DEPTH = 64
# Larger static axis numbers mark special axes: dynamic axes and "all static axes".
_MAX_STATIC = 1 << 30
_FIELDS = {1: "bool_value", 2: "int_value", 3: "size_t_value", 4: "float_value", 5: "double_value", 6: "string_value"}
# Names of axes that represent several axes.
ALL_STATIC_AXES, ALL_AXES = "AllStaticAxes", "AllAxes"
_SHAPE, _AXIS, _VECTOR, _DICTIONARY, _ARRAY = 7, 8, 9, 10, 11


class Axis(NamedTuple):
    """An axis: a static one by its index, which may be negative, or a dynamic one by its name."""

    index: int
    name: str
    ordered: bool


def root_of(data: bytes) -> dict[str, Any]:
    """Return the root dictionary of a file."""
    message = FILES.parse("Dictionary", data, "the model")
    found = _dictionary(message, 0)
    if found.get("type") != "CompositeFunction":
        raise TVMError("the file is not a CNTK model: it does not contain a function")
    return found


def _dictionary(message, depth: int) -> dict[str, Any]:
    return {pair.key: plain(pair.value, depth + 1) for pair in message.data}


def plain(value, depth: int = 0):
    """Convert a value to a Python value: number, string, shape tuple, ``Axis``, list, dictionary or array."""
    if depth > _MAX_DEPTH:
        raise TVMError(f"the values of the model are nested deeper than {_MAX_DEPTH}")
    kind = value.value_type
    if kind in _FIELDS:
        return getattr(value, _FIELDS[kind])
    if kind == _SHAPE:
        return tuple(value.nd_shape_value.shape_dim)
    if kind == _AXIS:
        axis = value.axis_value
        # The name of a static axis only repeats its index.
        is_static = abs(axis.static_axis_idx) < _MAX_STATIC
        return Axis(axis.static_axis_idx, "" if is_static else axis.name, axis.is_ordered_dynamic_axis)
    if kind == _VECTOR:
        return [plain(v, depth + 1) for v in value.vector_value.value]
    if kind == _DICTIONARY:
        return _dictionary(value.dictionary_value, depth)
    if kind == _ARRAY:
        return _array(value.nd_array_view_value)
    if kind == 0:
        return None
    raise TVMError(f"a value of unknown type {kind}")


def _array(message) -> np.ndarray:
    """Return the elements of an array in file order."""
    dtype, shape = DTYPES.get(message.data_type), tuple(message.shape.shape_dim)
    if message.storage_format != 0:
        raise TVMError("sparse weights are not supported")
    if dtype is None:
        raise TVMError(f"an array has the unknown element type {message.data_type}")
    if message.HasField("float_values"):
        # The file stores float16 values as float32.
        found = np.array(message.float_values.value, "float32")
    elif message.HasField("double_values"):
        found = np.array(message.double_values.value, "float64")
    elif message.HasField("sint32_values"):
        found = np.array(message.sint32_values.value, "int32")
    elif message.HasField("bytes_value"):
        found = (
            np.frombuffer(message.bytes_value.value, np.dtype(dtype).newbyteorder("<"))
            if len(message.bytes_value.value) % np.dtype(dtype).itemsize == 0
            else np.zeros(0)
        )
    else:
        found = np.zeros(0)
    if found.size != math.prod(shape):
        raise TVMError(f"an array of shape {shape} has {found.size} elements in the file")
    return found.astype(dtype)


__all__ = ["ALL_AXES", "ALL_STATIC_AXES", "Axis", "plain", "root_of"]
