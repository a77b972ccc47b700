"""Regions that a network proposes: anchors it moved, cut to the image, the best of those that overlap.

Frameworks return as many regions as they find. Here the number is the most that there may be, so that the sizes behind
are known when compiling: the rows that are no region come last and are zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .context import NodeContext, check_count


class Rule(NamedTuple):
    """How regions are chosen.

    ``before`` of the best scores take part (all if not positive), ``after`` regions stay that overlap by less than
    ``overlap`` and have sides of ``least`` pixels of the image before it was scaled. A side is ``one`` longer than the
    distance of its ends; ``shift`` is taken off the far corner when a box is moved; logarithms of sizes are at most
    ``growth``; with ``small_first`` boxes that are too small leave before the best are chosen.
    """

    before: int
    after: int
    overlap: float
    least: float
    one: float = 1.0
    shift: float = 0.0
    growth: float | None = None
    small_first: bool = True


def anchors_of(cells: np.ndarray, height: int, width: int, stride: float) -> np.ndarray:
    """The anchors of a cell, moved to every place: rows, columns, anchors."""
    check_count("the anchors", [height, width, *cells.shape])
    y, x = np.meshgrid(np.arange(height) * stride, np.arange(width) * stride, indexing="ij")
    moves = np.stack([x, y, x, y], -1)[:, :, None]
    return (moves + cells).reshape(-1, 4)


def cell_anchors(base: float, ratios: list[float], scales: list[float]) -> np.ndarray:
    """The boxes around a cell of ``base`` pixels: ratios of height and width, each in several sizes."""
    centre = (base - 1) / 2
    wide = np.floor(np.sqrt(base * base / np.array(ratios)) + 0.5)
    high = np.floor(wide * np.array(ratios) + 0.5)
    half = (np.stack([wide, high], -1)[:, None] * np.array(scales)[None, :, None] - 1) / 2
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4)


def _moved(moves: RelayExpr, anchors: np.ndarray, limit: RelayExpr, rule: Rule) -> tuple[RelayExpr, RelayExpr]:
    """Near and far corners of the boxes, inside the image."""
    size = anchors[:, 2:] - anchors[:, :2] + rule.one
    sides = const(size.astype("float32"))
    there, growth = (relay.strided_slice(moves, [a], [a + 2], [1], [1]) for a in (0, 2))
    if rule.growth is not None:
        growth = relay.minimum(growth, const(rule.growth))
    centre = relay.add(relay.multiply(there, sides), const((anchors[:, :2] + size / 2).astype("float32")))
    half = relay.multiply(relay.multiply(relay.exp(growth), sides), const(0.5))
    ends = (relay.subtract(centre, half), relay.subtract(relay.add(centre, half), const(rule.shift)))
    low, high = (relay.maximum(relay.minimum(e, limit), const(0.0)) for e in ends)
    return low, high


def proposals(ctx: NodeContext, scores: RelayExpr, moves: RelayExpr, anchors: np.ndarray, image: RelayExpr,
              rule: Rule) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """The scores (``after``) and the corners (``after``, 4) of the regions of one image, and which rows are regions.

    ``scores`` has one number for each anchor, not below zero, ``moves`` four, ``image`` its height, its width and by
    how much it was scaled.
    """
    total = len(anchors)
    if rule.after < 1 or not 0 < rule.overlap <= 1:
        raise TVMError(f"{rule.after} regions that overlap by less than {rule.overlap} are not supported")
    check_count("the regions", [rule.after, 5])
    before = min(rule.before, total) if rule.before > 0 else total
    sizes = relay.take(image, const(np.array([1, 0], "int64")), 0)
    low, high = _moved(moves, anchors, ctx.made(relay.subtract(sizes, const(rule.one))), rule)
    least = relay.multiply(relay.take(image, const(2, "int64"), 0), const(rule.least))
    sides = relay.add(relay.subtract(high, low), const(rule.one))
    good = relay.all(relay.greater_equal(sides, least), axis=[1])
    valid = ctx.made(relay.where(good, scores, const(-1.0)))
    best, places = relay.topk(valid if rule.small_first else scores, before, 0, "both", False, "int32")
    if not rule.small_first:
        best = relay.take(valid, places, 0)
    far = relay.add(high, const(rule.one))
    rows = relay.take(relay.concatenate([low, far], 1), places, 0)
    rows = relay.expand_dims(relay.concatenate([relay.expand_dims(best, 1), rows], 1), 0)
    counts, rows, indices = relay.vision.get_valid_counts(rows, -0.5, -1, 0)
    rows = relay.vision.non_max_suppression(
        rows, counts, indices, rule.after, rule.overlap, force_suppress=True, coord_start=1, score_index=0, id_index=-1,
        return_indices=False, invalid_to_bottom=True,
    )  # fmt: skip
    rows = relay.squeeze(relay.strided_slice(rows, [0], [min(before, rule.after)], [1], [1]), [0])
    if rule.after > before:
        rows = relay.nn.pad(rows, ((0, rule.after - before), (0, 0)), -1.0)
    rows = relay.subtract(rows, const(np.array([0, 0, 0, rule.one, rule.one], "float32")))
    real = ctx.made(relay.greater_equal(relay.strided_slice(rows, [0], [1], [1], [1]), const(0.0)))
    rows = ctx.made(relay.where(real, rows, const(0.0)))
    boxes = relay.strided_slice(rows, [1], [5], [1], [1])
    return relay.take(rows, const(0, "int64"), 1), boxes, relay.squeeze(real, [1])
