"""The ONNX importer."""

# Importing these modules registers the converters.
from . import (
    attention,
    control,
    elementwise,
    found_ops,
    image_ops,
    index_ops,
    microsoft,
    ml_ops,
    nn_ops,
    norm_ops,
    pool_ops,
    quantize,
    random_ops,
    recurrent,
    reduce_ops,
    sequence_ops,
    shape_ops,
    signal_ops,
    training_ops,
)
from .reader import from_onnx

__all__ = ["from_onnx"]
