"""The graph pipelines, as literal tuples of passes. Their order is read here and nowhere else."""

from __future__ import annotations

from ..ir.transform import Pass
from .transform.expand_ops import ExpandOps
from .transform.fold_constant import FoldConstant
from .transform.function_pass import InferType
from .transform.simplify_inference import SimplifyInference

OPTIMIZE: tuple[Pass, ...] = (
    InferType(),
    SimplifyInference(),
    ExpandOps(),
    FoldConstant(),
)
