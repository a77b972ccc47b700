"""Load a network definition (prototxt) and its weights (caffemodel) from paths, bytes or protobuf messages."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ....error import TVMError
from .prototxt import Message, parse
from .schema import FILES, NEW_NAMES, RAW_TYPES

# The maximum size of a prototxt in bytes. That of a network of a thousand layers has some hundred thousand.
MOST_TEXT = 1 << 26
_MAX_DIMENSIONS = 32


class Layer:
    """A layer of a network: its parameters as a message and its weights as arrays."""

    def __init__(self, message: Message, old: bool):
        if old and "layer" in message:
            raise TVMError(
                "the network uses Caffe's V0 layer format, which is not supported; convert it with Caffe's "
                "upgrade_net_proto_text"
            )
        self.message = message
        self.name = message.word("name")
        kind = message.word("type")
        self.type = NEW_NAMES.get(kind, kind) if old else kind
        self.bottoms, self.tops = message.words("bottom"), message.words("top")
        self.blobs: list[np.ndarray] = []

    def is_used(self) -> bool:
        """Return whether the layer is part of the network at inference."""
        rules = self.message.messages("include")
        if rules:
            return any(_matches(rule) for rule in rules)
        return not any(_matches(rule) for rule in self.message.messages("exclude"))


def _matches(rule: Message) -> bool:
    """Return whether an include or exclude rule matches the phase TEST at level 0 with no stage set."""
    if rule.word("phase", "TEST") not in ("TEST", "1") or rule.words("stage"):
        return False
    return all(v <= 0 for v in rule.ints("min_level")) and all(v >= 0 for v in rule.ints("max_level"))


class Net:
    """A network: its layers, and the inputs with shapes that it declares outside layers."""

    def __init__(self, message: Message):
        old, new = message.messages("layers"), message.messages("layer")
        if old and new:
            raise TVMError("the network has both 'layers' and 'layer' fields; a network must use one format")
        if not old and not new:
            raise TVMError("the text has no layers: it is not a Caffe network")
        self.layers = [found for found in (Layer(m, bool(old)) for m in old or new) if found.is_used()]
        names = message.words("input")
        dims = message.ints("input_dim")
        shapes = [m.ints("dim") for m in message.messages("input_shape")]
        if dims and (shapes or len(dims) != 4 * len(names)):
            raise TVMError(f"{len(names)} inputs have {len(dims)} sizes (input_dim); each input must have 4")
        shapes = shapes or [dims[4 * i : 4 * i + 4] for i in range(len(dims) // 4)]
        if len(shapes) not in (0, len(names)):
            raise TVMError(f"{len(names)} inputs have {len(shapes)} shapes (input_shape); the numbers must be equal")
        self.inputs: dict[str, list[int] | None] = dict(zip(names, shapes or [None] * len(names)))


def load_net(given: Any) -> Net:
    """Load a network from a path, its text or a protobuf message of Caffe's own class."""
    return Net(parse(_text(given)))


def _text(given: Any) -> str:
    if hasattr(given, "DESCRIPTOR") and hasattr(given, "SerializeToString"):
        from google.protobuf import text_format

        return text_format.MessageToString(given)
    data = _read_bytes(given, MOST_TEXT)
    return data.decode("utf-8", "replace")


def _read_bytes(given: Any, most: int | None = None) -> bytes:
    if isinstance(given, (str, os.PathLike)):
        name = os.path.basename(os.fspath(given))
        try:
            if most is not None and os.path.getsize(given) > most:
                raise TVMError(f"{name} is larger than {most} bytes, the maximum of a network text (prototxt)")
            with open(given, "rb") as file:
                return file.read()
        except OSError as problem:
            raise TVMError(f"cannot read {name}: {problem.strerror}") from problem
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    if hasattr(given, "SerializeToString"):
        return given.SerializeToString()
    raise TypeError(f"from_caffe: expected a path, bytes or a message, got {type(given).__name__}")


def load_weights(given: Any) -> dict[str, list[np.ndarray]]:
    """Return the arrays of each layer of a weights file by layer name."""
    net = FILES.parse("Net", _read_bytes(given), "the weights file")
    found: dict[str, list[np.ndarray]] = {}
    for layer in [*net.layers, *net.layer]:
        if layer.blobs:
            found[layer.name] = [_array(blob, layer.name) for blob in layer.blobs]
    return found


def _array(blob: Any, layer: str) -> np.ndarray:
    where = f"the weights of layer '{layer}'"
    if blob.raw_data:
        values = _raw(blob, where)
    else:
        values = np.array(blob.double_data if len(blob.double_data) else blob.data, "float32")
    if blob.HasField("shape"):
        shape = tuple(int(d) for d in blob.shape.dim)
    else:
        shape = tuple(int(getattr(blob, k)) for k in ("num", "channels", "height", "width"))
    if len(shape) > _MAX_DIMENSIONS or any(d < 0 for d in shape):
        raise TVMError(f"{where} have the unsupported shape {shape}")
    count = 1
    for size in shape:
        count *= size
    if count != values.size:
        raise TVMError(f"{where} have shape {shape} but {values.size} elements")
    return values.reshape(shape)


def _raw(blob: Any, where: str) -> np.ndarray:
    """Return the array of a blob in NVIDIA Caffe's format: raw bytes and an element type."""
    kind = RAW_TYPES.get(blob.raw_data_type)
    if kind is None or len(blob.raw_data) % np.dtype(kind).itemsize:
        raise TVMError(f"{where}: {len(blob.raw_data)} bytes with element type {blob.raw_data_type} are not supported")
    return np.frombuffer(blob.raw_data, kind).astype("float32")


def is_text(given: Any) -> bool:
    """Return whether the argument is a network definition (prototxt) rather than a weights file."""
    if hasattr(given, "DESCRIPTOR"):
        return not any(layer.blobs for layer in [*given.layer, *given.layers])
    if isinstance(given, (str, os.PathLike)):
        ending = os.path.splitext(os.fspath(given))[1].lower()
        return ending in (".prototxt", ".pbtxt", ".txt")
    return isinstance(given, (bytes, bytearray, memoryview)) and b"\0" not in bytes(given[:4096])


__all__ = ["Layer", "Net", "is_text", "load_net", "load_weights"]
