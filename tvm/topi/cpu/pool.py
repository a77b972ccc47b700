"""Pooling in a blocked layout: scheduled like a depthwise convolution, without weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...te.tensor import ComputeOp
from .. import access
from . import depthwise
from .conv2d import is_image_known

if TYPE_CHECKING:
    from ..schedule.cpu import Machine


class Pool(depthwise.Depthwise):
    """Pooling over windows that are unrolled; larger ones are ordinary reductions."""

    tags = ("pool_max", "pool_sum")

    def applies(self, op: ComputeOp) -> bool:
        """Whether channels are known, and windows are small."""
        if len(op.axis) != 5 or len(op.reduce_axis) != 2:
            return False
        kh, kw = (access.extent_of(a) or 1 for a in op.reduce_axis)
        return access.are_known((op.axis[1], op.axis[4], *op.reduce_axis)) and kh * kw <= depthwise.MAX_UNROLLED_TAPS

    def choose(self, op: ComputeOp, machine: Machine) -> dict[str, Any]:
        """Rows of unknown width are computed a pixel at a time: there is nothing to share but loads, which are in the
        L1 cache."""
        if is_image_known(op):
            return super().choose(op, machine)
        return {"tile": (1, 1), "rows": depthwise.ANY_IMAGE_ROWS}


TEMPLATE = Pool()
