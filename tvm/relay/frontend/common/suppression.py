"""Soft non-maximum suppression: boxes that overlap a better box get lower scores, one selected box at a time."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .context import NodeContext, check_steps


def _overlaps(boxes: RelayExpr, one: RelayExpr) -> RelayExpr:
    """Return the intersection over union of each box with one box. Boxes are given by any two opposite corners."""

    def corners(x: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
        first, second = relay.split(x, 2, 1)
        return relay.minimum(first, second), relay.maximum(first, second)

    def area(low: RelayExpr, high: RelayExpr) -> RelayExpr:
        return relay.prod(relay.maximum(relay.subtract(high, low), const(0.0)), axis=1)

    low, high = corners(boxes)
    low_one, high_one = corners(one)
    common = area(relay.maximum(low, low_one), relay.minimum(high, high_one))
    total = relay.subtract(relay.add(area(low, high), area(low_one, high_one)), common)
    # A box without area overlaps no box.
    return relay.where(relay.greater(common, const(0.0)), relay.divide(common, total), const(0.0))


def soft_suppression(
    ctx: NodeContext, boxes: RelayExpr, scores: RelayExpr, count: int, overlap: RelayExpr | None, least: RelayExpr,
    sigma: float,
) -> tuple[RelayExpr, RelayExpr, RelayExpr]:  # fmt: skip
    """Return the indices of the best boxes of ``boxes`` (n, 4), their reduced scores, and how many scores exceed
    ``least``.

    Each selected box multiplies the scores of the others by exp(-overlap^2 / 2 sigma), and removes boxes whose overlap
    is ``overlap`` or more. Unused entries of the outputs are 0.
    """
    check_steps("a list of boxes", count)
    number = ctx.known_size(scores, 0)
    each = Constant(np.arange(number, dtype="int32"))
    gone, scale = const(float("-inf")), const(np.float32(-0.5 / sigma))
    left, places, values = scores, [], []
    for _ in range(min(count, number)):
        best = relay.cast(relay.argmax(left, axis=0), "int32")
        places.append(best)
        values.append(relay.max(left, axis=0))
        share = ctx.made(_overlaps(boxes, relay.reshape(relay.take(boxes, best, 0), (1, 4))))
        lowered = relay.multiply(left, relay.exp(relay.multiply(scale, relay.multiply(share, share))))
        out = relay.logical_or(relay.equal(each, best), relay.equal(left, gone))
        if overlap is not None:
            out = relay.logical_or(out, relay.greater_equal(share, overlap))
        left = ctx.made(relay.where(out, gone, lowered))
    if not places:
        return relay.zeros((count,), "int32"), relay.zeros((count,), "float32"), const(0, "int32")
    value = relay.stack(values, 0)
    valid = relay.greater(value, least)
    rest = ((0, count - len(places)),)
    found = relay.where(valid, relay.stack(places, 0), const(0, "int32"))
    shown = relay.where(valid, value, const(0.0))
    total = relay.sum(relay.cast(valid, "int32"), axis=0)
    return relay.nn.pad(found, rest), relay.nn.pad(shown, rest), total


__all__ = ["soft_suppression"]
