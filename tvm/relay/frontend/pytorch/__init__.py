"""The PyTorch importer: TorchScript and exported programs, with one table of converters."""

# Importing these modules registers the converters.
from . import (
    activations,
    attention,
    comparisons,
    complex_ops,
    container_ops,
    elementwise,
    image_ops,
    index_ops,
    linalg_ops,
    make_ops,
    nn_ops,
    norm_ops,
    pad_ops,
    pool_ops,
    quantized_ops,
    recurrent,
    reduce_ops,
    scan_ops,
    shape_ops,
    vision_ops,
)
from .exported import from_exported_program
from .torchscript import from_pytorch

__all__ = ["from_exported_program", "from_pytorch"]
