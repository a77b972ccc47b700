"""Weights stored in files next to an ONNX model, which ``common/folder.py`` opens."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ..common.folder import components, mapped

# ONNX element types with the same byte representation as a NumPy type. The onnx package reads all others.
_PLAIN = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
_KEYS = ("location", "offset", "length", "checksum")
# Prefix of weights that onnxruntime has prepacked for one machine; the model also contains the original weights.
_PREPACKED = "prepacked_"


class Entry(NamedTuple):
    """The location of a tensor's data in an external file."""

    location: str
    offset: int
    length: int | None
    checksum: str | None


def entry_of(tensor) -> Entry:
    """Parse the external_data of a tensor. Duplicate keys are rejected: implementations disagree about which one
    applies.
    """
    found: dict[str, str] = {}
    for pair in tensor.external_data:
        if pair.key in found:
            raise TVMError(f"weight '{tensor.name}': '{pair.key}' occurs twice in its external data")
        if pair.key not in _KEYS and not pair.key.startswith(_PREPACKED):
            raise TVMError(f"weight '{tensor.name}': its external data has the unknown key '{pair.key}'")
        found[pair.key] = pair.value
    if not found.get("location"):
        raise TVMError(f"weight '{tensor.name}' is stored in an external file, but has no location")
    numbers = {}
    for key in ("offset", "length"):
        text = found.get(key)
        if text is not None and not re.fullmatch("[0-9]{1,18}", text):
            raise TVMError(
                f"weight '{tensor.name}': the {key} of its external data must be a number of bytes, got {text!r}"
            )
        numbers[key] = None if text is None else int(text)
    return Entry(found["location"], numbers["offset"] or 0, numbers["length"], found.get("checksum"))


class Folder:
    """The folder of a model. Files are memory-mapped when a weight is read, and stay mapped while this object
    exists.
    """

    def __init__(self, path: str):
        self.path = path
        self._files: dict[tuple[str, ...], Any] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    def array(self, tensor) -> np.ndarray:
        """Return the array of a tensor stored in a file, as a view of the mapped file where the layout permits it."""
        part, dtype = self._bytes(tensor), _dtype(tensor)
        if dtype is None:
            from onnx import numpy_helper

            return numpy_helper.to_array(self.inside(tensor))
        return np.frombuffer(part, dtype).reshape(list(tensor.dims)).astype(dtype.newbyteorder("="), copy=False)

    def inside(self, tensor):
        """Return a copy of the tensor with its data stored inside the message."""
        from onnx import TensorProto

        raw = bytes(self._bytes(tensor))
        return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)

    def _bytes(self, tensor) -> memoryview:
        if any(d < 0 for d in tensor.dims):
            raise TVMError(f"weight '{tensor.name}' has a negative dimension: {list(tensor.dims)}")
        entry, dtype = entry_of(tensor), _dtype(tensor)
        parts = components(f"weight '{tensor.name}'", entry.location)
        if parts not in self._files:
            self._files[parts] = mapped(self.path, f"weight '{tensor.name}'", entry.location)
        self._check_digest(tensor.name, entry, parts)
        wanted = None if dtype is None else math.prod(tensor.dims) * dtype.itemsize
        return _part(tensor.name, entry, self._files[parts], wanted)

    def read(self, name: str, location: str) -> bytes:
        """Return the content of the file at ``location``, which stores data of the tensor ``name``."""
        return bytes(mapped(self.path, f"weight '{name}'", location))

    def _check_digest(self, name: str, entry: Entry, parts: tuple[str, ...]) -> None:
        if entry.checksum is None:
            return
        if parts not in self._digests:
            self._digests[parts] = hashlib.sha1(self._files[parts], usedforsecurity=False).hexdigest()
        if self._digests[parts] != entry.checksum.lower():
            raise TVMError(
                f"weight '{name}': the SHA-1 digest of '{entry.location}' differs from the digest in the model"
            )


def external_files(file) -> dict[str, bytes]:
    """Return the external files of a model's tensors by their path relative to its folder."""
    found: dict[str, bytes] = {}
    stack: list[Any] = [file.model]
    while stack:
        message = stack.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            if message.external_data:
                location = entry_of(message).location
                if location not in found:
                    found[location] = file.folder.read(message.name, location)
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                stack.extend([value] if hasattr(value, "DESCRIPTOR") else value)
    return found


def _part(name: str, entry: Entry, whole, wanted: int | None) -> memoryview:
    """Return the bytes of a weight. ``wanted`` is the size in bytes that its shape and type require, or None."""
    length = entry.length
    if length is None:
        length = len(whole) - entry.offset if wanted is None else wanted
    elif wanted is not None and length != wanted:
        raise TVMError(f"weight '{name}' has {length} bytes of external data; its shape and type require {wanted}")
    if length < 0 or entry.offset + length > len(whole):
        raise TVMError(
            f"weight '{name}': its data is at bytes {entry.offset} to {entry.offset + max(length, 0)} of "
            f"'{entry.location}', which has only {len(whole)} bytes"
        )
    return memoryview(whole)[entry.offset : entry.offset + length]


def _dtype(tensor) -> np.dtype | None:
    """Return the element type of a tensor in its file; None if a byte contains several elements."""
    name = _PLAIN.get(tensor.data_type)
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return None if name is None else np.dtype(name).newbyteorder("<")


__all__ = ["Folder"]
