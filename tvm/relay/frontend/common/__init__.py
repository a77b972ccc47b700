"""Parts that importers share: tables of converters, the graph under construction, and properties of expressions."""

from .context import NodeContext, axis_of, check_steps
from .converters import Converters
from .expressions import (
    fold_constant,
    get_name,
    get_relay_op,
    infer_channels,
    infer_shape,
    infer_type,
    infer_value,
    new_var,
    shape_of,
    try_infer_value,
)
from .importer import GraphImporter
from .incremental import IncrementalTyper

__all__ = [
    "Converters", "GraphImporter", "IncrementalTyper", "NodeContext", "axis_of", "check_steps", "fold_constant",
    "get_name", "get_relay_op", "infer_channels", "infer_shape", "infer_type", "infer_value", "new_var",
    "shape_of", "try_infer_value",
]  # fmt: skip
