"""Converters of object detection operators: box decoding, anchors, non-maximum suppression."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from .table import Context, check_count, check_steps, op


def _column(ctx: Context, e: RelayExpr, index: int) -> RelayExpr:
    """Return one element of the last axis."""
    return relay.take(e, const(index, "int64"), ctx.rank(e) - 1)


@op("yolo_box")
def yolo_box(ctx):
    """Decode the boxes and scores of a YOLO layer. Both are zero for boxes with an objectness below the threshold."""
    x, sizes = ctx.get("X"), ctx.get("ImgSize")
    anchors, classes = ctx.attr("anchors", []), ctx.attr("class_num", 1)
    count, aware = len(anchors) // 2, ctx.attr("iou_aware", False)
    n, channels, h, w = ctx.known_shape(x)
    if count < 1 or len(anchors) % 2 or channels != count * (5 + classes + bool(aware)):
        raise TVMError(f"{channels} channels do not match {count} anchors with {classes} classes")
    if aware:
        overlap = relay.sigmoid(relay.strided_slice(x, [0], [count], [1], [1]))
        x = relay.strided_slice(x, [count], [channels], [1], [1])
    parts = ctx.made(relay.reshape(x, (n, count, 5 + classes, h, w)))

    def field(i: int) -> RelayExpr:
        return relay.take(parts, const(i, "int64"), 2)

    likely = relay.sigmoid(field(4))
    if aware:
        factor = ctx.attr("iou_aware_factor", 0.5)
        likely = relay.multiply(relay.power(likely, ctx.like(1.0 - factor, x)),
                                relay.power(overlap, ctx.like(factor, x)))  # fmt: skip
    likely = ctx.made(likely)
    hit = ctx.made(relay.greater_equal(likely, ctx.like(ctx.attr("conf_thresh", 0.01), x)))
    boxes = _cells(ctx, field, relay.cast(sizes, ctx.dtype(x)), (h, w), anchors)
    boxes = relay.multiply(boxes, relay.cast(relay.expand_dims(hit, 4), ctx.dtype(x)))
    scores = relay.sigmoid(relay.strided_slice(parts, [5], [5 + classes], [1], [2]))
    kept = relay.multiply(likely, relay.cast(hit, ctx.dtype(x)))
    scores = relay.transpose(relay.multiply(scores, relay.expand_dims(kept, 2)), (0, 1, 3, 4, 2))
    rows = count * h * w
    return {"Boxes": relay.reshape(boxes, (n, rows, 4)), "Scores": relay.reshape(scores, (n, rows, classes))}


def _cells(ctx: Context, field, image: RelayExpr, grid: tuple[int, int], anchors: list[int]) -> RelayExpr:
    """Return the corners of the boxes in pixels of the image."""
    stretch, ratio = float(ctx.attr("scale_x_y", 1.0)), ctx.attr("downsample_ratio", 32)
    ends = []
    for axis, size in ((1, grid[1]), (0, grid[0])):
        whole = relay.reshape(_column(ctx, image, axis), (-1, 1, 1, 1))
        at = np.arange(size, dtype="float32").reshape((1, 1, 1, -1) if axis else (1, 1, -1, 1))
        own = np.array(anchors[1 - axis :: 2], "float32").reshape(1, -1, 1, 1)
        moved = relay.add(relay.multiply(relay.sigmoid(field(1 - axis)), const(stretch)), const(-0.5 * (stretch - 1.0)))
        middle = relay.multiply(relay.add(moved, const(at)), relay.divide(whole, const(float(size))))
        part = relay.multiply(relay.exp(field(3 - axis)), const(own / np.float32(ratio * size)))
        half = relay.multiply(relay.multiply(part, whole), const(0.5))
        low, high = relay.subtract(middle, half), relay.add(middle, half)
        if ctx.attr("clip_bbox", True):
            low = relay.maximum(low, const(0.0))
            high = relay.minimum(high, relay.subtract(whole, const(1.0)))
        ends.append((low, high))
    (left, right), (top, bottom) = ends
    return ctx.made(relay.stack([left, top, right, bottom], 4))


# -- anchors, computed at compile time --------------------------------------------------------------------------------


def _with_variances(ctx: Context, boxes: np.ndarray, first: str, second: str) -> dict:
    variances = ctx.attr("variances", [0.1, 0.1, 0.2, 0.2])
    if len(variances) != 4:
        raise TVMError(f"expected 4 variances, got {variances}")
    spread = np.broadcast_to(np.array(variances, "float32"), boxes.shape)
    return {first: Constant(boxes.astype("float32")), second: Constant(np.ascontiguousarray(spread))}


def _ratios(ctx: Context) -> list[float]:
    """Return the distinct aspect ratios, starting with 1."""
    out = [1.0]
    for ratio in ctx.attr("aspect_ratios", []):
        if ratio <= 0:
            raise TVMError(f"aspect ratio {ratio} is not supported; it must be positive")
        if all(abs(ratio - r) > 1e-6 for r in out):
            out += [ratio, 1.0 / ratio] if ctx.attr("flip", True) else [ratio]
    return out


@op("prior_box")
def prior_box(ctx):
    height, width = ctx.spatial(ctx.get("Input"))
    image_h, image_w = ctx.spatial(ctx.get("Image"))
    least, most = ctx.attr("min_sizes", []), ctx.attr("max_sizes", [])
    if most and len(most) != len(least):
        raise TVMError(f"{len(most)} max_sizes do not match {len(least)} min_sizes")
    sizes = []
    for i, low in enumerate(least):
        middle = [(math.sqrt(low * most[i]),) * 2] if most else []
        every = [(low * math.sqrt(r), low / math.sqrt(r)) for r in _ratios(ctx)]
        sizes += [every[0], *middle, *every[1:]] if ctx.attr("min_max_aspect_ratios_order", False) else every + middle
    check_count("the prior boxes", [height, width, len(sizes), 4])
    step_w, step_h = ctx.attr("step_w", 0.0) or image_w / width, ctx.attr("step_h", 0.0) or image_h / height
    at_x = (np.arange(width) + ctx.attr("offset", 0.5)) * step_w
    at_y = (np.arange(height) + ctx.attr("offset", 0.5)) * step_h
    half = np.array(sizes).reshape(-1, 2) / 2.0
    x, y = at_x[None, :, None], at_y[:, None, None]
    ends = [
        (x - half[:, 0]) / image_w,
        (y - half[:, 1]) / image_h,
        (x + half[:, 0]) / image_w,
        (y + half[:, 1]) / image_h,
    ]
    boxes = np.stack([np.broadcast_to(e, (height, width, len(sizes))) for e in ends], 3)
    return _with_variances(ctx, np.clip(boxes, 0, 1) if ctx.attr("clip", True) else boxes, "Boxes", "Variances")


@op("anchor_generator")
def anchor_generator(ctx):
    height, width = ctx.spatial(ctx.get("Input"))
    stride, offset = ctx.attr("stride", [16.0, 16.0]), ctx.attr("offset", 0.5)
    ratios, sizes = ctx.attr("aspect_ratios", [1.0]), ctx.attr("anchor_sizes", [])
    if len(stride) != 2 or min([*stride, *ratios, 1]) <= 0:
        raise TVMError(f"strides {stride} and aspect ratios {ratios} are not supported; all must be positive")
    check_count("the anchors", [height, width, len(ratios) * len(sizes), 4])
    rows = []
    for ratio in ratios:
        base_w = math.floor(math.sqrt(stride[0] * stride[1] / ratio) + 0.5)
        base_h = math.floor(base_w * ratio + 0.5)
        rows += [(s / stride[0] * base_w, s / stride[1] * base_h) for s in sizes]
    half = (np.array(rows).reshape(-1, 2) - 1) * 0.5
    x = (np.arange(width) * stride[0] + offset * (stride[0] - 1))[None, :, None]
    y = (np.arange(height) * stride[1] + offset * (stride[1] - 1))[:, None, None]
    ends = [x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1]]
    boxes = np.stack([np.broadcast_to(e, (height, width, len(rows))) for e in ends], 3)
    return _with_variances(ctx, boxes, "Anchors", "Variances")


# -- box encoding and decoding ----------------------------------------------------------------------------------------


def _middles(ctx: Context, boxes: RelayExpr, more: float) -> list[RelayExpr]:
    """Convert boxes given by corners to center and size: x, y, width, height."""
    left, top, right, bottom = (_column(ctx, boxes, i) for i in range(4))
    w, h = (relay.add(relay.subtract(b, a), const(more)) for a, b in ((left, right), (top, bottom)))
    return [relay.add(left, relay.multiply(w, const(0.5))), relay.add(top, relay.multiply(h, const(0.5))), w, h]


@op("box_coder")
def box_coder(ctx):
    prior, given, target = ctx.get("PriorBox"), ctx.maybe("PriorBoxVar"), ctx.get("TargetBox")
    more = 0.0 if ctx.attr("box_normalized", True) else 1.0
    kind, own = ctx.attr("code_type", "encode_center_size").lower(), ctx.attr("variance", [])
    encode = kind in ("encode_center_size", "encodecentersize")
    if not encode and kind not in ("decode_center_size", "decodecentersize"):
        raise TVMError(f"the attribute 'code_type' must be encode_center_size or decode_center_size, got {kind!r}")
    axis = 0 if encode else ctx.attr("axis", 0)
    if axis not in (0, 1) or own and len(own) != 4:
        raise TVMError(f"axis {axis} with variance {own} is not supported")
    place = 0 if axis == 0 else 1
    priors = [relay.expand_dims(v, place) for v in _middles(ctx, prior, more)]
    if given is not None:
        spread = [relay.expand_dims(_column(ctx, given, i), place) for i in range(4)]
    else:
        spread = [const(float(v)) for v in own or [1.0] * 4]
    if encode:
        return {"OutputBox": _encoded(ctx, target, priors, spread)}
    moves = [relay.multiply(_column(ctx, target, i), spread[i]) for i in range(4)]
    ends = []
    for i in (0, 1):
        middle = relay.add(relay.multiply(moves[i], priors[2 + i]), priors[i])
        half = relay.multiply(relay.multiply(relay.exp(moves[2 + i]), priors[2 + i]), const(0.5))
        ends.append((relay.subtract(middle, half), relay.subtract(relay.add(middle, half), const(more))))
    return {"OutputBox": relay.stack([ends[0][0], ends[1][0], ends[0][1], ends[1][1]], 2)}


def _encoded(ctx: Context, target: RelayExpr, priors: list, spread: list) -> RelayExpr:
    left, top, right, bottom = (relay.expand_dims(_column(ctx, target, i), 1) for i in range(4))
    more = 0.0 if ctx.attr("box_normalized", True) else 1.0
    rows = []
    for i, (low, high) in enumerate(((left, right), (top, bottom))):
        middle = relay.multiply(relay.add(low, high), const(0.5))
        rows.append(relay.divide(relay.divide(relay.subtract(middle, priors[i]), priors[2 + i]), spread[i]))
    for i, (low, high) in enumerate(((left, right), (top, bottom))):
        size = relay.add(relay.subtract(high, low), const(more))
        rows.append(relay.divide(relay.log(relay.abs(relay.divide(size, priors[2 + i]))), spread[2 + i]))
    return relay.stack(rows, 2)


# -- non-maximum suppression ------------------------------------------------------------------------------------------


def _candidates(ctx: Context, scores: RelayExpr) -> RelayExpr:
    """Set the scores of ignored candidates to minus infinity: those of the background, and those after the top k of
    each class."""
    _, classes, count = ctx.known_shape(scores)
    background, most = ctx.attr("background_label", 0), ctx.attr("nms_top_k", -1)
    none = const(-math.inf)
    if 0 <= background < classes:
        scores = relay.where(const((np.arange(classes) == background).reshape(1, -1, 1)), none, scores)
    if 0 < most < count:
        best = relay.topk(scores, most, 2, "values")
        last = relay.strided_slice(best, [most - 1], [most], [1], [2])
        scores = relay.where(relay.less(scores, last), none, scores)
    return ctx.made(scores)


@op("multiclass_nms3", "multiclass_nms2", "multiclass_nms")
def multiclass_nms(ctx):
    """Apply non-maximum suppression.

    Return rows of (class, score, corners) by image, class and score. Their number is known only at run time.
    """
    boxes, scores = ctx.get("BBoxes"), ctx.get("Scores")
    if ctx.rank(boxes) != 3 or ctx.rank(scores) != 3 or ctx.has("RoisNum"):
        raise TVMError("separate boxes for each class are not supported")
    if ctx.attr("nms_eta", 1.0) != 1.0:
        raise TVMError("nms_eta other than 1 (an adaptive overlap threshold) is not supported")
    images, count, _ = ctx.known_shape(boxes)
    check_steps("a batch of images", images)
    # Corners in pixels are inclusive, so the box size is one larger.
    reach = [0, 0, 0, 0] if ctx.attr("normalized", True) else [0, 0, 1, 1]
    found, total = relay.vision.all_class_non_max_suppression(
        relay.add(boxes, const(np.array(reach, "float32"))),
        _candidates(ctx, scores),
        run_time.number(count),
        const(float(ctx.attr("nms_threshold", 0.3)), "float32"),
        const(float(ctx.attr("score_threshold", 0.0)), "float32"),
    )
    ends = [run_time.number([0]), run_time.vector(ctx, ctx.made(total)), run_time.number([1])]
    rows = run_time.sharpened(ctx, relay.strided_slice(found, *ends, axes=[0]), [None, 3])
    values = ctx.made(relay.gather_nd(scores, relay.transpose(rows, (1, 0))))
    kept = [_best(ctx, rows, values, i) for i in range(images)]
    counts = [relay.reshape(run_time.size_of(ctx, k, 0), (1,)) for k in kept]
    places = ctx.made(relay.concatenate(kept, 0)) if images > 1 else kept[0]
    rows, values = ctx.made(relay.take(rows, places, 0)), relay.take(values, places, 0)
    image, label, box = (ctx.made(relay.take(rows, const(i, "int64"), 1)) for i in range(3))
    index = ctx.made(relay.add(relay.multiply(image, ctx.like(count, image)), box))
    corners = relay.take(relay.reshape(boxes, (images * count, 4)), index, 0)
    columns = [relay.expand_dims(v, 1) for v in (relay.cast(label, ctx.dtype(scores)), values)]
    totals = relay.concatenate(counts, 0) if images > 1 else counts[0]
    return {"Out": relay.concatenate([*columns, corners], 1), "NmsRoisNum": relay.cast(totals, "int32"),
            "Index": relay.cast(relay.expand_dims(index, 1), "int32")}  # fmt: skip


def _best(ctx: Context, rows: RelayExpr, values: RelayExpr, image: int) -> RelayExpr:
    """Return the indices of the rows of one image in their order, limited to the ``keep_top_k`` best scores."""
    own = relay.equal(relay.take(rows, const(0, "int64"), 1), ctx.like(image, rows))
    places = ctx.made(relay.cast(relay.reshape(relay.argwhere(own), (-1,)), "int64"))
    most = ctx.attr("keep_top_k", -1)
    if most < 0:
        return places
    order = relay.argsort(relay.take(values, places, 0), 0, False, "int64")
    chosen = ctx.made(relay.strided_slice(order, [0], [most], [1], [0]))
    return ctx.made(relay.take(places, relay.sort(chosen, 0), 0))
