"""Converters of resizing and of box selection.

Along each axis, a resized element is a weighted sum of a few elements with constant indices and weights.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from ..common.resize import cubic
from ..common.suppression import soft_suppression
from .index_ops import first_rows
from .table import Context, check_count, op


def _sizes(ctx: Context, inputs: list, attrs) -> list[tuple[int, int, int]]:
    """Return (axis, size, new size) of height and width."""
    shape, wanted = ctx.shape(inputs[0]), ctx.ints(inputs[1], "the new size")
    if len(shape) != 4 or len(wanted) != 2 or min(wanted) < 1:
        raise TVMError(f"cannot resize an image of shape {list(shape)} to the size {wanted}")
    sizes = [ctx.known_size(inputs[0], axis) for axis in (1, 2)]
    if not all(sizes):
        raise TVMError("cannot resize an image of size 0")
    if attrs.get("align_corners", False) and attrs.get("half_pixel_centers", False):
        raise TVMError("align_corners and half_pixel_centers must not both be set")
    check_count("an image", wanted)
    return [(1, sizes[0], wanted[0]), (2, sizes[1], wanted[1])]


def _scale(size: int, out: int, attrs) -> np.float32:
    if attrs.get("align_corners", False) and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def _weighted(x: RelayExpr, axis: int, places: list, weights: list) -> RelayExpr:
    shape, out = [-1 if i == axis else 1 for i in range(4)], None
    for at, weight in zip(places, weights):
        if not weight.any():
            continue
        part = relay.take(x, Constant(at.astype("int32")), axis)
        part = part if (weight == 1).all() else relay.multiply(part, Constant(weight.astype("float32").reshape(shape)))
        out = part if out is None else relay.add(out, part)
    return out


def _real(ctx: Context, x: RelayExpr) -> RelayExpr:
    return x if ctx.dtype(x) == "float32" else relay.cast(x, "float32")


@op("ResizeBilinear")
def resize_bilinear(ctx, inputs, attrs):
    out = _real(ctx, inputs[0])
    for axis, size, new in _sizes(ctx, inputs, attrs):
        at = np.arange(new, dtype="float32")
        scale = _scale(size, new, attrs)
        centers = attrs.get("half_pixel_centers", False)
        at = (at + np.float32(0.5)) * scale - np.float32(0.5) if centers else at * scale
        floor = np.floor(at)
        low, high = np.maximum(floor, 0), np.minimum(np.ceil(at), size - 1)
        weight = at - floor
        out = _weighted(out, axis, [np.minimum(low, size - 1), np.maximum(high, 0)], [1 - weight, weight])
    return out


@op("ResizeNearestNeighbor")
def resize_nearest(ctx, inputs, attrs):
    out = inputs[0]
    for axis, size, new in _sizes(ctx, inputs, attrs):
        at = np.arange(new, dtype="float32")
        at = (at + np.float32(0.5 if attrs.get("half_pixel_centers", False) else 0)) * _scale(size, new, attrs)
        places = np.floor(at + np.float32(0.5)) if attrs.get("align_corners", False) else np.floor(at)
        out = relay.take(out, Constant(np.clip(places, 0, size - 1).astype("int32")), axis)
    return out


# Cubic weights are quantized to a table with this number of steps between two elements.
_STEPS = 1024


@op("ResizeBicubic")
def resize_bicubic(ctx, inputs, attrs):
    """Use the cubic coefficient -0.5 and renormalize weights at the border for half_pixel_centers, otherwise -0.75."""
    out, centers = _real(ctx, inputs[0]), attrs.get("half_pixel_centers", False)
    a = -0.5 if centers else -0.75
    for axis, size, new in _sizes(ctx, inputs, attrs):
        scale = _scale(size, new, attrs)
        at = np.arange(new, dtype="float32")
        at = (at + np.float32(0.5)) * scale - np.float32(0.5) if centers else at * scale
        floor = np.floor(at)
        fraction = np.rint((at - floor) * _STEPS) / _STEPS
        places = [floor + k for k in (-1, 0, 1, 2)]
        weights = [cubic(np.abs(k - fraction), a) for k in (-1, 0, 1, 2)]
        if centers:
            weights = [np.where((p >= 0) & (p < size), w, 0) for p, w in zip(places, weights)]
            total = np.maximum(np.abs(np.sum(weights, 0)), 1000 * np.finfo("float32").tiny)
            weights = [w / total for w in weights]
        out = _weighted(out, axis, [np.clip(p, 0, size - 1) for p in places], weights)
    return out


@op("CropAndResize")
def crop_and_resize(ctx, inputs, attrs):
    size, method = ctx.ints(inputs[3], "the size"), attrs.get("method", "bilinear")
    if len(size) != 2 or min(size) < 1 or method not in ("bilinear", "nearest"):
        raise TVMError(f"crops of size {size} with method '{method}' are not supported")
    check_count("a crop", size)
    method = {"bilinear": "bilinear", "nearest": "nearest_neighbor"}[method]
    return relay.image.crop_and_resize(
        _real(ctx, inputs[0]), inputs[1], inputs[2], size, "NHWC", method, attrs.get("extrapolation_value", 0.0)
    )


# -- boxes ------------------------------------------------------------------------------------------------------------


def _kept(ctx, boxes, scores, most, overlap, least):
    """Return the indices of the kept boxes, the best first; their number is known at run time."""
    rows, count = relay.vision.all_class_non_max_suppression(
        relay.expand_dims(boxes, 0),
        relay.reshape(scores, (1, 1, -1)),
        run_time.scalar(ctx, most),
        run_time.scalar(ctx, overlap, "float32"),
        run_time.scalar(ctx, least, "float32"),
    )
    kept = ctx.made(first_rows(ctx, rows, ctx.made(count)))
    return ctx.made(relay.cast(relay.take(kept, const(2, "int64"), 1), "int32"))


def _padded_boxes(ctx, values, most, attrs):
    """Pad values with zeros to the maximum number of boxes if the node requests it."""
    if not attrs.get("pad_to_max_output_size", False):
        return values
    wanted = ctx.single(most, "the maximum number of boxes")
    rest = ctx.made(relay.subtract(run_time.number(wanted), run_time.size_of(ctx, values, 0)))
    amounts = run_time.joined(ctx, [run_time.number(0), rest])
    padded = run_time.padded(ctx, values, amounts, None, const(0, ctx.dtype(values)), "constant")
    return run_time.sharpened(ctx, padded, [wanted])


@op("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")
def non_max_suppression(ctx, inputs, attrs):
    boxes, scores, most, overlap = inputs[:4]
    least = inputs[4] if len(inputs) > 4 else const(float("-inf"), "float32")
    places = _kept(ctx, boxes, scores, most, overlap, least)
    if ctx.node.op != "NonMaxSuppressionV4":
        return places
    return [_padded_boxes(ctx, places, most, attrs), relay.cast(run_time.size_of(ctx, places, 0), "int32")]


@op("NonMaxSuppressionV5")
def soft_non_max_suppression(ctx, inputs, attrs):
    """Also return the scores; a sigma above 0 reduces the scores of overlapping boxes instead of removing the boxes."""
    boxes, scores, most, overlap, least = inputs[:5]
    sigma = float(ctx.array(inputs[5], "the sigma"))
    if sigma > 0:
        limit = run_time.scalar(ctx, least, "float32")
        count = ctx.single(most, "the maximum number of boxes")
        found = soft_suppression(ctx, boxes, scores, count, None, limit, sigma)
        places, values, count = map(ctx.made, found)
        places, values = (first_rows(ctx, v, count) for v in (places, values))
    else:
        places = _kept(ctx, boxes, scores, most, overlap, least)
        values = ctx.made(relay.take(scores, places, 0))
        count = relay.cast(run_time.size_of(ctx, places, 0), "int32")
    return [*(_padded_boxes(ctx, v, most, attrs) for v in (places, values)), count]
