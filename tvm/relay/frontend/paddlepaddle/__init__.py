"""The PaddlePaddle importer."""

# Importing a converter module registers its converters.
from . import (
    activations,
    control,
    conv_ops,
    detection,
    elementwise,
    image_ops,
    index_ops,
    make_ops,
    norm_ops,
    pool_ops,
    matmul_ops,
    quantize_ops,
    recurrent,
    reduce_ops,
    sequence_ops,
    shape_ops,
    slice_ops,
)
from .reader import from_paddle

__all__ = ["from_paddle"]
