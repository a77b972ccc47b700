"""Weights stored in files beside an ONNX model, which ``common/folder.py`` opens."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ..common.folder import components, mapped

# Element types whose bytes are those of NumPy's type, by ONNX's numbers. Those of others are read by the onnx package.
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
# Weights that onnxruntime has rearranged for one machine; the plain ones stand beside them.
_PREPACKED = "prepacked_"


class Entry(NamedTuple):
    """What a tensor says about the file that holds it."""

    location: str
    offset: int
    length: int | None
    checksum: str | None


def entry_of(tensor) -> Entry:
    """The external_data of a tensor. A key given twice is refused: readers disagree about which of them counts."""
    found: dict[str, str] = {}
    for pair in tensor.external_data:
        if pair.key in found:
            raise TVMError(f"weight '{tensor.name}': '{pair.key}' of its external data is given twice")
        if pair.key not in _KEYS and not pair.key.startswith(_PREPACKED):
            raise TVMError(f"weight '{tensor.name}': '{pair.key}' of its external data is not known")
        found[pair.key] = pair.value
    if not found.get("location"):
        raise TVMError(f"weight '{tensor.name}' is stored in a file of its own, but its location is not given")
    numbers = {}
    for key in ("offset", "length"):
        text = found.get(key)
        if text is not None and not re.fullmatch("[0-9]{1,18}", text):
            raise TVMError(f"weight '{tensor.name}': the {key} of its external data is no number of bytes: {text!r}")
        numbers[key] = None if text is None else int(text)
    return Entry(found["location"], numbers["offset"] or 0, numbers["length"], found.get("checksum"))


class Folder:
    """The folder of a model. Files are opened when a weight asks for them, and stay mapped as long as it is held."""

    def __init__(self, path: str):
        self.path = path
        self._files: dict[tuple[str, ...], Any] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    def array(self, tensor) -> np.ndarray:
        """The array of a tensor that is stored in a file; a view of the mapped file where its bytes can be used so."""
        part, dtype = self._bytes(tensor), _dtype(tensor)
        if dtype is None:
            from onnx import numpy_helper

            return numpy_helper.to_array(self.inside(tensor))
        return np.frombuffer(part, dtype).reshape(list(tensor.dims)).astype(dtype.newbyteorder("="), copy=False)

    def inside(self, tensor):
        """The tensor with its bytes in it."""
        from onnx import TensorProto

        raw = bytes(self._bytes(tensor))
        return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)

    def _bytes(self, tensor) -> memoryview:
        if any(d < 0 for d in tensor.dims):
            raise TVMError(f"weight '{tensor.name}' has a negative size: {list(tensor.dims)}")
        entry, dtype = entry_of(tensor), _dtype(tensor)
        parts = components(f"weight '{tensor.name}'", entry.location)
        if parts not in self._files:
            self._files[parts] = mapped(self.path, f"weight '{tensor.name}'", entry.location)
        self._check_digest(tensor.name, entry, parts)
        wanted = None if dtype is None else math.prod(tensor.dims) * dtype.itemsize
        return _part(tensor.name, entry, self._files[parts], wanted)

    def read(self, name: str, location: str) -> bytes:
        """A file that the tensor of this name lies in."""
        return bytes(mapped(self.path, f"weight '{name}'", location))

    def _check_digest(self, name: str, entry: Entry, parts: tuple[str, ...]) -> None:
        if entry.checksum is None:
            return
        if parts not in self._digests:
            self._digests[parts] = hashlib.sha1(self._files[parts], usedforsecurity=False).hexdigest()
        if self._digests[parts] != entry.checksum.lower():
            raise TVMError(f"weight '{name}': the SHA-1 digest of '{entry.location}' is not the one the model gives")


def external_files(file) -> dict[str, bytes]:
    """The files that tensors of a model lie in, by their names in its folder."""
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
    """The bytes of a weight. ``wanted`` is their number where its shape says it."""
    length = entry.length
    if length is None:
        length = len(whole) - entry.offset if wanted is None else wanted
    elif wanted is not None and length != wanted:
        raise TVMError(f"weight '{name}' takes {wanted} bytes by its shape and type; its external data has {length}")
    if length < 0 or entry.offset + length > len(whole):
        raise TVMError(
            f"weight '{name}': bytes {entry.offset} to {entry.offset + max(length, 0)} are wanted of "
            f"'{entry.location}', which has {len(whole)}"
        )
    return memoryview(whole)[entry.offset : entry.offset + length]


def _dtype(tensor) -> np.dtype | None:
    """The type of a tensor's elements as they stand in a file; None where a byte holds several of them."""
    name = _PLAIN.get(tensor.data_type)
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return None if name is None else np.dtype(name).newbyteorder("<")


__all__ = ["Folder"]
