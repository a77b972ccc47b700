"""Load a model from an MLModel object, a protobuf message, bytes, a file or a package folder."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ....error import TVMError
from ..common.folder import mapped
from .schema import parse

MANIFEST = "Manifest.json"
# The prefix of weight file paths in ML programs, and the data folder of a package.
_MODEL_FOLDER = "@model_path/"
_DATA = "Data"


class Loaded(NamedTuple):
    """A model and the folder of its weight files, or None."""

    model: Any
    folder: str | None


def is_package(path: str) -> bool:
    """Return whether a folder is a Core ML package (.mlpackage)."""
    return os.path.isfile(os.path.join(path, MANIFEST)) and os.path.isdir(os.path.join(path, _DATA))


def load(model) -> Loaded:
    """Load a model from a path, bytes, a protobuf message of coremltools or an MLModel."""
    if isinstance(model, (str, os.PathLike)):
        return _file(os.fspath(model))
    folder = None
    if hasattr(model, "get_spec"):
        package = getattr(model, "package_path", None)
        folder = None if not package else os.path.dirname(os.path.join(package, _DATA, _root(package)))
        weights = getattr(model, "weights_dir", None)
        # The weights folder of an MLModel object is next to the model file.
        folder = os.path.dirname(weights) if weights else folder
        model = model.get_spec()
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError("from_coreml: expected an MLModel, its specification, bytes or a path, got "
                        f"{type(model).__name__}")  # fmt: skip
    return Loaded(parse("Model", model, "the model"), folder)


def _file(path: str) -> Loaded:
    if os.path.isdir(path):
        location = _root(path)
        data = bytes(mapped(os.path.join(path, _DATA), "the model", location))
        folder = os.path.join(path, _DATA, os.path.dirname(location))
        return Loaded(parse("Model", data, os.path.basename(location)), folder)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as problem:
        raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem
    return Loaded(parse("Model", data, os.path.basename(path)), os.path.dirname(path) or ".")


def _root(package: str) -> str:
    """Return the path of the model in a package's data folder, from the manifest."""
    try:
        manifest = json.loads(bytes(mapped(package, "the manifest", MANIFEST)))
        return str(manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"])
    except (ValueError, LookupError, TypeError, RecursionError) as problem:
        raise TVMError(f"{MANIFEST} of the package does not contain the path of the model: {problem}") from problem


class Weights:
    """The weight files of a model. Each file is memory-mapped once."""

    def __init__(self, folder: str | None):
        self.folder = folder
        self._files: dict[str, Any] = {}

    def file(self, name: str) -> Any:
        if not name.startswith(_MODEL_FOLDER):
            raise TVMError(f"the weights file {name!r} is not in the model's folder")
        if self.folder is None:
            raise TVMError("the weights of this model are in a file of its package: pass the path of the package")
        if name not in self._files:
            self._files[name] = mapped(self.folder, "a weight", name[len(_MODEL_FOLDER) :])
        return self._files[name]


__all__ = ["MANIFEST", "Loaded", "Weights", "is_package", "load"]
