"""Pooling windows over channels in blocks: as a depthwise convolution, without weights."""

from __future__ import annotations

from ...te.tensor import ComputeOp
from .. import access
from . import depthwise
from .depthwise import apply, choose, space


def applies(op: ComputeOp) -> bool:
    """Windows that are unrolled; larger ones are reductions like any other."""
    if not depthwise.applies(op):
        return False
    kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
    return kh * kw <= depthwise.WINDOW


__all__ = ["applies", "apply", "choose", "space"]
