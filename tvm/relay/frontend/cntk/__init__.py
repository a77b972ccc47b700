"""The CNTK importer."""

# The families of converters register themselves.
from . import conv_ops, elementwise, matrix_ops, reduce_ops, sequence_ops, shape_ops
from .reader import from_cntk

__all__ = ["from_cntk"]
