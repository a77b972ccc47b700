"""Models as a configuration and a source of weights: live ones, HDF5 files, and archives (.keras). All three are read
the same way from there on. No code that a file holds is executed and nothing is unpickled."""

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

# A configuration is text of some kilobytes for each layer.
_MOST_CONFIG = 1 << 28
_MOST_WEIGHTS = 1 << 36
_CONFIG, _WEIGHTS, _METADATA = "config.json", "model.weights.h5", "metadata.json"
_ZIP = b"PK\x03\x04"


class Saved(NamedTuple):
    """A model: its configuration, where its weights are, and the version of Keras that wrote it."""

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
    """Whether a file is a model of Keras by its content: an HDF5 file, or an archive with a configuration."""
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
    """A live model, the path of a file, or the bytes of one."""
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            model = file.read()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return live(model)
    return from_hdf5(model) if bytes(model[:8]) == SIGNATURE else from_archive(model)


def parsed(text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(text)
    except RecursionError as problem:
        raise TVMError(f"{what} is nested too deeply") from problem
    except (ValueError, UnicodeDecodeError) as problem:
        raise TVMError(f"{what} is no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise TVMError(f"{what} is no JSON object")
    return found


def _major(version: Any) -> int:
    """The first number of a version, such as 2 of 2.4.0."""
    first = str(version or "2").partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() and len(first) < 4 else 2


def from_hdf5(data) -> Saved:
    """A model of an HDF5 file."""
    file = opened(data)
    text = file.text("model_config")
    if text is None:
        raise TVMError("the HDF5 file has no model_config, only weights; save the whole model with model.save")
    weights = file.group("model_weights")
    if weights is None:
        raise TVMError("the HDF5 file has no group model_weights")
    version = file.text("keras_version") or weights.text("keras_version")
    return Saved(parsed(text, "the configuration of the model"), Flat(_layer_lists(weights)), _major(version))


def _layer_lists(group: Group) -> dict[str, list]:
    """The weights of each outermost layer, in order."""
    out: dict[str, list] = {}
    for layer in group.texts("layer_names"):
        inner = group.group(layer)
        if inner is None:
            raise TVMError(f"the HDF5 file names the layer '{layer}' but has no group of its weights")
        found = []
        for name in inner.texts("weight_names"):
            weight = inner.weight(name)
            if weight is None:
                raise TVMError(f"the HDF5 file has no data for the weight '{name}' of the layer '{layer}'")
            found.append((name, weight))
        out[layer] = found
    return out


def from_archive(data) -> Saved:
    """A model of an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            missing = [n for n in (_CONFIG, _WEIGHTS) if n not in names]
            if missing:
                raise TVMError(f"the file is a zip archive without {' and '.join(missing)}, no model of Keras")
            config = parsed(_member(archive, _CONFIG, _MOST_CONFIG), "the configuration of the model")
            metadata = parsed(_member(archive, _METADATA, _MOST_CONFIG), "metadata.json") if _METADATA in names else {}
            weights = _member(archive, _WEIGHTS, _MOST_WEIGHTS)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as problem:
        raise TVMError(f"the file is neither HDF5 nor a whole zip archive: {problem}") from problem
    return Saved(config, Tree(opened(weights)), _major(metadata.get("keras_version", "3")))


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A file of the archive, as long as it says it is. Keras stores weights as they are; what unpacks to a hundred
    times
    its length was made to fill the memory."""
    info = archive.getinfo(name)
    if info.file_size > most or info.file_size > 100 * info.compress_size + (1 << 20):
        raise TVMError(f"{name} of the archive would take {info.file_size} bytes when unpacked")
    with archive.open(info) as member:
        found = member.read(info.file_size + 1)
    if len(found) != info.file_size:
        raise TVMError(f"{name} of the archive has another length than the archive says")
    return found


def live(model: Any) -> Saved:
    """A model that was built in this process, by Keras 2 or 3."""
    if not hasattr(model, "to_json") or not hasattr(model, "layers"):
        raise TypeError(
            f"from_keras: a Keras model, the path of a file or its bytes are wanted, got {type(model).__name__}"
        )
    try:
        text = model.to_json()
    except (NotImplementedError, ValueError) as problem:
        raise TVMError(
            f"the model has no configuration ({problem}): subclassed models are Python code, which is not "
            "imported; build the model with the functional interface"
        ) from problem
    config = parsed(text, "the configuration of the model")
    lists = {}
    for layer in model.layers:
        found = [*layer.trainable_weights, *layer.non_trainable_weights]
        lists[layer.name] = [(getattr(w, "path", w.name), LiveWeight(w.name, w)) for w in found]
    # Keras 3 says its version nowhere in the configuration, but its layers say their module.
    version = _major(config.get("keras_version", "3"))
    return Saved(config, Flat(lists), version)


__all__ = ["LiveWeight", "Saved", "is_keras", "live", "loaded", "parsed"]
