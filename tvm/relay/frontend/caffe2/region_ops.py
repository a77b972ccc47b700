"""Converters of region proposal operators (Faster R-CNN, Mask R-CNN)."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.proposals import Rule, anchors_of, proposals
from .table import Context, check_steps, op

# The upper limit of the predicted log scale: a box of 16 pixels grows to at most 1000.
_MAX_LOG_SCALE = math.log(1000.0 / 16.0)


def upright(args) -> float:
    """Return the amount to add to ``x2 - x1`` for the width of a box: 1 with ``legacy_plus_one``, else 0.

    Rejects rotated boxes.
    """
    if args.get("rotated", 0):
        raise TVMError("rotated boxes (rotated=1) are not supported")
    return 1.0 if args.get("legacy_plus_one", 1) else 0.0


@op("GenerateProposals", "GenerateProposalsCPP")
def generate_proposals(ctx, inputs, args):
    """Return proposals (image index, corners) and their scores.

    The outputs have the maximum number of rows, padded with zeros.
    """
    if len(inputs) != 4:
        raise TVMError(f"expected 4 inputs (scores, box offsets, image info, anchors), got {len(inputs)}")
    images, count, height, width = (ctx.known_shape(inputs[0]) + (0,) * 4)[:4]
    cells = ctx.array(inputs[3], "the anchors")
    if cells.shape != (count, 4) or ctx.known_shape(inputs[1]) != (images, 4 * count, height, width):
        raise TVMError(
            f"scores of shape {ctx.known_shape(inputs[0])} and box offsets of shape "
            f"{ctx.known_shape(inputs[1])} do not match anchors of shape {cells.shape}"
        )
    if ctx.known_shape(inputs[2]) != (images, 3) or float(args.get("spatial_scale", 1.0 / 16)) <= 0:
        raise TVMError(
            f"image info of shape {ctx.known_shape(inputs[2])} does not match {images} images, or "
            "spatial_scale is not positive"
        )
    check_steps("a batch of images", images)
    one = upright(args)
    rule = Rule(
        args.get("pre_nms_topN", 6000),
        args.get("post_nms_topN", 300),
        float(args.get("nms_thresh", 0.7)),
        float(args.get("min_size", 16.0)),
        one,
        one,
        _MAX_LOG_SCALE,
        False,
    )
    anchors = anchors_of(cells.astype("float64"), height, width, 1.0 / float(args.get("spatial_scale", 1.0 / 16)))
    rois, best, real = [], [], []
    for i in range(images):
        scores, moves, image = (relay.strided_slice(x, [i], [i + 1], [1], [0]) for x in inputs[:3])
        scores = ctx.made(relay.reshape(relay.transpose(scores, (0, 2, 3, 1)), (-1,)))
        moves = relay.transpose(relay.reshape(moves, (count, 4, height, width)), (2, 3, 0, 1))
        moves, image = relay.reshape(moves, (-1, 4)), relay.reshape(image, (3,))
        found, boxes, valid = proposals(ctx, scores, moves, anchors, image, rule)
        rois.append(relay.nn.pad(boxes, ((0, 0), (1, 0)), float(i)))
        best.append(found)
        real.append(valid)
    out = [relay.concatenate(v, 0) if images > 1 else v[0] for v in (rois, best, real)]
    ctx.marks[0] = ctx.marks[1] = ctx.made(out[2])
    return out[:2]


def _centers_and_sizes(ctx: Context, boxes: RelayExpr, one: float) -> tuple[RelayExpr, RelayExpr]:
    """Return the centers and sizes of boxes, each of shape (boxes, 1, 2)."""
    near, far = (relay.strided_slice(boxes, [a], [a + 2], [1], [1]) for a in (0, 2))
    size = relay.add(relay.subtract(far, near), const(one))
    middle = relay.add(near, relay.multiply(size, const(0.5)))
    return ctx.made(relay.expand_dims(middle, 1)), ctx.made(relay.expand_dims(size, 1))


@op("BBoxTransform")
def bbox_transform(ctx, inputs, args):
    """Apply the predicted offsets of each class to the regions.

    The output is in pixels of the original or the scaled image.
    """
    rois, moves, image = inputs
    shape, wide = ctx.known_shape(rois), ctx.known_shape(moves)
    images = ctx.known_shape(image)
    if (
        len(shape) != 2
        or shape[1] not in (4, 5)
        or len(wide) != 2
        or wide[0] != shape[0]
        or wide[1] % 4
        or (len(images) != 2 or images[1] != 3 or shape[1] == 4 and images[0] != 1)
    ):
        raise TVMError(
            f"regions of shape {shape}, box offsets of shape {wide} and image info of shape {images} do not match"
        )
    weights = args.get("weights", [1.0] * 4)
    if not isinstance(weights, list) or len(weights) != 4 or not all(isinstance(w, float) and w > 0 for w in weights):
        raise TVMError(f"weights {weights!r} are not supported; expected 4 positive numbers")
    one = upright(args)
    shift = float(bool(args["correct_transform_coords"])) if "correct_transform_coords" in args else one
    boxes, places = rois, relay.zeros((shape[0],), "int32")
    if shape[1] == 5:
        boxes = relay.strided_slice(rois, [1], [5], [1], [1])
        places = relay.cast(relay.reshape(relay.strided_slice(rois, [0], [1], [1], [1]), (-1,)), "int32")
    places = ctx.made(places)
    sizes = ctx.made(relay.take(image, places, 0))
    scale = ctx.made(relay.strided_slice(sizes, [2], [3], [1], [1]))
    whole = relay.floor(
        relay.add(relay.divide(relay.take(sizes, const(np.array([1, 0], "int64")), 1), scale), const(0.5))
    )
    limit = ctx.made(relay.expand_dims(relay.subtract(whole, const(one)), 1))
    middle, size = _centers_and_sizes(ctx, relay.divide(boxes, scale), one)
    moves = relay.divide(relay.reshape(moves, (shape[0], -1, 4)), const(np.array(weights, "float32")))
    there, growth = (relay.strided_slice(moves, [a], [a + 2], [1], [2]) for a in (0, 2))
    middle = relay.add(relay.multiply(there, size), middle)
    half = relay.multiply(relay.multiply(relay.exp(relay.minimum(growth, const(_MAX_LOG_SCALE))), size), const(0.5))
    ends = (relay.subtract(middle, half), relay.subtract(relay.add(middle, half), const(shift)))
    out = relay.concatenate([relay.maximum(relay.minimum(e, limit), const(0.0)) for e in ends], 2)
    if args.get("apply_scale", 1):
        out = relay.multiply(out, relay.expand_dims(scale, 1))
    ctx.marks[0] = ctx.real(0)
    counts = relay.one_hot(places, const(1.0), const(0.0), images[0], -1, "float32")
    return [relay.reshape(out, wide), relay.sum(counts, axis=[0])]
