"""Converters of SSD and R-FCN detector layers: prior boxes, box decoding, non-maximum suppression and ROI pooling."""

from __future__ import annotations

import math
import re

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.context import check_count
from ..common.proposals import Rule, anchors_of, cell_anchors, proposals
from .table import Context, Parameters, layer


class Priors:
    """The prior boxes (anchors) of each feature-map position and the step between neighbouring positions."""

    def __init__(self, p: Parameters, shape: tuple[int, ...], image: tuple[int, ...]):
        self.height, self.width = shape[2:]
        size = p.int("img_size", 0)
        self.image = (p.int("img_h", size) or image[2], p.int("img_w", size) or image[3])
        step = p.float("step", 0.0)
        steps = (p.float("step_h", step), p.float("step_w", step))
        self.steps = [s or i / f for s, i, f in zip(steps, self.image, (self.height, self.width))]
        self.offset, self.clip = p.float("offset", 0.5), p.bool("clip", False)
        self.sizes = self._sizes(p)
        if min(self.image) < 1 or min(self.steps) <= 0:
            raise TVMError(f"PriorBox: image size {self.image} and step {self.steps} must be positive")

    def _sizes(self, p: Parameters) -> list[tuple[float, float]]:
        """Return (width, height) of the prior boxes of a position, from ``min_size``, ``max_size`` and
        ``aspect_ratio``."""
        ratios = [1.0]
        flip = p.bool("flip", True)
        for given in p.floats("aspect_ratio"):
            if given <= 0:
                raise TVMError(f"aspect_ratio {given} is not supported; it must be positive")
            for ratio in (given, 1 / given) if flip else (given,):
                if all(abs(ratio - known) >= 1e-6 for known in ratios):
                    ratios.append(ratio)
        least, greatest = p.floats("min_size"), p.floats("max_size")
        if not least or greatest and len(greatest) != len(least) or min(least) <= 0:
            raise TVMError(
                f"min_size {least} and max_size {greatest} are not supported; they must be positive and of equal length"
            )
        out = []
        for i, size in enumerate(least):
            out.append((size, size))
            if greatest:
                if greatest[i] <= size:
                    raise TVMError(f"max_size {greatest[i]} must be greater than min_size {size}")
                out.append((math.sqrt(size * greatest[i]),) * 2)
            out += [(size * math.sqrt(r), size / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
        return out

    def boxes(self) -> np.ndarray:
        """Return the corners of all prior boxes, as fractions of the image size."""
        check_count("the array of prior boxes", [self.height, self.width, len(self.sizes), 4])
        y = (np.arange(self.height) + self.offset) * self.steps[0]
        x = (np.arange(self.width) + self.offset) * self.steps[1]
        size = np.array(self.sizes)
        centre = np.stack(
            [
                np.broadcast_to(x[None, :], (self.height, self.width)),
                np.broadcast_to(y[:, None], (self.height, self.width)),
            ],
            -1,
        )[:, :, None]
        scale = np.array([self.image[1], self.image[0]], "float64")
        out = np.concatenate([(centre - size / 2) / scale, (centre + size / 2) / scale], -1)
        return np.clip(out, 0, 1) if self.clip else out


@layer("PriorBox", param="prior_box_param")
def prior_box(ctx, inputs):
    if len(inputs) != 2 or any(ctx.rank(x) != 4 for x in inputs):
        raise TVMError("PriorBox expects 2 inputs of 4 dimensions, a feature map and the network's image")
    boxes = Priors(ctx.p, *(ctx.known_shape(x) for x in inputs)).boxes().reshape(-1, 4)
    variance = ctx.p.floats("variance") or [0.1]
    if len(variance) not in (1, 4) or min(variance) <= 0:
        raise TVMError(f"variance {variance} is not supported; it must have 1 or 4 positive elements")
    rows = np.broadcast_to(np.array(variance), boxes.shape)
    return ctx.constant(np.stack([boxes.reshape(-1), rows.reshape(-1)])[None])


class Detector:
    """The parameters of a ``DetectionOutput`` layer."""

    def __init__(self, p: Parameters):
        self.classes, self.background = p.int("num_classes", 0), p.int("background_label_id", 0)
        self.least = p.float("confidence_threshold", -math.inf)
        self.kept = p.int("keep_top_k", -1)
        nms = p.inner("nms_param")
        self.overlap, self.first = nms.float("nms_threshold", 0.3), nms.int("top_k", -1)
        if nms.float("eta", 1.0) != 1:
            raise TVMError("nms_param: eta other than 1 (an adaptive overlap threshold) is not supported")
        nms.check()
        self.code = p.choice("code_type", {"1": "CORNER", "2": "CENTER_SIZE", "3": "CORNER_SIZE"}, "CORNER")
        self.encoded = p.bool("variance_encoded_in_target", False)
        if not p.bool("share_location", True):
            raise TVMError("share_location: false (separate boxes for each class) is not supported")
        if self.classes < 1 or not 0 < self.overlap <= 1 or self.background >= self.classes:
            raise TVMError(
                f"num_classes {self.classes}, background_label_id {self.background} and nms_threshold "
                f"{self.overlap} are not supported"
            )


def _decode(d: Detector, moves: RelayExpr, priors: np.ndarray) -> RelayExpr:
    """Decode the predicted box offsets relative to the prior boxes into corners of shape (batch, boxes, 4)."""
    corners, variance = (priors[i].reshape(-1, 4).astype("float64") for i in (0, 1))
    factor = np.ones_like(variance) if d.encoded else variance
    size = corners[:, 2:] - corners[:, :2]

    def real(array: np.ndarray) -> RelayExpr:
        return const(np.ascontiguousarray(array, "float32"))

    if (size <= 0).any() and d.code != "CORNER":
        raise TVMError("a prior box has zero width or height, so box offsets cannot be decoded")
    if d.code != "CENTER_SIZE":
        scale = np.tile(size, 2) if d.code == "CORNER_SIZE" else 1.0
        return relay.add(relay.multiply(moves, real(factor * scale)), real(corners))
    first = relay.strided_slice(moves, [0], [2], [1], [2])
    second = relay.strided_slice(moves, [2], [4], [1], [2])
    centre = relay.add(relay.multiply(first, real(factor[:, :2] * size)), real((corners[:, :2] + corners[:, 2:]) / 2))
    half = relay.multiply(relay.exp(relay.multiply(second, real(factor[:, 2:]))), real(size / 2))
    return relay.concatenate([relay.subtract(centre, half), relay.add(centre, half)], 2)


@layer("DetectionOutput", param="detection_output_param")
def detection_output(ctx, inputs):
    """Return detections as (image index, class, score, box corners), padded with -1."""
    if len(inputs) != 3:
        raise TVMError(f"expected 3 inputs (locations, confidences, prior boxes), got {len(inputs)}")
    d, priors = Detector(ctx.p), ctx.array(inputs[2], "the prior boxes")
    if priors.ndim != 3 or priors.shape[:2] != (1, 2) or priors.shape[2] % 4:
        raise TVMError(f"prior boxes of shape {priors.shape} are not supported; the shape must be (1, 2, 4 * boxes)")
    batch, count = ctx.known_shape(inputs[0])[0], priors.shape[2] // 4
    if math.prod(ctx.known_shape(inputs[0])) != batch * count * 4 or (
        math.prod(ctx.known_shape(inputs[1])) != batch * count * d.classes
    ):
        raise TVMError(f"{count} prior boxes do not match inputs of shapes {[ctx.known_shape(x) for x in inputs[:2]]}")
    boxes = _decode(d, relay.reshape(inputs[0], (batch, count, 4)), priors[0])
    scores = relay.transpose(relay.reshape(inputs[1], (batch, count, d.classes)), (0, 2, 1))
    kinds = [c for c in range(d.classes) if c != d.background]
    if len(kinds) < d.classes:
        scores = relay.take(scores, const(np.array(kinds, "int64")), 1)
    rows = _suppress(ctx, d, boxes, scores, (batch, len(kinds), count))
    return _keep_best(ctx, d, rows, np.array(kinds, "float32"), batch)


def _suppress(ctx: Context, d: Detector, boxes: RelayExpr, scores: RelayExpr, sizes) -> RelayExpr:
    """Apply non-maximum suppression to each class.

    Return (score, corners) of shape (batch, classes, boxes, 5); suppressed boxes have score -1.
    """
    batch, kinds, count = sizes
    first = min(d.first, count) if d.first > 0 else count
    best, places = relay.topk(scores, first, 2, "both", False, "int32")
    taken = [
        relay.take(relay.squeeze(b, [0]), relay.squeeze(p, [0]), 0)
        for b, p in zip(_split_batch(boxes, batch), _split_batch(places, batch))
    ]
    found = relay.stack(taken, 0) if batch > 1 else relay.expand_dims(taken[0], 0)
    rows = relay.concatenate([relay.expand_dims(best, 3), found], 3)
    rows = relay.reshape(rows, (batch * kinds, first, 5))
    least = d.least if d.least > -math.inf else -3e38
    valid, rows, indices = relay.vision.get_valid_counts(rows, least, -1, 0)
    rows = relay.vision.non_max_suppression(
        rows, valid, indices, -1, d.overlap, force_suppress=True, top_k=-1, coord_start=1, score_index=0, id_index=-1,
        return_indices=False, invalid_to_bottom=False,
    )  # fmt: skip
    return ctx.made(relay.reshape(rows, (batch, kinds, first, 5)))


def _split_batch(x: RelayExpr, batch: int) -> list[RelayExpr]:
    return [x] if batch == 1 else list(relay.split(x, batch, 0))


def _keep_best(ctx: Context, d: Detector, rows: RelayExpr, kinds: np.ndarray, batch: int) -> RelayExpr:
    """Select the ``keep_top_k`` best detections of all classes of an image, and add image index and class label."""
    _, classes, first, _ = ctx.known_shape(rows)
    total = classes * first
    kept = min(d.kept, total) if d.kept > 0 else total
    label = np.broadcast_to(kinds[None, :, None, None], (batch, classes, first, 1))
    number = np.broadcast_to(np.arange(batch)[:, None, None, None], label.shape)
    rows = relay.concatenate([const(np.ascontiguousarray(v, "float32")) for v in (number, label)] + [rows], 3)
    rows = relay.reshape(rows, (batch, total, 7))
    scores = relay.squeeze(relay.strided_slice(rows, [2], [3], [1], [2]), [2])
    places = relay.topk(scores, kept, 1, "indices", False, "int32")
    # topk returns detections by score; sorting their indices restores the order by class, then by score. Invalid
    # detections get the index `total`, which moves them to the end.
    good = relay.greater_equal(relay.take(relay.reshape(scores, (-1,)), _flat_index(places, batch, total)), const(0.0))
    order = relay.sort(relay.where(good, places, const(total, "int32")), 1)
    real = relay.less(order, const(total, "int32"))
    inside = _flat_index(relay.minimum(order, const(total - 1, "int32")), batch, total)
    picked = relay.take(relay.reshape(rows, (-1, 7)), inside, 0)
    out = relay.where(relay.expand_dims(real, 2), picked, const(-1.0))
    return relay.reshape(out, (1, 1, batch * kept, 7))


def _flat_index(places: RelayExpr, batch: int, total: int) -> RelayExpr:
    """Convert indices within each image to indices into the flattened batch."""
    return relay.add(places, const(np.arange(batch, dtype="int32")[:, None] * total))


def _coverage_mask(ctx: Context, first: RelayExpr, last: RelayExpr, bins: int, size: int) -> RelayExpr:
    """Return a mask of shape (regions, bins, size): 1 where a bin of a region covers a position of the axis, else 0."""
    step = relay.divide(relay.maximum(relay.subtract(last, first), ctx.like(0.1, first)), ctx.like(bins, first))
    parts, places = ctx.constant(np.arange(bins)[None]), ctx.constant(np.arange(size))
    begin = relay.floor(relay.add(relay.multiply(parts, step), first))
    end = relay.ceil(relay.add(relay.multiply(relay.add(parts, ctx.like(1, first)), step), first))
    begin, end = (relay.expand_dims(relay.clip(v, 0.0, float(size)), 2) for v in (begin, end))
    inside = relay.logical_and(relay.greater_equal(places, begin), relay.less(places, end))
    return relay.cast(inside, "float32")


@layer("PSROIPooling", param="psroi_pooling_param")
def psroi_pooling(ctx, inputs):
    """Position-sensitive ROI pooling (R-FCN): average each bin over its own group of channels."""
    if len(inputs) != 2:
        raise TVMError(f"expected 2 inputs (data, rois), got {len(inputs)}")
    x, rois = inputs
    shape, regions = ctx.known_shape(x), ctx.known_shape(rois)
    outputs, group, scale = ctx.p.int("output_dim", 0), ctx.p.int("group_size", 0), ctx.p.float("spatial_scale", 1.0)
    if len(shape) != 4 or shape[0] != 1 or regions[1:] not in ((5,), (5, 1, 1)):
        raise TVMError(f"expected data of batch size 1 and rois with 5 values each, got shapes {shape} and {regions}")
    if outputs < 1 or group < 1 or shape[1] != outputs * group * group:
        raise TVMError(f"output_dim {outputs} and group_size {group} do not match {shape[1]} channels")
    height, width = shape[2:]
    check_count("the mask of covered positions", [regions[0], group, max(height, width)])
    rois = relay.reshape(rois, (regions[0], 5))

    def edge(column: int, more: float) -> RelayExpr:
        value = relay.strided_slice(rois, [column], [column + 1], [1], [1])
        # Round half away from zero, as C's round() does.
        value = relay.multiply(relay.sign(value), relay.floor(relay.add(relay.abs(value), ctx.like(0.5, value))))
        return ctx.made(relay.multiply(relay.add(value, ctx.like(more, value)), ctx.like(scale, value)))

    rows = ctx.made(_coverage_mask(ctx, edge(2, 0.0), edge(4, 1.0), group, height))
    columns = ctx.made(_coverage_mask(ctx, edge(1, 0.0), edge(3, 1.0), group, width))
    # One batch element for each bin: its channels and image rows as a matrix, times the mask of covered columns.
    parts = relay.transpose(relay.reshape(x, (outputs, group, group, height, width)), (1, 2, 0, 3, 4))
    parts = relay.reshape(parts, (group * group, outputs * height, width))
    wide = relay.expand_dims(relay.transpose(columns, (1, 0, 2)), 0)
    wide = relay.broadcast_to(wide, (group, group, regions[0], width))
    sums = relay.nn.batch_matmul(parts, relay.reshape(wide, (group * group, regions[0], width)))
    sums = relay.reshape(sums, (group, group, outputs, height, regions[0]))
    high = relay.expand_dims(relay.expand_dims(relay.transpose(rows, (1, 2, 0)), 1), 1)
    sums = relay.sum(relay.multiply(sums, high), axis=[3])
    along, across = relay.sum(rows, axis=[2]), relay.sum(columns, axis=[2])
    counts = relay.multiply(relay.expand_dims(along, 2), relay.expand_dims(across, 1))
    return relay.divide(relay.transpose(sums, (3, 2, 0, 1)), relay.expand_dims(relay.maximum(counts, const(1.0)), 1))


# -- region proposals -------------------------------------------------------------------------------------------------

_PYTHON = re.compile(r"'(\w+)':\s*(\[[\d.,\s]*\]|[\d.]+)")


def _regions(ctx: Context, inputs: list[RelayExpr], cells: np.ndarray, stride: int, rule: Rule) -> list[RelayExpr]:
    if len(inputs) != 3:
        raise TVMError(f"expected 3 inputs (scores, box offsets, image info), got {len(inputs)}")
    shapes = [ctx.known_shape(x) for x in inputs]
    count = len(cells)
    height, width = shapes[0][-2:] if len(shapes[0]) == 4 else (0, 0)
    if shapes[0] != (1, 2 * count, height, width) or shapes[1] != (1, 4 * count, height, width):
        raise TVMError(
            f"scores of shape {shapes[0]} and box offsets of shape {shapes[1]} do not match {count} anchors "
            "and one image"
        )
    if shapes[2] not in ((1, 3), (3,), (1, 3, 1, 1)) or stride < 1:
        raise TVMError(f"image info of shape {shapes[2]} with feat_stride {stride} is not supported")
    scores = relay.transpose(relay.strided_slice(inputs[0], [count], [2 * count], [1], [1]), (0, 2, 3, 1))
    moves = relay.transpose(relay.reshape(inputs[1], (count, 4, height, width)), (2, 3, 0, 1))
    best, boxes, _ = proposals(
        ctx,
        ctx.made(relay.reshape(scores, (-1,))),
        relay.reshape(moves, (-1, 4)),
        anchors_of(cells, height, width, stride),
        relay.reshape(inputs[2], (3,)),
        rule,
    )
    rois = relay.nn.pad(boxes, ((0, 0), (1, 0)), 0.0)
    return [rois, relay.reshape(best, (rule.after, 1))][: len(ctx.layer.tops)]


@layer("Proposal", param="proposal_param")
def proposal(ctx, inputs):
    """Return region proposals (Faster R-CNN, R-FCN) as (image index 0, box corners in pixels)."""
    p = ctx.p
    base, ratios, scales = p.int("base_size", 16), p.floats("ratio") or [0.5, 1.0, 2.0], p.floats("scale")
    if base < 1 or min([*ratios, *scales]) <= 0:
        raise TVMError(f"anchors of base_size {base}, ratios {ratios} and scales {scales} are not supported")
    rule = Rule(
        p.int("pre_nms_topn", 6000), p.int("post_nms_topn", 300), p.float("nms_thresh", 0.7), p.float("min_size", 16.0)
    )
    cells = cell_anchors(base, ratios, scales or [8.0, 16.0, 32.0])
    return _regions(ctx, inputs, cells, p.int("feat_stride", 16), rule)


@layer("Python", param="python_param")
def python(ctx, inputs):
    """Convert a ``Python`` layer named ``ProposalLayer``.

    The importer executes no Python code, so that other Python layers are rejected.
    """
    name, text = ctx.p.text("layer", ""), ctx.p.text("param_str", "")
    ctx.p.text("module", "")
    if name != "ProposalLayer":
        raise TVMError(f"Python layer '{name[:40]}' is not supported; only ProposalLayer is")
    known = dict(_PYTHON.findall(text))
    if set(known) - {"feat_stride", "scales"} or _PYTHON.sub("", text).strip(" {},\n"):
        raise TVMError(f"param_str {text[:60]!r} is not supported; only feat_stride and scales may be set")
    scales = [float(v) for v in re.findall(r"[\d.]+", known.get("scales", "8, 16, 32"))]
    if not scales or min(scales) <= 0:
        raise TVMError(f"scales {scales} are not supported; they must be positive")
    cells = cell_anchors(16, [0.5, 1.0, 2.0], scales)
    return _regions(ctx, inputs, cells, int(known.get("feat_stride", 16)), Rule(6000, 300, 0.7, 16.0))
