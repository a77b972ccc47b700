"""Pooling in a blocked layout: scheduled like a depthwise convolution, without weights."""

from __future__ import annotations

from ...te.tensor import ComputeOp
from .. import access
from . import depthwise


class Pool(depthwise.Depthwise):
    """Pooling over windows that are unrolled; larger ones are ordinary reductions."""

    tags = ("pool_max", "pool_sum")

    def applies(self, op: ComputeOp) -> bool:
        if not super().applies(op):
            return False
        kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
        return kh * kw <= depthwise.MAX_UNROLLED_TAPS


TEMPLATE = Pool()
