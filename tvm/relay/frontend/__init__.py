"""Importers, which convert models of other frameworks to Relay.

An importer is loaded at its first use; a framework is loaded only if a live model object of it is passed.
"""

import importlib as _importlib

from ...not_built import name_of as _name_of

# Name of an importer function and its module.
_HOMES = {
    "from_caffe": "caffe",
    "from_caffe2": "caffe2",
    "from_cntk": "cntk",
    "from_coreml": "coreml",
    "from_darknet": "darknet",
    "from_exported_program": "pytorch",
    "from_keras": "keras",
    "from_mxnet": "mxnet",
    "from_onnx": "onnx",
    "from_paddle": "paddlepaddle",
    "from_pytorch": "pytorch",
    "from_tensorflow": "tensorflow",
    "from_tflite": "tflite",
}
# Scripts for TensorFlow 2 use another name of the importer, which reads the graphs of both versions.
_SAME = {"from_tensorflow2": "from_tensorflow"}

__all__ = sorted([*_HOMES, *_SAME])  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return [*__all__, *_HOMES.values()]


def __getattr__(name: str):
    known = _SAME.get(name, name)
    if known in _HOMES:
        found = getattr(_importlib.import_module("." + _HOMES[known], __name__), known)
    elif name in ("change_datatype", "common") or name in _HOMES.values():
        return _importlib.import_module("." + name, __name__)
    else:
        return _name_of(__name__, name)
    globals()[name] = found
    return found
