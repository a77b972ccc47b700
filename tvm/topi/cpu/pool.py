"""Pooling in a blocked layout, scheduled like a depthwise convolution without weights."""

from __future__ import annotations

from ...te.tensor import ComputeOp
from .. import access
from . import depthwise


class Pool(depthwise.Depthwise):
    """Pooling over unrolled windows; larger windows use the schedule of reductions."""

    tags = ("pool_max", "pool_sum")

    def applies(self, op: ComputeOp) -> bool:
        """Return whether channels are constant and windows are small."""
        if len(op.axis) != 5 or len(op.reduce_axis) != 2:
            return False
        kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
        return access.are_known((op.axis[1], op.axis[4], *op.reduce_axis)) and kh * kw <= depthwise.MAX_UNROLLED_TAPS


TEMPLATE = Pool()
