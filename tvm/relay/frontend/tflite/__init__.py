"""The TFLite importer."""

# The families of converters register themselves.
from . import conv_ops, control, detection, elementwise, image_ops, index_ops, nn_ops, recurrent, reduce_ops, shape_ops
from .operator_converter import OperatorConverter
from .reader import from_tflite

__all__ = ["OperatorConverter", "from_tflite"]
