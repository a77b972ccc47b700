"""The ONNX importer."""

# The families of converters register themselves.
from . import (
    control,
    elementwise,
    image_ops,
    index_ops,
    microsoft,
    nn_ops,
    norm_ops,
    pool_ops,
    quantize,
    recurrent,
    reduce_ops,
    shape_ops,
    signal_ops,
)
from .reader import from_onnx

__all__ = ["from_onnx"]
