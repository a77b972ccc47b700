"""The MXNet importer."""

# Importing a converter module registers its converters.
from . import (
    activations,
    box_ops,
    control,
    conv_ops,
    elementwise,
    fused_ops,
    image_ops,
    index_ops,
    make_ops,
    norm_ops,
    numpy_ops,
    pool_ops,
    matmul_ops,
    quantized_ops,
    recurrent,
    reduce_ops,
    shape_ops,
    unary_ops,
)
from .reader import from_mxnet

__all__ = ["from_mxnet"]
