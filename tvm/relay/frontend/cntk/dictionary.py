"""The second format of CNTK: dictionaries of values in a message of protobuf, as values of Python."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from .schema import DTYPES, FILES

# Dictionaries and lists inside of each other go so deep.
_MOST_DEPTH = 64
# Greater numbers stand for axes that are none of these: dynamic ones, all static ones.
_MOST_STATIC = 1 << 30
_FIELDS = {1: "bool_value", 2: "int_value", 3: "size_t_value", 4: "float_value", 5: "double_value", 6: "string_value"}
# Names of the axes that stand for several ones.
ALL_STATIC_AXES, ALL_AXES = "AllStaticAxes", "AllAxes"
_SHAPE, _AXIS, _VECTOR, _DICTIONARY, _ARRAY = 7, 8, 9, 10, 11


class Axis(NamedTuple):
    """A static axis by its number, which counts from the end where it is negative, or a dynamic one by its name."""

    index: int
    name: str
    ordered: bool


def root_of(data: bytes) -> dict[str, Any]:
    """The dictionary that a file of the second format is."""
    message = FILES.parse("Dictionary", data, "the model")
    found = _dictionary(message, 0)
    if found.get("type") != "CompositeFunction":
        raise TVMError("the file is no CNTK model: it holds no function")
    return found


def _dictionary(message, depth: int) -> dict[str, Any]:
    return {pair.key: plain(pair.value, depth + 1) for pair in message.data}


def plain(value, depth: int = 0):
    """A value as one of Python: numbers, texts, tuples of sizes, axes, lists, dictionaries, arrays."""
    if depth > _MOST_DEPTH:
        raise TVMError(f"the model's parts lie in each other more than {_MOST_DEPTH} deep")
    kind = value.value_type
    if kind in _FIELDS:
        return getattr(value, _FIELDS[kind])
    if kind == _SHAPE:
        return tuple(value.nd_shape_value.shape_dim)
    if kind == _AXIS:
        axis = value.axis_value
        # The name of a static axis only repeats its number.
        is_static = abs(axis.static_axis_idx) < _MOST_STATIC
        return Axis(axis.static_axis_idx, "" if is_static else axis.name, axis.is_ordered_dynamic_axis)
    if kind == _VECTOR:
        return [plain(v, depth + 1) for v in value.vector_value.value]
    if kind == _DICTIONARY:
        return _dictionary(value.dictionary_value, depth)
    if kind == _ARRAY:
        return _array(value.nd_array_view_value)
    if kind == 0:
        return None
    raise TVMError(f"a value of type {kind} is not known")


def _array(message) -> np.ndarray:
    """The elements in the order of the file."""
    dtype, shape = DTYPES.get(message.data_type), tuple(message.shape.shape_dim)
    if message.storage_format != 0:
        raise TVMError("sparse weights are not supported")
    if dtype is None:
        raise TVMError(f"an array has elements of type {message.data_type}, which is not known")
    if message.HasField("float_values"):
        # Halves are written as single floats.
        found = np.array(message.float_values.value, "float32")
    elif message.HasField("double_values"):
        found = np.array(message.double_values.value, "float64")
    elif message.HasField("sint32_values"):
        found = np.array(message.sint32_values.value, "int32")
    elif message.HasField("bytes_value"):
        found = np.frombuffer(message.bytes_value.value, np.dtype(dtype).newbyteorder("<")) \
            if len(message.bytes_value.value) % np.dtype(dtype).itemsize == 0 else np.zeros(0)
    else:
        found = np.zeros(0)
    if found.size != math.prod(shape):
        raise TVMError(f"an array of shape {shape} has {found.size} elements in the file")
    return found.astype(dtype)


__all__ = ["ALL_AXES", "ALL_STATIC_AXES", "Axis", "plain", "root_of"]
