"""Pooling windows over channels in blocks: as a depthwise convolution, without weights."""

from __future__ import annotations

from ...te.tensor import ComputeOp
from .. import access
from . import depthwise


class Pool(depthwise.Depthwise):
    """Windows that are unrolled; larger ones are reductions like any other."""

    tags = ("pool_max", "pool_sum")

    def applies(self, op: ComputeOp) -> bool:
        if not super().applies(op):
            return False
        kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
        return kh * kw <= depthwise.WINDOW


TEMPLATE = Pool()
