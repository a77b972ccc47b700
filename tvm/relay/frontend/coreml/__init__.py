"""The Core ML importer."""

# Importing a converter module registers its converters.
from . import (
    activations,
    constexpr_ops,
    elementwise,
    image_ops,
    index_ops,
    layer_control,
    layer_ops,
    nd_layers,
    nn_ops,
    norm_ops,
    pool_ops,
    recurrent,
    recurrent_layers,
    reduce_ops,
    shape_ops,
)
from .reader import from_coreml

__all__ = ["from_coreml"]
