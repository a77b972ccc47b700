"""Read weights and values as arrays. Every size is checked against the available bytes."""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np

from ....error import TVMError
from ..common.context import check_count
from .load import Weights
from .schema import BLOB_TYPES, VALUE_TYPES

# The maximum number of dimensions of a NumPy array.
_MAX_AXES = 32
# The first field of each entry of a weights file.
_SENTINEL = 0xDEADBEEF
_STORAGE_VERSION = 2
_METADATA = struct.Struct("<IIQQQ")


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def packed_bits(name: str) -> int:
    """Return the number of bits of a packed element type, or 0 for types of whole bytes."""
    return int(name.lstrip("uint")) if name in ("int4", "uint1", "uint2", "uint3", "uint4", "uint6") else 0


def unpacked(data: Any, bits: int, count: int) -> np.ndarray:
    """Unpack integers of a few bits, starting with the lowest bit of the first byte."""
    if -(-count * bits // 8) != len(data):
        raise TVMError(f"{count} integers of {bits} bits need {-(-count * bits // 8)} bytes, got {len(data)}")
    row = np.unpackbits(np.frombuffer(data, "uint8"), bitorder="little")[: count * bits].reshape(count, bits)
    return (row << np.arange(bits, dtype="uint8")).sum(1, dtype="uint8")


def array_of_bytes(data: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of the given element type and shape stored in bytes."""
    count, bits = math.prod(shape), packed_bits(name)
    if bits:
        found = unpacked(data, bits, count).reshape(shape)
        return np.where(found > 7, found.astype("int8") - 16, found).astype("int8") if name == "int4" else found
    dtype = numpy_dtype(name)
    if count * dtype.itemsize != len(data):
        raise TVMError(f"a value of shape {shape} and type {name} needs {count * dtype.itemsize} bytes, got "
                       f"{len(data)}")  # fmt: skip
    if name == "bool":
        return (np.frombuffer(data, "uint8") != 0).reshape(shape)
    plain = dtype if name == "bfloat16" else dtype.newbyteorder("<")
    return np.frombuffer(data, plain).astype(dtype, copy=False).reshape(shape)


# -- values of ML programs --------------------------------------------------------------------------------------------


def type_name(number: int) -> str:
    found = VALUE_TYPES.get(number)
    if found is None:
        raise TVMError(f"element type {number} is not supported")
    return found


def sizes_of(tensor_type: Any) -> list[int | None]:
    """Return the dimensions of a tensor type; None is a dynamic dimension."""
    if len(tensor_type.dimensions) > _MAX_AXES:
        raise TVMError(f"a type of {len(tensor_type.dimensions)} dimensions is not supported")
    sizes: list[int | None] = []
    for dimension in tensor_type.dimensions:
        size = dimension.constant.size if dimension.HasField("constant") else None
        if size is not None and size >= 1 << 47:
            raise TVMError(f"a type has the unsupported dimension {size}")
        sizes.append(size)
    return sizes


def value_of(value: Any, weights: Weights) -> Any:
    """Return a value of an ML program: an array, a string, or a list of values."""
    if value.HasField("immediateValue"):
        immediate = value.immediateValue
        for field in ("list", "tuple"):
            if immediate.HasField(field):
                return [value_of(v, weights) for v in getattr(immediate, field).values]
        if not immediate.HasField("tensor"):
            raise TVMError("a value that is neither a tensor nor a list is not supported")
        return _immediate(immediate.tensor, value.type)
    if not value.HasField("blobFileValue"):
        raise TVMError("a constant has no value")
    name, shape = _dense(value.type)
    place = value.blobFileValue
    return blob(weights.file(place.fileName), place.offset, name, shape)


def _dense(value_type: Any) -> tuple[str, tuple[int, ...]]:
    if not value_type.HasField("tensorType"):
        raise TVMError("a constant must be a tensor")
    shape = sizes_of(value_type.tensorType)
    if None in shape:
        raise TVMError("a constant has a dynamic dimension")
    return type_name(value_type.tensorType.dataType), tuple(d for d in shape if d is not None)


def _immediate(tensor: Any, value_type: Any) -> Any:
    name, shape = _dense(value_type)
    if name == "string":
        texts = list(tensor.strings.values)
        if len(texts) != math.prod(shape):
            raise TVMError(f"a constant needs {math.prod(shape)} strings, got {len(texts)}")
        return texts if shape else texts[0]
    if tensor.HasField("bytes"):
        return array_of_bytes(tensor.bytes.values, name, shape)
    fields = [f for f in ("floats", "ints", "bools", "longInts") if tensor.HasField(f)]
    values = getattr(tensor, fields[0]).values if fields else []
    # A single value fills the whole tensor.
    count = math.prod(shape)
    check_count("a constant", shape)
    if len(values) != count and len(values) != 1:
        raise TVMError(f"a constant of shape {shape} has {len(values)} values")
    kind = "int8" if name == "int4" else "uint8" if packed_bits(name) else name
    with np.errstate(invalid="ignore", over="ignore"):
        got = np.array(values, "float64" if fields == ["floats"] else "int64").astype(numpy_dtype(kind))
    return got.reshape(shape) if len(values) == count else np.full(shape, got[0])


def blob(file: Any, offset: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read an entry of a weights file. The entry's metadata contains the position of its data."""
    if len(file) < 64 or struct.unpack_from("<II", file, 0)[1] != _STORAGE_VERSION:
        raise TVMError(f"the weights file does not have storage version {_STORAGE_VERSION}")
    if offset + _METADATA.size > len(file):
        raise TVMError(f"the metadata of a weight at byte {offset} exceeds the weights file of {len(file)} bytes")
    sentinel, code, size, start, _ = _METADATA.unpack_from(file, offset)
    if sentinel != _SENTINEL or BLOB_TYPES.get(code) != name and (BLOB_TYPES.get(code), name) != ("uint8", "bool"):
        raise TVMError(f"byte {offset} of the weights file is not the metadata of a {name} weight")
    if start + size > len(file):
        raise TVMError(
            f"the data of a weight, bytes {start} to {start + size}, exceeds the weights file of {len(file)} bytes"
        )
    return array_of_bytes(memoryview(file)[start : start + size], name, shape)


# -- weights of layers ------------------------------------------------------------------------------------------------


def weight_of(params: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return the weights of a layer as float32.

    The first axis of ``shape`` is the output channels, which quantization scales refer to.
    """
    shape = tuple(int(d) for d in shape)
    check_count(what, shape)
    count = math.prod(shape)
    if params.HasField("quantization"):
        return _dequantized(params, shape, what)
    if params.float16Value:
        return array_of_bytes(params.float16Value, "float16", shape).astype("float32")
    if params.int8RawValue or params.rawValue:
        raise TVMError(f"{what}: int8 weights for dynamic quantization are not supported")
    if len(params.floatValue) != count:
        raise TVMError(f"{what} of shape {shape} has {len(params.floatValue)} elements")
    return np.array(params.floatValue, "float32").reshape(shape)


def _dequantized(params: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    rule = params.quantization
    bits = rule.numberOfBits
    if not 1 <= bits <= 8:
        raise TVMError(f"{what}: quantization to {bits} bits is not supported")
    count = math.prod(shape)
    # Weights are packed starting with the highest bit of the first byte.
    if -(-count * bits // 8) != len(params.rawValue):
        raise TVMError(f"{what} of shape {shape} with {bits} bits per element has {len(params.rawValue)} bytes")
    row = np.unpackbits(np.frombuffer(params.rawValue, "uint8"))[: count * bits].reshape(count, bits)
    numbers = (row << np.arange(bits - 1, -1, -1, dtype="uint8")).sum(1, dtype="uint8").reshape(shape)
    if rule.HasField("lookupTableQuantization"):
        table = np.array(rule.lookupTableQuantization.floatValue, "float32")
        if len(table) != 1 << bits:
            raise TVMError(f"{what}: expected a lookup table of {1 << bits} values, got {len(table)}")
        return table[numbers]
    scale, bias = (np.array(v, "float32") for v in (rule.linearQuantization.scale, rule.linearQuantization.bias))
    for name, values in (("scale", scale), ("bias", bias)):
        if len(values) not in (0, 1, shape[0] if shape else 1) or name == "scale" and not len(values):
            raise TVMError(f"{what}: {len(values)} {name} values do not match {shape[0] if shape else 1} channels")
    column = (-1, *[1] * (len(shape) - 1)) if shape else ()
    out = numbers.astype("float32") * scale.reshape(column)
    return out + bias.reshape(column) if len(bias) else out


__all__ = ["array_of_bytes", "blob", "numpy_dtype", "packed_bits", "sizes_of", "type_name", "unpacked", "value_of",
           "weight_of"]  # fmt: skip
