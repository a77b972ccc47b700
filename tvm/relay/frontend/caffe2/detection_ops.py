"""Converters of detector operators after region proposal: feature pyramid levels, non-maximum suppression, keypoints.

Caffe2 outputs have as many rows as there are detections. Outputs here have the maximum number of rows, padded with
zeros, and ``Context.real`` returns the mask of valid rows.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .region_ops import upright
from .table import Context, check_count, check_steps, op


def _columns(x: RelayExpr, begin: int, end: int) -> RelayExpr:
    return relay.strided_slice(x, [begin], [end], [1], [1])


def _indices(count: int) -> RelayExpr:
    return const(np.arange(count, dtype="int32"))


def _zero_invalid(rows: RelayExpr, real: RelayExpr) -> RelayExpr:
    """Set the invalid rows to zero."""
    return relay.where(relay.expand_dims(real, 1), rows, const(0.0))


def _levels(args, kind: str, low: int, high: int) -> tuple[int, int]:
    """Return the lowest pyramid level and the number of levels."""
    low, high = args.get(f"{kind}_min_level", low), args.get(f"{kind}_max_level", high)
    if not 0 <= low <= high <= 31:
        raise TVMError(f"pyramid levels from {low} to {high} are not supported")
    return low, high - low + 1


def _regions(ctx: Context, rois: RelayExpr) -> int:
    """Return the number of regions of interest (ROIs)."""
    shape = ctx.known_shape(rois)
    if len(shape) != 2 or shape[1] != 5 or not shape[0]:
        raise TVMError(
            f"regions of shape {shape} are not supported; the shape must be (n, 5): image index and four corners"
        )
    return shape[0]


def _collect(ctx: Context, inputs, args) -> tuple[RelayExpr, RelayExpr]:
    """Return the regions with the highest scores of all pyramid levels, and the mask of valid rows."""
    _, count = _levels(args, "rpn", 2, 6)
    if len(inputs) != 2 * count:
        raise TVMError(f"expected regions and scores of {count} pyramid levels, got {len(inputs)} inputs")
    sizes = [_regions(ctx, rois) for rois in inputs[:count]]
    if [ctx.known_shape(s)[:1] for s in inputs[count:]] != [(n,) for n in sizes]:
        raise TVMError("the numbers of regions and of scores must be equal")
    rois = relay.concatenate(list(inputs[:count]), 0)
    scores = relay.concatenate([relay.reshape(s, (-1,)) for s in inputs[count:]], 0)
    real = relay.concatenate([ctx.real(i) for i in range(count)], 0)
    limit = args.get("rpn_post_nms_topN", 2000)
    total = min(sum(sizes), limit) if limit > 0 else sum(sizes)
    order = ctx.made(relay.topk(relay.where(real, scores, const(-np.inf)), total, 0, "indices", False, "int32"))
    real = ctx.made(relay.take(real, order, 0))
    return ctx.made(_zero_invalid(relay.take(rois, order, 0), real)), real


def _distribute(ctx: Context, rois: RelayExpr, real: RelayExpr, args) -> tuple[list[RelayExpr], list[RelayExpr]]:
    """Assign regions to pyramid levels by size.

    Returns the regions of each level in input order, followed by the index of each region in the concatenation of all
    levels, and the masks of valid rows.
    """
    low, count = _levels(args, "roi", 2, 5)
    scale, base = float(args.get("roi_canonical_scale", 224)), float(args.get("roi_canonical_level", 4))
    if scale <= 0:
        raise TVMError(f"roi_canonical_scale {scale} is not supported; it must be positive")
    n = _regions(ctx, rois)
    check_count("the regions of all levels", [n, count, 5])
    sides = relay.add(relay.subtract(_columns(rois, 3, 5), _columns(rois, 1, 3)), const(upright(args)))
    size = relay.divide(relay.sqrt(relay.prod(sides, axis=[1])), const(scale))
    level = relay.floor(relay.add(relay.log2(relay.add(size, const(1e-6))), const(base)))
    level = relay.cast(relay.clip(level, float(low), float(low + count - 1)), "int32")
    level = ctx.made(relay.subtract(level, const(low)))
    rows, marks, rank = [], [], const(np.zeros(n, "int32"))
    for i in range(count):
        mine = ctx.made(relay.logical_and(relay.equal(level, const(i)), real))
        order = relay.argsort(relay.where(mine, _indices(n), relay.add(_indices(n), const(n))), 0, True, "int32")
        before = relay.cumsum(relay.cast(mine, "int32"), 0)
        rank = relay.where(mine, relay.subtract(before, const(1)), rank)
        marks.append(ctx.made(relay.less(_indices(n), relay.sum(relay.cast(mine, "int32")))))
        rows.append(ctx.made(_zero_invalid(relay.take(rois, order, 0), marks[-1])))
    place = relay.add(relay.multiply(level, const(n)), rank)
    # The index of an invalid row points to the last row, which is invalid, too.
    rows.append(ctx.made(relay.where(real, place, const(n * count - 1))))
    return rows, marks


@op("CollectRpnProposals")
def collect(ctx, inputs, args):
    rois, real = _collect(ctx, inputs, args)
    ctx.marks[0] = real
    return rois


@op("DistributeFpnProposals")
def distribute(ctx, inputs, args):
    rows, marks = _distribute(ctx, inputs[0], ctx.real(0), args)
    ctx.marks.update(enumerate(marks))
    return rows


@op("CollectAndDistributeFpnRpnProposals")
def collect_and_distribute(ctx, inputs, args):
    rois, real = _collect(ctx, inputs, args)
    rows, marks = _distribute(ctx, rois, real, args)
    ctx.marks.update(enumerate([real, *marks]))
    return [rois, *rows]


@op("BatchPermutation")
def batch_permutation(ctx, inputs, args):
    return relay.take(inputs[0], inputs[1], 0)


class _Limit:
    """The arguments and the input shapes of ``BoxWithNMSLimit``."""

    def __init__(self, ctx: Context, inputs, args):
        if args.get("soft_nms_enabled", 0):
            raise TVMError("soft_nms_enabled=1 (soft non-maximum suppression) is not supported")
        self.ctx, self.args, self.one = ctx, args, upright(args)
        shape, boxes = ctx.known_shape(inputs[0]), ctx.known_shape(inputs[1])
        if shape[2:] not in ((), (1, 1)) or boxes[2:] not in ((), (1, 1)) or len(shape) < 2 or len(boxes) < 2:
            raise TVMError(f"scores of shape {shape} and boxes of shape {boxes} are not supported")
        self.count, self.classes = shape[:2]
        self.agnostic = bool(args.get("cls_agnostic_bbox_reg", 0))
        # Column 0 is the background class. If the boxes exclude it, it is the last column.
        self.first = 1 if args.get("input_boxes_include_bg_cls", 1) else 0
        wide = 4 * (1 if self.agnostic else self.classes - 1 + self.first)
        if self.classes < 2 or self.count < 1 or boxes[:2] != (self.count, wide):
            raise TVMError(f"scores of shape {shape} do not match boxes of shape {boxes}")
        check_count("the boxes of all classes", [self.classes, self.count, 6])
        self.scores = relay.reshape(inputs[0], (self.count, self.classes))
        self.boxes = relay.reshape(inputs[1], (self.count, boxes[1] // 4, 4))
        limit = args.get("detections_per_im", 100)
        most = (self.classes - 1) * self.count
        self.most = min(limit, most) if limit > 0 else most

    def chosen(self, mine: RelayExpr, begin: RelayExpr) -> RelayExpr:
        """Apply non-maximum suppression to one image, whose rows are ``mine`` and start at ``begin``.

        Returns rows of (score, corners, row index, class), sorted by class, then by score. Invalid rows are -1.
        """
        ctx, kinds = self.ctx, self.classes - 1
        scores = relay.transpose(_columns(self.scores, self.first, self.first + kinds), (1, 0))
        scores = relay.where(relay.expand_dims(mine, 0), scores, const(-np.inf))
        boxes = relay.transpose(self.boxes, (1, 0, 2))
        if self.first and not self.agnostic:
            boxes = relay.strided_slice(boxes, [1], [self.classes], [1], [0])
        boxes = relay.broadcast_to(boxes, (kinds, self.count, 4))
        far = const(np.array([0, 0, self.one, self.one], "float32"))
        row = relay.cast(relay.subtract(_indices(self.count), begin), "float32")
        row = relay.broadcast_to(relay.reshape(row, (1, -1, 1)), (kinds, self.count, 1))
        data = relay.concatenate([relay.expand_dims(scores, 2), relay.add(boxes, far), row], 2)
        least = float(self.args.get("score_thresh", 0.05))
        counts, data, indices = relay.vision.get_valid_counts(data, least, -1, 0)
        overlap = float(np.nextafter(np.float32(self.args.get("nms", 0.3)), np.float32(np.inf)))
        data = relay.vision.non_max_suppression(
            data, counts, indices, -1, overlap, force_suppress=True, coord_start=1, score_index=0, id_index=-1,
            return_indices=False, invalid_to_bottom=True,
        )  # fmt: skip
        kind = np.arange(kinds, dtype="float32") + (1.0 if self.args.get("output_classes_include_bg_cls", 1) else 0.0)
        kind = np.broadcast_to(kind[:, None, None], (kinds, self.count, 1)).copy()
        data = ctx.made(relay.reshape(relay.concatenate([data, const(kind)], 2), (-1, 7)))
        score = ctx.made(relay.reshape(_columns(data, 0, 1), (-1,)))
        order = relay.topk(score, self.most, 0, "indices", False, "int32")
        # Valid boxes first, in class order, followed by the invalid ones.
        none = relay.less(relay.take(score, order, 0), const(0.0))
        total = const(kinds * self.count)
        order = ctx.made(relay.sort(relay.where(none, total, order), 0, True))
        rows = relay.take(data, relay.minimum(order, const(kinds * self.count - 1)), 0)
        return ctx.made(relay.where(relay.expand_dims(relay.less(order, total), 1), rows, const(-1.0)))


@op("BoxWithNMSLimit")
def box_with_nms_limit(ctx, inputs, args):
    """Apply non-maximum suppression to each class and keep the boxes with the highest scores of each image."""
    limit = _Limit(ctx, inputs, args)
    real, images = ctx.real(1), 1
    parts = [(real, const(0))]
    if len(inputs) > 2:
        images = ctx.known_shape(inputs[2])[0]
        check_steps("a batch of images", images)
        ends = ctx.made(relay.cumsum(relay.cast(inputs[2], "int32"), 0))
        place, parts = _indices(limit.count), []
        for i in range(images):
            end = relay.take(ends, const(i), 0)
            begin = relay.take(ends, const(i - 1), 0) if i else const(0)
            inside = relay.logical_and(relay.greater_equal(place, begin), relay.less(place, end))
            parts.append((ctx.made(relay.logical_and(inside, real)), begin))
    found = [limit.chosen(*part) for part in parts]
    rows = relay.concatenate(found, 0) if images > 1 else found[0]
    total = images * limit.most
    # Move the invalid rows behind the valid rows of all images.
    valid = relay.greater_equal(relay.reshape(_columns(rows, 0, 1), (-1,)), const(0.0))
    order = relay.argsort(
        relay.where(valid, _indices(total), relay.add(_indices(total), const(total))), 0, True, "int32"
    )
    rows, valid = ctx.made(relay.take(rows, order, 0)), ctx.made(relay.take(valid, order, 0))
    rows = ctx.made(_zero_invalid(rows, valid))
    ctx.marks.update(dict.fromkeys((0, 1, 2, 4), valid))
    corners = relay.subtract(_columns(rows, 1, 5), const(np.array([0, 0, limit.one, limit.one], "float32")))
    score, row, kind = (relay.reshape(_columns(rows, a, a + 1), (-1,)) for a in (0, 5, 6))
    counts, per_class = _box_counts(ctx, found, limit)
    return [score, _zero_invalid(corners, valid), kind, counts, relay.cast(row, "int32"), per_class]


def _box_counts(ctx: Context, found: list[RelayExpr], limit: _Limit) -> tuple[RelayExpr, RelayExpr]:
    """Return the number of boxes of each image, and of each class of each image."""
    every, kinds = [], np.arange(limit.classes, dtype="float32")
    shift = 0.0 if limit.args.get("output_classes_include_bg_cls", 1) else 1.0
    for rows in found:
        valid = relay.greater_equal(_columns(rows, 0, 1), const(0.0))
        same = relay.equal(relay.add(_columns(rows, 6, 7), const(shift)), const(kinds))
        every.append(relay.sum(relay.cast(relay.logical_and(same, valid), "int32"), axis=[0]))
    each = ctx.made(relay.stack(every, 0))
    return relay.cast(relay.sum(each, axis=[1]), "float32"), each


# The maximum distance of a keypoint from the largest element of its heat map, in elements.
_MAX_DISTANCE = 1.5


def _neighbourhood(ctx: Context, maps: RelayExpr, place: RelayExpr, size: int) -> list[list[RelayExpr]]:
    """Return the 3x3 neighbourhood of a position in each map. Indices beyond an edge are reflected."""
    y, x = relay.floor_divide(place, const(size)), relay.floor_mod(place, const(size))

    def near(middle: RelayExpr, step: int) -> RelayExpr:
        at = relay.add(middle, const(step))
        at = relay.where(relay.greater_equal(at, const(size)), relay.subtract(at, const(2)), at)
        return ctx.made(relay.where(relay.less(at, const(0)), relay.add(at, const(2)), at))

    rows, columns = ([near(v, step) for step in (-1, 0, 1)] for v in (y, x))
    places = [relay.add(relay.multiply(r, const(size)), c) for r in rows for c in columns]
    found = ctx.made(relay.gather(maps, 1, ctx.made(relay.stack(places, 1))))
    return [[ctx.made(relay.take(found, const(3 * i + j), 1)) for j in range(3)] for i in range(3)]


def _fit_quadratic(ctx: Context, f: list[list[RelayExpr]]) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """Fit a quadratic to a 3x3 neighbourhood.

    Return the offsets (x, y) of its maximum from the center and its value.
    """
    slope_x = relay.multiply(relay.subtract(f[1][0], f[1][2]), const(0.5))
    slope_y = relay.multiply(relay.subtract(f[0][1], f[2][1]), const(0.5))
    twice = relay.multiply(f[1][1], const(2.0))
    xx = relay.subtract(relay.add(f[1][0], f[1][2]), twice)
    yy = relay.subtract(relay.add(f[0][1], f[2][1]), twice)
    corners = relay.subtract(relay.add(f[2][2], f[0][0]), relay.add(f[2][0], f[0][2]))
    xy = ctx.made(relay.multiply(corners, const(0.25)))
    det = ctx.made(relay.subtract(relay.multiply(xx, yy), relay.multiply(xy, xy)))
    flat = ctx.made(relay.less(relay.abs(det), const(1e-4)))
    det = ctx.made(relay.where(flat, const(1.0), det))
    x = relay.divide(relay.subtract(relay.multiply(yy, slope_x), relay.multiply(xy, slope_y)), det)
    y = relay.divide(relay.subtract(relay.multiply(xx, slope_y), relay.multiply(xy, slope_x)), det)
    longest = relay.maximum(relay.maximum(relay.abs(x), relay.abs(y)), const(_MAX_DISTANCE))
    shorter = relay.where(flat, const(0.0), relay.divide(const(_MAX_DISTANCE), longest))
    x, y = (ctx.made(relay.multiply(v, shorter)) for v in (x, y))
    first = relay.add(relay.multiply(slope_x, x), relay.multiply(slope_y, y))
    square = relay.add(relay.multiply(xx, relay.multiply(x, x)), relay.multiply(yy, relay.multiply(y, y)))
    second = relay.add(relay.multiply(square, const(0.5)), relay.multiply(xy, relay.multiply(x, y)))
    return x, y, relay.add(relay.subtract(f[1][1], first), second)


@op("HeatmapMaxKeypoint")
def heatmap_max_keypoint(ctx, inputs, args):
    """Return the keypoints: the sub-pixel positions of the heat maps' maxima in the boxes, their values and
    probabilities."""
    maps, boxes = inputs
    shape, rows = ctx.known_shape(maps), ctx.known_shape(boxes)
    if len(shape) != 4 or shape[2] != shape[3] or shape[2] < 2 or len(rows) != 2 or rows[0] != shape[0] or rows[1] < 4:
        raise TVMError(f"heat maps of shape {shape} and boxes of shape {rows} do not match")
    count, points, size, _ = shape
    flat = ctx.made(relay.reshape(maps, (count * points, size * size)))
    place = ctx.made(relay.cast(relay.argmax(flat, 1), "int32"))
    x, y, score = _fit_quadratic(ctx, _neighbourhood(ctx, flat, place, size))
    middles = (relay.floor_mod(place, const(size)), relay.floor_divide(place, const(size)))
    out = []
    for axis, (middle, moved) in enumerate(zip(middles, (x, y))):
        near, far = _columns(boxes, axis, axis + 1), _columns(boxes, axis + 2, axis + 3)
        length = relay.divide(relay.maximum(relay.subtract(far, near), const(1.0)), const(float(size)))
        at = relay.add(relay.add(relay.cast(middle, "float32"), moved), const(0.5))
        out.append(relay.add(near, relay.multiply(relay.reshape(at, (count, points)), length)))
    most = relay.max(flat, axis=[1], keepdims=True)
    probability = relay.divide(const(1.0), relay.sum(relay.exp(relay.subtract(flat, most)), axis=[1]))
    if not args.get("should_output_softmax", 0):
        probability = relay.zeros((count * points,), "float32")
    return relay.stack([*out, *(relay.reshape(v, (count, points)) for v in (score, probability))], 1)
