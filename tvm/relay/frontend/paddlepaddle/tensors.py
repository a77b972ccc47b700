"""Read parameter files: a sequence of tensors, each with a header."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np

from ....error import TVMError
from .schema import SCHEMA, dtype_name

# The maximum size of a header, which contains the element type and the shape.
_MAX_HEADER = 4096
_MAX_AXES = 32


def numpy_dtype(name: str) -> np.dtype:
    """Return the little-endian NumPy type of an element type."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name).newbyteorder("<")


class Stream:
    """The bytes of a parameter file. ``what`` names the file in error messages."""

    def __init__(self, data, what: str):
        self.data, self.what, self.at = memoryview(data), what, 0

    def take(self, count: int, part: str) -> memoryview:
        if count < 0 or count > len(self.data) - self.at:
            raise TVMError(f"{self.what} is corrupt: {part} needs {count} bytes, but {len(self.data) - self.at} remain")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str, part: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form), part))[0]

    def tensor(self, name: str) -> np.ndarray:
        """Read the next tensor: versions, sequence offsets (ignored), element type and shape, elements."""
        part = f"the parameter '{name}'"
        if self.number("<I", part) != 0:
            raise TVMError(f"{self.what} is corrupt: {part} has an unknown version")
        levels = self.number("<Q", part)
        if levels > _MAX_AXES:
            raise TVMError(f"{self.what} is corrupt: {part} has {levels} LoD levels")
        for _ in range(levels):
            self.take(self.number("<Q", part), part)
        if self.number("<I", part) != 0:
            raise TVMError(f"{self.what} is corrupt: {part} has an unknown version")
        size = self.number("<i", part)
        if not 0 <= size <= _MAX_HEADER:
            raise TVMError(f"{self.what} is corrupt: the header of {part} has the invalid size {size}")
        desc = SCHEMA.parse("TensorDesc", self.take(size, part), f"{self.what}: the header of {part}")
        dims, dtype = tuple(desc.dims), dtype_name(desc.data_type)
        if len(dims) > _MAX_AXES or any(d < 0 for d in dims):
            raise TVMError(f"{self.what} is corrupt: {part} has shape {dims[:_MAX_AXES]}")
        kind = numpy_dtype(dtype)
        content = self.take(math.prod(dims) * kind.itemsize, part)
        if dtype == "bool":
            return (np.frombuffer(content, "uint8") != 0).reshape(dims)
        return np.frombuffer(content, kind).astype(kind.newbyteorder("="), copy=True).reshape(dims)

    def end(self) -> None:
        """Check that no bytes remain: the parameters must match the program."""
        if self.at != len(self.data):
            raise TVMError(f"{self.what} does not match the program: {len(self.data) - self.at} bytes remain")


__all__ = ["Stream", "numpy_dtype"]
