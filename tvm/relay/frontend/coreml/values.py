"""Weights and values of the files as arrays, every size checked against the bytes that are there."""

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

# Axes that an array of NumPy has at most.
_MOST_AXES = 32
# What every entry of a file of weights begins with.
_SENTINEL = 0xDEADBEEF
_STORAGE_VERSION = 2
_METADATA = struct.Struct("<IIQQQ")


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def packed_bits(name: str) -> int:
    """How many bits an element has in a row of bytes, 0 of types whose elements are whole bytes."""
    return int(name.lstrip("uint")) if name in ("int4", "uint1", "uint2", "uint3", "uint4", "uint6") else 0


def unpacked(data: Any, bits: int, count: int) -> np.ndarray:
    """Numbers of a few bits, written one after the other from the lowest bit of the first byte on."""
    if -(-count * bits // 8) != len(data):
        raise TVMError(f"{count} numbers of {bits} bits take {-(-count * bits // 8)} bytes, there are {len(data)}")
    row = np.unpackbits(np.frombuffer(data, "uint8"), bitorder="little")[: count * bits].reshape(count, bits)
    return (row << np.arange(bits, dtype="uint8")).sum(1, dtype="uint8")


def array_of_bytes(data: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array out of the bytes of its elements."""
    count, bits = math.prod(shape), packed_bits(name)
    if bits:
        found = unpacked(data, bits, count).reshape(shape)
        return np.where(found > 7, found.astype("int8") - 16, found).astype("int8") if name == "int4" else found
    dtype = numpy_dtype(name)
    if count * dtype.itemsize != len(data):
        raise TVMError(f"a value of shape {shape} and type {name} takes {count * dtype.itemsize} bytes, there are "
                       f"{len(data)}")  # fmt: skip
    if name == "bool":
        return (np.frombuffer(data, "uint8") != 0).reshape(shape)
    plain = dtype if name == "bfloat16" else dtype.newbyteorder("<")
    return np.frombuffer(data, plain).astype(dtype, copy=False).reshape(shape)


# -- values of ML programs --------------------------------------------------------------------------------------------


def type_name(number: int) -> str:
    found = VALUE_TYPES.get(number)
    if found is None:
        raise TVMError(f"element type number {number} is not known")
    return found


def sizes_of(tensor_type: Any) -> list[int | None]:
    """The sizes that a type says, None where open."""
    if len(tensor_type.dimensions) > _MOST_AXES:
        raise TVMError(f"a type of {len(tensor_type.dimensions)} dimensions is not supported")
    sizes: list[int | None] = []
    for dimension in tensor_type.dimensions:
        size = dimension.constant.size if dimension.HasField("constant") else None
        if size is not None and size >= 1 << 47:
            raise TVMError(f"a type has the size {size}")
        sizes.append(size)
    return sizes


def value_of(value: Any, weights: Weights) -> Any:
    """A value of an ML program: an array, text, or a list of such."""
    if value.HasField("immediateValue"):
        immediate = value.immediateValue
        for field in ("list", "tuple"):
            if immediate.HasField(field):
                return [value_of(v, weights) for v in getattr(immediate, field).values]
        if not immediate.HasField("tensor"):
            raise TVMError("a value that is no tensor and no list is not supported")
        return _immediate(immediate.tensor, value.type)
    if not value.HasField("blobFileValue"):
        raise TVMError("a constant has no value")
    name, shape = _dense(value.type)
    place = value.blobFileValue
    return blob(weights.file(place.fileName), place.offset, name, shape)


def _dense(value_type: Any) -> tuple[str, tuple[int, ...]]:
    if not value_type.HasField("tensorType"):
        raise TVMError("a constant is no tensor")
    shape = sizes_of(value_type.tensorType)
    if None in shape:
        raise TVMError("a constant has an open size")
    return type_name(value_type.tensorType.dataType), tuple(d for d in shape if d is not None)


def _immediate(tensor: Any, value_type: Any) -> Any:
    name, shape = _dense(value_type)
    if name == "string":
        texts = list(tensor.strings.values)
        if len(texts) != math.prod(shape):
            raise TVMError(f"{math.prod(shape)} texts are wanted, there are {len(texts)}")
        return texts if shape else texts[0]
    if tensor.HasField("bytes"):
        return array_of_bytes(tensor.bytes.values, name, shape)
    fields = [f for f in ("floats", "ints", "bools", "longInts") if tensor.HasField(f)]
    values = getattr(tensor, fields[0]).values if fields else []
    # One number stands for all.
    count = math.prod(shape)
    check_count("a constant", shape)
    if len(values) != count and len(values) != 1:
        raise TVMError(f"a constant of shape {shape} has {len(values)} values")
    kind = "int8" if name == "int4" else "uint8" if packed_bits(name) else name
    with np.errstate(invalid="ignore", over="ignore"):
        got = np.array(values, "float64" if fields == ["floats"] else "int64").astype(numpy_dtype(kind))
    return got.reshape(shape) if len(values) == count else np.full(shape, got[0])


def blob(file: Any, offset: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An entry of a file of weights: a description, which says where its bytes are."""
    if len(file) < 64 or struct.unpack_from("<II", file, 0)[1] != _STORAGE_VERSION:
        raise TVMError(f"the file of weights is none of storage version {_STORAGE_VERSION}")
    if offset + _METADATA.size > len(file):
        raise TVMError(f"a weight is described at byte {offset} of a file of {len(file)}")
    sentinel, code, size, start, _ = _METADATA.unpack_from(file, offset)
    if sentinel != _SENTINEL or BLOB_TYPES.get(code) != name and (BLOB_TYPES.get(code), name) != ("uint8", "bool"):
        raise TVMError(f"at byte {offset} of the file of weights no {name} is described")
    if start + size > len(file):
        raise TVMError(f"a weight lies in bytes {start} to {start + size} of a file of {len(file)}")
    return array_of_bytes(memoryview(file)[start : start + size], name, shape)


# -- weights of layers ------------------------------------------------------------------------------------------------


def weight_of(params: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The weights of a layer as float32. ``shape`` begins with the output channels, which scales are counted by."""
    shape = tuple(int(d) for d in shape)
    check_count(what, shape)
    count = math.prod(shape)
    if params.HasField("quantization"):
        return _dequantized(params, shape, what)
    if params.float16Value:
        return array_of_bytes(params.float16Value, "float16", shape).astype("float32")
    if params.int8RawValue or params.rawValue:
        raise TVMError(f"{what}: weights for products of 8-bit integers are not supported")
    if len(params.floatValue) != count:
        raise TVMError(f"{what} of shape {shape} has {len(params.floatValue)} numbers")
    return np.array(params.floatValue, "float32").reshape(shape)


def _dequantized(params: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    rule = params.quantization
    bits = rule.numberOfBits
    if not 1 <= bits <= 8:
        raise TVMError(f"{what}: weights of {bits} bits are not supported")
    count = math.prod(shape)
    # The format packs from the highest bit of the first byte on.
    if -(-count * bits // 8) != len(params.rawValue):
        raise TVMError(f"{what} of shape {shape} and {bits} bits has {len(params.rawValue)} bytes")
    row = np.unpackbits(np.frombuffer(params.rawValue, "uint8"))[: count * bits].reshape(count, bits)
    numbers = (row << np.arange(bits - 1, -1, -1, dtype="uint8")).sum(1, dtype="uint8").reshape(shape)
    if rule.HasField("lookupTableQuantization"):
        table = np.array(rule.lookupTableQuantization.floatValue, "float32")
        if len(table) != 1 << bits:
            raise TVMError(f"{what}: a table of {1 << bits} values is wanted, it has {len(table)}")
        return table[numbers]
    scale, bias = (np.array(v, "float32") for v in (rule.linearQuantization.scale, rule.linearQuantization.bias))
    for name, values in (("scale", scale), ("bias", bias)):
        if len(values) not in (0, 1, shape[0] if shape else 1) or name == "scale" and not len(values):
            raise TVMError(f"{what}: {len(values)} numbers as {name} do not fit {shape[0] if shape else 1} channels")
    column = (-1, *[1] * (len(shape) - 1)) if shape else ()
    out = numbers.astype("float32") * scale.reshape(column)
    return out + bias.reshape(column) if len(bias) else out


__all__ = ["array_of_bytes", "blob", "numpy_dtype", "packed_bits", "sizes_of", "type_name", "unpacked", "value_of",
           "weight_of"]  # fmt: skip
