"""Functions that several frameworks have and Relay has not, written in its operators."""

from __future__ import annotations

import math

from ... import op as relay
from ...expr import RelayExpr
from .context import NodeContext


def atan2(ctx: NodeContext, y: RelayExpr, x: RelayExpr) -> RelayExpr:
    """The angle of the point (x, y), as in C: signs of zeros count, and so do infinite coordinates. It is that of the
    slope in the first octant, which is at most 1, moved to the octant of the point."""
    zero, one = ctx.like(0, y), ctx.like(1, y)
    size_y, size_x = relay.abs(y), relay.abs(x)
    high, low = relay.maximum(size_x, size_y), relay.minimum(size_x, size_y)
    diagonal = relay.cast(relay.greater(high, zero), ctx.dtype(y))
    slope = relay.where(relay.equal(high, low), diagonal, relay.divide(low, high))
    angle = relay.atan(slope)
    angle = relay.where(relay.greater(size_y, size_x), relay.subtract(ctx.like(math.pi / 2, y), angle), angle)

    def is_negative(e: RelayExpr) -> RelayExpr:
        """True of -0.0, too, whose reciprocal is infinite."""
        return relay.logical_or(relay.less(e, zero), relay.less(relay.divide(one, e), zero))

    angle = relay.where(is_negative(x), relay.subtract(ctx.like(math.pi, y), angle), angle)
    return relay.where(is_negative(y), relay.negative(angle), angle)


def log_softmax(x: RelayExpr, axis: int) -> RelayExpr:
    shifted = relay.subtract(x, relay.max(x, axis=axis, keepdims=True))
    return relay.subtract(shifted, relay.log(relay.sum(relay.exp(shifted), axis=axis, keepdims=True)))


__all__ = ["atan2", "log_softmax"]
