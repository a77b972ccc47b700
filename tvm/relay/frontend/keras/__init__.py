"""The Keras importer."""

# Importing these modules registers the converters.
from . import activations, array_ops, attention, conv_ops, core_ops, norm_ops, pool_ops, preprocess_ops, recurrent
from . import shape_ops
from .reader import from_keras

__all__ = ["from_keras"]
