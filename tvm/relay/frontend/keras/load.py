"""Loading of models as a configuration and a source of weights.

The model is a live one, an HDF5 file, or an archive (.keras). No code in a file is executed, and nothing is unpickled.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from .hdf5 import SIGNATURE, Group, opened
from .weights import Flat, Tree

# Maximum size of a configuration in bytes; a layer takes a few kilobytes.
_MOST_CONFIG = 1 << 28
_MOST_WEIGHTS = 1 << 36
_CONFIG, _WEIGHTS, _METADATA = "config.json", "model.weights.h5", "metadata.json"
_ZIP = b"PK\x03\x04"


class Saved(NamedTuple):
    """A model: its configuration, the source of its weights, and the version of Keras that wrote it."""

    config: dict[str, Any]
    weights: Flat | Tree
    version: int


class LiveWeight(NamedTuple):
    """A weight of a live model."""

    name: str
    value: Any

    def array(self) -> np.ndarray:
        return np.asarray(self.value.numpy() if hasattr(self.value, "numpy") else self.value)


def is_keras(head: bytes, path: str) -> bool:
    """Return whether the content of a file is a Keras model: an HDF5 file, or an archive with a configuration."""
    if head.startswith(SIGNATURE):
        return True
    if not head.startswith(_ZIP):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {_CONFIG, _WEIGHTS} <= set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def loaded(model: Any) -> Saved:
    """Load a live model, the path of a file, or the bytes of a file."""
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            model = file.read()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return live(model)
    return from_hdf5(model) if bytes(model[:8]) == SIGNATURE else from_archive(model)


def parsed(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        found = json.loads(text)
    except RecursionError as problem:
        raise TVMError(f"{what} is nested too deeply") from problem
    except (ValueError, UnicodeDecodeError) as problem:
        raise TVMError(f"{what} is not valid JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise TVMError(f"{what} is not a JSON object")
    return found


def _major(version: Any) -> int:
    """Return the first number of a version, such as 2 for 2.4.0."""
    first = str(version or "2").partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() and len(first) < 4 else 2


def from_hdf5(data) -> Saved:
    """Return the model of an HDF5 file."""
    file = opened(data)
    text = file.text("model_config")
    if text is None:
        raise TVMError("the HDF5 file contains only weights and no model_config; save the whole model with model.save")
    weights = file.group("model_weights")
    if weights is None:
        raise TVMError("the HDF5 file does not contain the group 'model_weights'")
    version = file.text("keras_version") or weights.text("keras_version")
    return Saved(parsed(text, "the configuration of the model"), Flat(_layer_lists(weights)), _major(version))


def _layer_lists(group: Group) -> dict[str, list]:
    """Return the weights of each top-level layer, in order."""
    out: dict[str, list] = {}
    for layer in group.texts("layer_names"):
        inner = group.group(layer)
        if inner is None:
            raise TVMError(f"the HDF5 file lists the layer '{layer}' but contains no group with its weights")
        found = []
        for name in inner.texts("weight_names"):
            weight = inner.weight(name)
            if weight is None:
                raise TVMError(f"the HDF5 file contains no data for the weight '{name}' of the layer '{layer}'")
            found.append((name, weight))
        out[layer] = found
    return out


def from_archive(data) -> Saved:
    """Return the model of an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            missing = [n for n in (_CONFIG, _WEIGHTS) if n not in names]
            if missing:
                raise TVMError(f"the file is a zip archive without {' and '.join(missing)}, which is not a Keras model")
            config = parsed(_member(archive, _CONFIG, _MOST_CONFIG), "the configuration of the model")
            metadata = parsed(_member(archive, _METADATA, _MOST_CONFIG), "metadata.json") if _METADATA in names else {}
            weights = _member(archive, _WEIGHTS, _MOST_WEIGHTS)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as problem:
        raise TVMError(f"the file is neither an HDF5 file nor a valid zip archive: {problem}") from problem
    return Saved(config, Tree(opened(weights)), _major(metadata.get("keras_version", "3")))


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return a file of the archive, after checking its size.

    Keras stores weights uncompressed; a file that expands to more than 100 times its size is a decompression bomb.
    """
    info = archive.getinfo(name)
    if info.file_size > most or info.file_size > 100 * info.compress_size + (1 << 20):
        raise TVMError(f"the file {name} in the archive expands to {info.file_size} bytes, which exceeds the limit")
    with archive.open(info) as member:
        found = member.read(info.file_size + 1)
    if len(found) != info.file_size:
        raise TVMError(f"the size of the file {name} differs from its size in the archive's directory")
    return found


def live(model: Any) -> Saved:
    """Return a model that was built in this process, by Keras 2 or 3."""
    if not hasattr(model, "to_json") or not hasattr(model, "layers"):
        raise TypeError(
            f"from_keras: model must be a Keras model, the path of a file or bytes, got {type(model).__name__}"
        )
    try:
        text = model.to_json()
    except (NotImplementedError, ValueError) as problem:
        raise TVMError(
            f"the model has no configuration ({problem}): subclassed models are Python code, which cannot be "
            "imported; build the model with the functional API"
        ) from problem
    config = parsed(text, "the configuration of the model")
    lists = {}
    for layer in model.layers:
        found = [*layer.trainable_weights, *layer.non_trainable_weights]
        lists[layer.name] = [(getattr(w, "path", w.name), LiveWeight(w.name, w)) for w in found]
    # Keras 3 does not write its version into the configuration, but its layers contain their module.
    version = _major(config.get("keras_version", "3"))
    return Saved(config, Flat(lists), version)


__all__ = ["LiveWeight", "Saved", "is_keras", "live", "loaded", "parsed"]
