"""The TensorFlow importer."""

# Importing these modules registers the converters.
from . import (
    control,
    conv_ops,
    elementwise,
    image_ops,
    index_ops,
    lists,
    nn_ops,
    reduce_ops,
    shape_ops,
    state_ops,
)
from .reader import from_tensorflow

__all__ = ["from_tensorflow"]
