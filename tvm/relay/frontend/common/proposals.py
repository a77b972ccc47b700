"""Region proposals: anchors shifted by predicted offsets, clipped to the image, and filtered by non-maximum
suppression.

Frameworks return a data-dependent number of regions. This implementation returns the maximum number, so that the shapes
are static: rows without a region come last and are zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .context import NodeContext, check_count


class Rule(NamedTuple):
    """The parameters of the region selection.

    The ``before`` best scores take part (all if not positive). ``after`` regions are kept that overlap by less than
    ``overlap`` and have sides of at least ``least`` pixels of the unscaled image. ``one`` is added to the difference of
    two coordinates to get a side length; ``shift`` is subtracted from the far corner of a shifted box; logarithms of
    size factors are at most ``growth``. With ``small_first``, too small boxes are removed before the best scores are
    selected.
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
    """Return the anchors of a cell, shifted to each position, with the axes rows, columns, anchors."""
    check_count("the anchors", [height, width, *cells.shape])
    y, x = np.meshgrid(np.arange(height) * stride, np.arange(width) * stride, indexing="ij")
    moves = np.stack([x, y, x, y], -1)[:, :, None]
    return (moves + cells).reshape(-1, 4)


def cell_anchors(base: float, ratios: list[float], scales: list[float]) -> np.ndarray:
    """Return the boxes around a cell of ``base`` pixels, for all aspect ratios and scales."""
    centre = (base - 1) / 2
    wide = np.floor(np.sqrt(base * base / np.array(ratios)) + 0.5)
    high = np.floor(wide * np.array(ratios) + 0.5)
    half = (np.stack([wide, high], -1)[:, None] * np.array(scales)[None, :, None] - 1) / 2
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4)


def _moved(moves: RelayExpr, anchors: np.ndarray, limit: RelayExpr, rule: Rule) -> tuple[RelayExpr, RelayExpr]:
    """Return the near and far corners of the shifted boxes, clipped to the image."""
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


def proposals(
    ctx: NodeContext, scores: RelayExpr, moves: RelayExpr, anchors: np.ndarray, image: RelayExpr, rule: Rule
) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """Return the scores (``after``) and the corners (``after``, 4) of the regions of one image, and the mask of valid
    rows.

    ``scores`` has one non-negative number for each anchor, ``moves`` four offsets; ``image`` contains its height, width
    and scale factor.
    """
    total = len(anchors)
    if rule.after < 1 or not 0 < rule.overlap <= 1:
        raise TVMError(
            f"proposals with {rule.after} output regions and an overlap threshold of {rule.overlap} are not supported"
        )
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
