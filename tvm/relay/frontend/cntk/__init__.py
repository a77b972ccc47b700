"""The CNTK importer."""

# Importing a converter module registers its converters.
from . import conv_ops, elementwise, matrix_ops, reduce_ops, sequence_ops, shape_ops
from .reader import from_cntk

__all__ = ["from_cntk"]
