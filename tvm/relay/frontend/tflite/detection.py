"""The converter of the post-processing of detectors: decoding of boxes and non-maximum suppression."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .flexbuffer import number_map
from .table import Context, op


def _decoded(x: RelayExpr, anchors: RelayExpr, scales: list[float]) -> list[RelayExpr]:
    """Decode boxes, given by centers and sizes relative to anchors, to minimum and maximum y and x, as columns."""
    y, x_, h, w = relay.split(relay.divide(x, const(np.array(scales, "float32"))), 4, 2)
    anchor_y, anchor_x, anchor_h, anchor_w = relay.split(relay.expand_dims(anchors, 0), 4, 2)
    centre_y = relay.add(relay.multiply(y, anchor_h), anchor_y)
    centre_x = relay.add(relay.multiply(x_, anchor_w), anchor_x)
    half_h = relay.multiply(relay.multiply(const(0.5), relay.exp(h)), anchor_h)
    half_w = relay.multiply(relay.multiply(const(0.5), relay.exp(w)), anchor_w)
    return [relay.subtract(centre_y, half_h), relay.subtract(centre_x, half_w), relay.add(centre_y, half_h),
            relay.add(centre_x, half_w)]  # fmt: skip


def _options(ctx: Context) -> dict[str, float]:
    found = number_map(ctx.node.custom_options)
    names = ("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold")
    missing = [n for n in (*names, "y_scale", "x_scale", "h_scale", "w_scale") if n not in found]
    if missing:
        raise TVMError(f"the custom option '{missing[0]}' is missing")
    if found.get("max_classes_per_detection", 1) != 1 and not found.get("use_regular_nms", 0):
        raise TVMError("max_classes_per_detection above 1 is supported only with use_regular_nms")
    if not 0 < found["max_detections"] < 1 << 20 or not all(found[f"{n}_scale"] for n in "yxhw"):
        raise TVMError(f"max_detections {found['max_detections']} is out of range, or a scale is 0")
    return found


@op("CUSTOM TFLite_Detection_PostProcess")
def detection(ctx, inputs, options):
    found = _options(ctx)
    encoded, scores, anchors = inputs[:3]
    batch, count, width = ctx.known_shape(encoded)
    classes = ctx.known_shape(scores)[2]
    skipped = classes - int(found["num_classes"])
    if batch != 1 or width < 4 or skipped < 0 or ctx.known_shape(anchors) != (count, 4):
        raise TVMError(
            f"{count} boxes of {batch} images with {classes} classes do not match the anchors or the options"
        )
    encoded = encoded if width == 4 else relay.strided_slice(encoded, [0], [4], [1], [2])
    scores = relay.strided_slice(scores, [skipped], [classes], [1], [2]) if skipped else scores
    corners = _decoded(encoded, anchors, [found[f"{name}_scale"] for name in "yxhw"])
    # Scores equal to the threshold are kept.
    least = float(np.nextafter(np.float32(found["nms_score_threshold"]), np.float32(-np.inf)))
    most = int(found["max_detections"])
    if found.get("use_regular_nms", 0):
        return _by_class(corners, scores, most, int(found.get("detections_per_class", 100)), least, found)
    best = relay.max(scores, axis=2, keepdims=True)
    kind = relay.cast(relay.argmax(scores, axis=2, keepdims=True), "float32")
    rows = relay.concatenate([kind, best, *corners], 2)
    valid, rows, places = relay.vision.get_valid_counts(rows, least, 0, 1)
    rows = relay.vision.non_max_suppression(
        rows, valid, places, most, float(found["nms_iou_threshold"]), force_suppress=True, top_k=-1, coord_start=2,
        score_index=1, id_index=0, return_indices=False, invalid_to_bottom=True,
    )  # fmt: skip
    return _outputs(rows, count, most)


def _by_class(corners: list[RelayExpr], scores: RelayExpr, most: int, each: int, least: float, found: dict) -> list:
    """Select the best boxes by separate non-maximum suppression for each class."""
    boxes = relay.concatenate(corners, 2)
    chosen, values, number = relay.vision.all_class_non_max_suppression(
        boxes, relay.transpose(scores, [0, 2, 1]), const(each, "int64"), const(np.float32(found["nms_iou_threshold"])),
        const(np.float32(least)), "tensorflow",
    )  # fmt: skip
    count = relay.minimum(relay.cast(number, "int32"), const(most, "int32"))
    kind, place = (relay.reshape(relay.strided_slice(chosen, [i], [i + 1], [1], [2]), (-1,)) for i in (0, 1))
    valid = relay.less(const(np.arange(most, dtype="int32")), count)
    # There can be fewer candidates than output rows.
    at = relay.where(valid, const(np.arange(most, dtype="int32")), const(0, "int32"))
    rows = relay.take(relay.squeeze(boxes, [0]), relay.take(place, at), 0)
    kinds, shown = relay.cast(relay.take(kind, at), "float32"), relay.take(relay.reshape(values, (-1,)), at)
    results = [
        relay.where(relay.expand_dims(valid, 1), rows, const(0.0)),
        *(relay.where(valid, v, const(0.0)) for v in (kinds, shown)),
    ]
    return [*(relay.expand_dims(r, 0) for r in results), relay.reshape(relay.cast(count, "float32"), (1,))]


def _outputs(rows: RelayExpr, count: int, most: int) -> list[RelayExpr]:
    """Return the boxes, classes, scores and their number; unused rows are zeros."""
    rows = relay.strided_slice(rows, [0], [min(count, most)], [1], [1])
    rows = rows if count >= most else relay.nn.pad(rows, ((0, 0), (0, most - count), (0, 0)), const(-1.0))
    is_one = relay.greater_equal(relay.strided_slice(rows, [0], [1], [1], [2]), const(0.0))
    rows = relay.where(is_one, rows, const(0.0))
    kind, score = (relay.squeeze(relay.strided_slice(rows, [i], [i + 1], [1], [2]), [2]) for i in (0, 1))
    number = relay.sum(relay.cast(is_one, "float32"), axis=(1, 2))
    return [relay.strided_slice(rows, [2], [6], [1], [2]), kind, score, number]
