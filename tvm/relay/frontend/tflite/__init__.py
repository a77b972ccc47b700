"""The TFLite importer."""

# Importing these modules registers the converters.
from . import (
    control,
    conv_ops,
    detection,
    elementwise,
    found_ops,
    image_ops,
    index_ops,
    integer_recurrent,
    integer_tables,
    nn_ops,
    recurrent,
    reduce_ops,
    shape_ops,
)
from .operator_converter import OperatorConverter
from .reader import from_tflite

__all__ = ["OperatorConverter", "from_tflite"]
