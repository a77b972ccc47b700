"""Converters of single-shot detectors: boxes around every place, and the best of those that a network moved."""

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
    """The boxes around one place, and how far places are apart."""

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
            raise TVMError(f"an image of {self.image} with steps of {self.steps} is not supported")

    def _sizes(self, p: Parameters) -> list[tuple[float, float]]:
        """Width and height of each box: of the least size, between it and the greatest, and of other ratios."""
        ratios = [1.0]
        flip = p.bool("flip", True)
        for given in p.floats("aspect_ratio"):
            if given <= 0:
                raise TVMError(f"aspect_ratio {given} is not supported")
            for ratio in (given, 1 / given) if flip else (given,):
                if all(abs(ratio - known) >= 1e-6 for known in ratios):
                    ratios.append(ratio)
        least, greatest = p.floats("min_size"), p.floats("max_size")
        if not least or greatest and len(greatest) != len(least) or min(least) <= 0:
            raise TVMError(f"min_size {least} and max_size {greatest} are not supported")
        out = []
        for i, size in enumerate(least):
            out.append((size, size))
            if greatest:
                if greatest[i] <= size:
                    raise TVMError(f"max_size {greatest[i]} is not above min_size {size}")
                out.append((math.sqrt(size * greatest[i]),) * 2)
            out += [(size * math.sqrt(r), size / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
        return out

    def boxes(self) -> np.ndarray:
        """Corners of all boxes, in parts of the image."""
        check_count("the boxes", [self.height, self.width, len(self.sizes), 4])
        y = (np.arange(self.height) + self.offset) * self.steps[0]
        x = (np.arange(self.width) + self.offset) * self.steps[1]
        size = np.array(self.sizes)
        centre = np.stack([np.broadcast_to(x[None, :], (self.height, self.width)),
                           np.broadcast_to(y[:, None], (self.height, self.width))], -1)[:, :, None]
        scale = np.array([self.image[1], self.image[0]], "float64")
        out = np.concatenate([(centre - size / 2) / scale, (centre + size / 2) / scale], -1)
        return np.clip(out, 0, 1) if self.clip else out


@layer("PriorBox", param="prior_box_param")
def prior_box(ctx, inputs):
    if len(inputs) != 2 or any(ctx.rank(x) != 4 for x in inputs):
        raise TVMError("two inputs are wanted, a value and the image that the network takes")
    boxes = Priors(ctx.p, *(ctx.known_shape(x) for x in inputs)).boxes().reshape(-1, 4)
    variance = ctx.p.floats("variance") or [0.1]
    if len(variance) not in (1, 4) or min(variance) <= 0:
        raise TVMError(f"variance {variance} is not supported; it has 1 or 4 positive numbers")
    rows = np.broadcast_to(np.array(variance), boxes.shape)
    return ctx.constant(np.stack([boxes.reshape(-1), rows.reshape(-1)])[None])


class Detector:
    """The parameters of the last layer of a detector."""

    def __init__(self, p: Parameters):
        self.classes, self.background = p.int("num_classes", 0), p.int("background_label_id", 0)
        self.least = p.float("confidence_threshold", -math.inf)
        self.kept = p.int("keep_top_k", -1)
        nms = p.inner("nms_param")
        self.overlap, self.first = nms.float("nms_threshold", 0.3), nms.int("top_k", -1)
        if nms.float("eta", 1.0) != 1:
            raise TVMError("eta other than 1, a threshold that changes, is not supported")
        nms.check()
        self.code = p.choice("code_type", {"1": "CORNER", "2": "CENTER_SIZE", "3": "CORNER_SIZE"}, "CORNER")
        self.encoded = p.bool("variance_encoded_in_target", False)
        if not p.bool("share_location", True):
            raise TVMError("boxes of their own for each class (share_location: false) are not supported")
        if self.classes < 1 or not 0 < self.overlap <= 1 or self.background >= self.classes:
            raise TVMError(f"num_classes {self.classes}, background_label_id {self.background} and nms_threshold "
                           f"{self.overlap} are not supported")


def _decoded(d: Detector, moves: RelayExpr, priors: np.ndarray) -> RelayExpr:
    """Corners of the boxes that a network moved: (batch, boxes, 4)."""
    corners, variance = (priors[i].reshape(-1, 4).astype("float64") for i in (0, 1))
    factor = np.ones_like(variance) if d.encoded else variance
    size = corners[:, 2:] - corners[:, :2]

    def real(array: np.ndarray) -> RelayExpr:
        return const(np.ascontiguousarray(array, "float32"))

    if (size <= 0).any() and d.code != "CORNER":
        raise TVMError("a prior box has no width or no height")
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
    """Rows of the picture's number, the class, its probability and the corners of the box."""
    if len(inputs) != 3:
        raise TVMError(f"three inputs are wanted, got {len(inputs)}")
    d, priors = Detector(ctx.p), ctx.array(inputs[2], "the prior boxes")
    if priors.ndim != 3 or priors.shape[:2] != (1, 2) or priors.shape[2] % 4:
        raise TVMError(f"prior boxes of shape {priors.shape} are not supported")
    batch, count = ctx.known_shape(inputs[0])[0], priors.shape[2] // 4
    if math.prod(ctx.known_shape(inputs[0])) != batch * count * 4 or (
        math.prod(ctx.known_shape(inputs[1])) != batch * count * d.classes
    ):
        raise TVMError(f"{count} prior boxes do not fit values of shapes {[ctx.known_shape(x) for x in inputs[:2]]}")
    boxes = _decoded(d, relay.reshape(inputs[0], (batch, count, 4)), priors[0])
    scores = relay.transpose(relay.reshape(inputs[1], (batch, count, d.classes)), (0, 2, 1))
    kinds = [c for c in range(d.classes) if c != d.background]
    if len(kinds) < d.classes:
        scores = relay.take(scores, const(np.array(kinds, "int64")), 1)
    rows = _suppressed(ctx, d, boxes, scores, (batch, len(kinds), count))
    return _kept(ctx, d, rows, np.array(kinds, "float32"), batch)


def _suppressed(ctx: Context, d: Detector, boxes: RelayExpr, scores: RelayExpr, sizes) -> RelayExpr:
    """The best boxes of each class that do not overlap a better one, the others with a score of -1: (batch, classes,
    boxes, 5)."""
    batch, kinds, count = sizes
    first = min(d.first, count) if d.first > 0 else count
    best, places = relay.topk(scores, first, 2, "both", False, "int32")
    taken = [relay.take(relay.squeeze(b, [0]), relay.squeeze(p, [0]), 0)
             for b, p in zip(_each(boxes, batch), _each(places, batch))]
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


def _each(x: RelayExpr, batch: int) -> list[RelayExpr]:
    return [x] if batch == 1 else list(relay.split(x, batch, 0))


def _kept(ctx: Context, d: Detector, rows: RelayExpr, kinds: np.ndarray, batch: int) -> RelayExpr:
    """The best rows of all classes, class by class, with the number of the picture."""
    _, classes, first, _ = ctx.known_shape(rows)
    total = classes * first
    kept = min(d.kept, total) if d.kept > 0 else total
    label = np.broadcast_to(kinds[None, :, None, None], (batch, classes, first, 1))
    number = np.broadcast_to(np.arange(batch)[:, None, None, None], label.shape)
    rows = relay.concatenate([const(np.ascontiguousarray(v, "float32")) for v in (number, label)] + [rows], 3)
    rows = relay.reshape(rows, (batch, total, 7))
    scores = relay.squeeze(relay.strided_slice(rows, [2], [3], [1], [2]), [2])
    places = relay.topk(scores, kept, 1, "indices", False, "int32")
    # Classes come in order, and within one the most probable first: as they lie. What is no detection goes to the end.
    good = relay.greater_equal(relay.take(relay.reshape(scores, (-1,)), _flat(places, batch, total)), const(0.0))
    order = relay.sort(relay.where(good, places, const(total, "int32")), 1)
    real = relay.less(order, const(total, "int32"))
    inside = _flat(relay.minimum(order, const(total - 1, "int32")), batch, total)
    picked = relay.take(relay.reshape(rows, (-1, 7)), inside, 0)
    out = relay.where(relay.expand_dims(real, 2), picked, const(-1.0))
    return relay.reshape(out, (1, 1, batch * kept, 7))


def _flat(places: RelayExpr, batch: int, total: int) -> RelayExpr:
    """Places within each picture as places within all."""
    return relay.add(places, const(np.arange(batch, dtype="int32")[:, None] * total))


def _covered(ctx: Context, first: RelayExpr, last: RelayExpr, bins: int, size: int) -> RelayExpr:
    """Which places of an axis the parts of a region cover: 1 or 0 for each region, part and place."""
    step = relay.divide(relay.maximum(relay.subtract(last, first), ctx.like(0.1, first)), ctx.like(bins, first))
    parts, places = ctx.constant(np.arange(bins)[None]), ctx.constant(np.arange(size))
    begin = relay.floor(relay.add(relay.multiply(parts, step), first))
    end = relay.ceil(relay.add(relay.multiply(relay.add(parts, ctx.like(1, first)), step), first))
    begin, end = (relay.expand_dims(relay.clip(v, 0.0, float(size)), 2) for v in (begin, end))
    inside = relay.logical_and(relay.greater_equal(places, begin), relay.less(places, end))
    return relay.cast(inside, "float32")


@layer("PSROIPooling", param="psroi_pooling_param")
def psroi_pooling(ctx, inputs):
    """Means over the parts of regions, where each part has channels of its own (R-FCN)."""
    if len(inputs) != 2:
        raise TVMError(f"two inputs are wanted, got {len(inputs)}")
    x, rois = inputs
    shape, regions = ctx.known_shape(x), ctx.known_shape(rois)
    outputs, group, scale = ctx.p.int("output_dim", 0), ctx.p.int("group_size", 0), ctx.p.float("spatial_scale", 1.0)
    if len(shape) != 4 or shape[0] != 1 or regions[1:] not in ((5,), (5, 1, 1)):
        raise TVMError(f"one image and regions of five numbers are wanted, got {shape} and {regions}")
    if outputs < 1 or group < 1 or shape[1] != outputs * group * group:
        raise TVMError(f"output_dim {outputs} and group_size {group} do not fit {shape[1]} channels")
    height, width = shape[2:]
    check_count("the places that regions cover", [regions[0], group, max(height, width)])
    rois = relay.reshape(rois, (regions[0], 5))

    def edge(column: int, more: float) -> RelayExpr:
        value = relay.strided_slice(rois, [column], [column + 1], [1], [1])
        # Halves are rounded away from zero, as C does it.
        value = relay.multiply(relay.sign(value), relay.floor(relay.add(relay.abs(value), ctx.like(0.5, value))))
        return ctx.made(relay.multiply(relay.add(value, ctx.like(more, value)), ctx.like(scale, value)))

    rows = ctx.made(_covered(ctx, edge(2, 0.0), edge(4, 1.0), group, height))
    columns = ctx.made(_covered(ctx, edge(1, 0.0), edge(3, 1.0), group, width))
    # A batch for each part: its channels by rows of the image, times the columns that regions cover.
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


# -- regions that a network proposes ----------------------------------------------------------------------------------

_PYTHON = re.compile(r"'(\w+)':\s*(\[[\d.,\s]*\]|[\d.]+)")


def _regions(ctx: Context, inputs: list[RelayExpr], cells: np.ndarray, stride: int, rule: Rule) -> list[RelayExpr]:
    if len(inputs) != 3:
        raise TVMError(f"scores, moves and the size of the image are wanted, got {len(inputs)} inputs")
    shapes = [ctx.known_shape(x) for x in inputs]
    count = len(cells)
    height, width = shapes[0][-2:] if len(shapes[0]) == 4 else (0, 0)
    if shapes[0] != (1, 2 * count, height, width) or shapes[1] != (1, 4 * count, height, width):
        raise TVMError(f"scores of {shapes[0]} and moves of {shapes[1]} do not fit {count} anchors and one image")
    if shapes[2] not in ((1, 3), (3,), (1, 3, 1, 1)) or stride < 1:
        raise TVMError(f"the size of the image has shape {shapes[2]}, and feat_stride is {stride}")
    scores = relay.transpose(relay.strided_slice(inputs[0], [count], [2 * count], [1], [1]), (0, 2, 3, 1))
    moves = relay.transpose(relay.reshape(inputs[1], (count, 4, height, width)), (2, 3, 0, 1))
    best, boxes, _ = proposals(ctx, ctx.made(relay.reshape(scores, (-1,))), relay.reshape(moves, (-1, 4)),
                            anchors_of(cells, height, width, stride), relay.reshape(inputs[2], (3,)), rule)
    rois = relay.nn.pad(boxes, ((0, 0), (1, 0)), 0.0)
    return [rois, relay.reshape(best, (rule.after, 1))][: len(ctx.layer.tops)]


@layer("Proposal", param="proposal_param")
def proposal(ctx, inputs):
    """The regions of Faster R-CNN and R-FCN: the number of the image, which is 0, and corners in pixels."""
    p = ctx.p
    base, ratios, scales = p.int("base_size", 16), p.floats("ratio") or [0.5, 1.0, 2.0], p.floats("scale")
    if base < 1 or min([*ratios, *scales]) <= 0:
        raise TVMError(f"anchors of base_size {base}, ratios {ratios} and scales {scales} are not supported")
    rule = Rule(p.int("pre_nms_topn", 6000), p.int("post_nms_topn", 300), p.float("nms_thresh", 0.7),
                p.float("min_size", 16.0))
    cells = cell_anchors(base, ratios, scales or [8.0, 16.0, 32.0])
    return _regions(ctx, inputs, cells, p.int("feat_stride", 16), rule)


@layer("Python", param="python_param")
def python(ctx, inputs):
    """A layer that is a program of its own: of those, the one that proposes regions is known by its name, and nothing
    is executed."""
    name, text = ctx.p.text("layer", ""), ctx.p.text("param_str", "")
    ctx.p.text("module", "")
    if name != "ProposalLayer":
        raise TVMError(f"a layer that is a program in Python ('{name[:40]}') is not executed; ProposalLayer is known")
    known = dict(_PYTHON.findall(text))
    if set(known) - {"feat_stride", "scales"} or _PYTHON.sub("", text).strip(" {},\n"):
        raise TVMError(f"param_str {text[:60]!r} is not supported; it has feat_stride and scales")
    scales = [float(v) for v in re.findall(r"[\d.]+", known.get("scales", "8, 16, 32"))]
    if not scales or min(scales) <= 0:
        raise TVMError(f"scales {scales} are not supported")
    cells = cell_anchors(16, [0.5, 1.0, 2.0], scales)
    return _regions(ctx, inputs, cells, int(known.get("feat_stride", 16)), Rule(6000, 300, 0.7, 16.0))
