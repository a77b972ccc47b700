"""The Caffe2 importer."""

# Importing a converter module registers its converters.
from . import (
    array_ops,
    conv_ops,
    detection_ops,
    elementwise,
    fill_ops,
    int8_ops,
    nn_ops,
    norm_ops,
    recurrent,
    reduce_ops,
    region_ops,
    shape_ops,
)
from .reader import from_caffe2

__all__ = ["from_caffe2"]
