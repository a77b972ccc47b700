"""The graph pipelines, as literal tuples of passes. Their order is read here and nowhere else."""

from __future__ import annotations

from ..ir.transform import Pass
from .transform.function_pass import InferType

OPTIMIZE: tuple[Pass, ...] = (
    InferType(),
)
