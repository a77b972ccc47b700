"""Models as they are handed over: a live model, a message, bytes, a file, or the folder of a package."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ....error import TVMError
from ..common.folder import mapped
from .schema import parse

MANIFEST = "Manifest.json"
# How an ML program names the folder of its model file, and where a package keeps that.
_MODEL_FOLDER = "@model_path/"
_DATA = "Data"


class Loaded(NamedTuple):
    """A model, and the folder that files of weights lie in; None where there is none."""

    model: Any
    folder: str | None


def is_package(path: str) -> bool:
    """Whether a folder is a package (.mlpackage)."""
    return os.path.isfile(os.path.join(path, MANIFEST)) and os.path.isdir(os.path.join(path, _DATA))


def load(model) -> Loaded:
    """What a model is: a path, bytes, a message of coremltools, or its MLModel."""
    if isinstance(model, (str, os.PathLike)):
        return _file(os.fspath(model))
    folder = None
    if hasattr(model, "get_spec"):
        package = getattr(model, "package_path", None)
        folder = None if not package else os.path.dirname(os.path.join(package, _DATA, _root(package)))
        weights = getattr(model, "weights_dir", None)
        # The folder of the weights of a live model lies beside the model file.
        folder = os.path.dirname(weights) if weights else folder
        model = model.get_spec()
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_coreml: an MLModel, its specification, bytes or a path is wanted, got "
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
        raise TVMError(f"{os.path.basename(path)} cannot be read: {problem.strerror}") from problem
    return Loaded(parse("Model", data, os.path.basename(path)), os.path.dirname(path) or ".")


def _root(package: str) -> str:
    """Where in the data of a package its manifest says that the model is."""
    try:
        manifest = json.loads(bytes(mapped(package, "the manifest", MANIFEST)))
        return str(manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"])
    except (ValueError, LookupError, TypeError, RecursionError) as problem:
        raise TVMError(f"{MANIFEST} of the package does not say where the model is: {problem}") from problem


class Weights:
    """The files of weights of a model, each mapped once."""

    def __init__(self, folder: str | None):
        self.folder = folder
        self._files: dict[str, Any] = {}

    def file(self, name: str) -> Any:
        if not name.startswith(_MODEL_FOLDER):
            raise TVMError(f"the file of weights {name!r} is not in the model's folder")
        if self.folder is None:
            raise TVMError("the weights of this model are in a file of its package: give the path of the package")
        if name not in self._files:
            self._files[name] = mapped(self.folder, "a weight", name[len(_MODEL_FOLDER) :])
        return self._files[name]


__all__ = ["MANIFEST", "Loaded", "Weights", "is_package", "load"]
