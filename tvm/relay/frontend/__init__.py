"""Importers: models of other tools as graphs. Each framework is imported only when its importer is called."""

from ...not_built import name_of as _name_of
from .caffe2 import from_caffe2
from .cntk import from_cntk
from .keras import from_keras
from .onnx import from_onnx
from .pytorch import from_exported_program, from_pytorch
from .tensorflow import from_tensorflow
from .tflite import from_tflite

# Scripts for TensorFlow 2 call the importer by this name; it reads the graphs of both.
from_tensorflow2 = from_tensorflow

__all__ = [
    "from_caffe2", "from_cntk", "from_exported_program", "from_keras", "from_onnx", "from_pytorch", "from_tensorflow",
    "from_tensorflow2", "from_tflite",
]


def __getattr__(name: str):
    return _name_of(__name__, name)
