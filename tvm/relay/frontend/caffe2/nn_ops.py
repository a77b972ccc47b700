"""Converters of products of matrices, softmax, and operators on images."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common.product import product
from ..common.resize import resized
from .conv_ops import explicit_padding
from .table import axis_of, op


def _rows(ctx, x, axis: int):
    """A tensor as a matrix: the axes before ``axis`` are its rows."""
    shape = ctx.shape(x)
    tail = shape[axis:]
    if any(not isinstance(d, int) for d in tail):
        raise TVMError("the size of a row must be known; give the model's input shapes")
    return x if len(shape) == 2 and axis == 1 else relay.reshape(x, (-1, math.prod(tail)))


def _fully_connected(ctx, inputs, args, transposed: bool):
    x, weight, bias = inputs
    axis = axis_of(args.get("axis", 1), ctx.rank(x) + 1)
    lead = ctx.shape(x)[:axis]
    shape = ctx.known_shape(weight)
    split = axis_of(args.get("axis_w", 1), len(shape) + 1)
    first, second = math.prod(shape[:split]), math.prod(shape[split:])
    weight = relay.reshape(weight, (first, second)) if len(shape) != 2 else weight
    if transposed:
        weight, first, second = relay.transpose(weight, (1, 0)), second, first
    data = ctx.made(_rows(ctx, x, axis))
    if ctx.known_size(data, 1) != second:
        raise TVMError(f"rows of {ctx.known_size(data, 1)} elements and weights for {second} do not fit")
    out = relay.nn.bias_add(relay.nn.dense(data, weight, units=first), relay.reshape(bias, (-1,)), -1)
    if len(lead) == 1:
        return out
    if any(not isinstance(d, int) for d in lead):
        raise TVMError("the sizes before the axis must be known; give the model's input shapes")
    return relay.reshape(out, (*lead, first))


op("FC")(lambda ctx, inputs, args: _fully_connected(ctx, inputs, args, False))
op("FCTransposed")(lambda ctx, inputs, args: _fully_connected(ctx, inputs, args, True))


@op("MatMul")
def matmul(ctx, inputs, args):
    """Matrices, or tensors that are taken apart at an axis; either may be transposed."""
    sides = []
    for x, axis, turned in zip(inputs, ("axis_a", "axis_b"), ("trans_a", "trans_b")):
        rows = ctx.made(_rows(ctx, x, axis_of(args.get(axis, 1), ctx.rank(x) + 1)))
        sides.append(relay.transpose(rows, (1, 0)) if args.get(turned, 0) else rows)
    return product(ctx, *(ctx.made(s) for s in sides))


@op("BatchMatMul")
def batch_matmul(ctx, inputs, args):
    """NumPy's product of stacks of matrices, the two last axes of which may be exchanged."""
    sides = []
    for x, turned in zip(inputs, ("trans_a", "trans_b")):
        rank = ctx.rank(x)
        if args.get(turned, 0) and rank > 1:
            x = relay.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
        sides.append(ctx.made(x))
    return product(ctx, *sides)


@op("Softmax")
def softmax(ctx, inputs, args):
    """Over all elements from the axis on."""
    x = inputs[0]
    axis = axis_of(args.get("axis", 1), ctx.rank(x))
    if axis == ctx.rank(x) - 1:
        return relay.nn.softmax(x, axis)
    return relay.reshape(relay.nn.softmax(_rows(ctx, x, axis), 1), ctx.known_shape(x))


@op("LRN")
def lrn(ctx, inputs, args):
    size = args.get("size", 0)
    if size < 1 or size % 2 == 0:
        raise TVMError(f"a normalization over {size} channels is not supported; their number is odd")
    # The operator takes its numbers from the file, where they have no default.
    return relay.nn.lrn(inputs[0], size=size, axis=ctx.channel(inputs[0], args), bias=float(args.get("bias", 1.0)),
                        alpha=float(args.get("alpha", 0.0)), beta=float(args.get("beta", 0.0)))


# -- images ------------------------------------------------------------------------------------------------------------


def _nearest(ctx, x, scales: list[float], axes: list[int]):
    for scale, axis in zip(scales, axes):
        size = ctx.known_size(x, axis)
        if not scale > 0 or not math.isfinite(scale) or size * scale > 1 << 28:
            raise TVMError(f"an image of size {size} cannot be resized by {scale}")
        # Places are computed in single precision, as the operator does it.
        out = int(np.float32(size) * np.float32(scale))
        places = np.minimum((np.arange(out, dtype="float32") / np.float32(scale)).astype("int64"), size - 1)
        x = ctx.made(relay.take(x, const(places), axis))
    return x


@op("ResizeNearest")
def resize_nearest(ctx, inputs, args):
    """Scales are arguments, or a second input with those of height and width."""
    x = inputs[0]
    if len(inputs) > 1:
        scales = [float(v) for v in ctx.array(inputs[1], "the scales").reshape(-1)]
        if len(scales) != 2:
            raise TVMError(f"{len(scales)} scales are given, of height and width")
    else:
        scales = [float(args.get("height_scale", 1.0)), float(args.get("width_scale", 1.0))]
    first = 1 if ctx.channels_last(args) else 2
    return _nearest(ctx, x, scales, [first, first + 1])


@op("ResizeNearest3D")
def resize_nearest_3d(ctx, inputs, args):
    scales = [float(args.get(f"{n}_scale", 1.0)) for n in ("temporal", "height", "width")]
    return _nearest(ctx, inputs[0], scales, [2, 3, 4])


@op("UpsampleNearest")
def upsample_nearest(ctx, inputs, args):
    scale, rank = args.get("scale", 2), ctx.rank(inputs[0])
    if not isinstance(scale, int) or not 1 <= scale <= 1 << 14:
        raise TVMError(f"a scale of {scale!r} is not supported")
    return relay.repeat(relay.repeat(inputs[0], scale, rank - 2), scale, rank - 1)


@op("UpsampleBilinear")
def upsample_bilinear(ctx, inputs, args):
    """The corners stay where they are."""
    x = inputs[0]
    scales = [float(args.get("height_scale", 1.0)), float(args.get("width_scale", 1.0))]
    if len(inputs) > 1:
        scales = [float(v) for v in ctx.array(inputs[1], "the scales").reshape(-1)]
    sizes = [ctx.known_size(x, a) for a in (2, 3)]
    if len(scales) != 2 or any(not s > 0 or not math.isfinite(s) or n * s > 1 << 28 for s, n in zip(scales, sizes)):
        raise TVMError(f"an image of size {sizes} cannot be resized by {scales}")
    out = [int(np.float32(n) * np.float32(s)) for n, s in zip(sizes, scales)]
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return resized(ctx, x, out, scales, attrs, axes=[2, 3])


@op("ChannelShuffle")
def channel_shuffle(ctx, inputs, args):
    x, group = inputs[0], args.get("group", 1)
    axis, shape = ctx.channel(inputs[0], args), ctx.known_shape(inputs[0])
    if group < 1 or shape[axis] % group:
        raise TVMError(f"{shape[axis]} channels cannot be shuffled in {group} groups")
    parts = (*shape[:axis], group, shape[axis] // group, *shape[axis + 1 :])
    order = list(range(len(parts)))
    order[axis], order[axis + 1] = axis + 1, axis
    return relay.reshape(relay.transpose(relay.reshape(x, parts), order), shape)


@op("PadImage")
def pad_image(ctx, inputs, args):
    x, last = inputs[0], ctx.channels_last(args)
    pads = explicit_padding(args, 2)
    pairs = [(pads[0], pads[2]), (pads[1], pads[3])]
    widths = [(0, 0), *pairs, (0, 0)] if last else [(0, 0), (0, 0), *pairs]
    if any(p < 0 for pair in pairs for p in pair):
        raise TVMError(f"padding {pads} has a negative amount")
    mode = args.get("mode", b"constant")
    if mode == b"reflect":
        return relay.nn.mirror_pad(x, widths, "REFLECT")
    if mode not in (b"constant", b"edge"):
        raise TVMError(f"padding mode {mode!r} is not known")
    return relay.nn.pad(x, widths, float(args.get("value", 0.0)), mode.decode())


@op("SpaceToBatch")
def space_to_batch(ctx, inputs, args):
    block, pads = args.get("block_size", 2), explicit_padding(args, 2)
    return relay.transpose(
        relay.nn.space_to_batch_nd(
            relay.transpose(inputs[0], (0, 2, 3, 1)), [block, block], [[pads[0], pads[2]], [pads[1], pads[3]]]),
        (0, 3, 1, 2))


@op("BatchToSpace")
def batch_to_space(ctx, inputs, args):
    block, pads = args.get("block_size", 2), explicit_padding(args, 2)
    return relay.transpose(
        relay.nn.batch_to_space_nd(
            relay.transpose(inputs[0], (0, 2, 3, 1)), [block, block], [[pads[0], pads[2]], [pads[1], pads[3]]]),
        (0, 3, 1, 2))


@op("RoIPool")
def roi_pool(ctx, inputs, args):
    """The greatest of each part of a region. Where each of them lies is needed in training only."""
    if ctx.wants(1):
        raise TVMError("a net of training is not supported: is_test is not 1")
    if ctx.channels_last(args):
        raise TVMError("regions of images with channels last are not supported")
    size = (args.get("pooled_h", 1), args.get("pooled_w", 1))
    return relay.vision.roi_pool(inputs[0], inputs[1], size, float(args.get("spatial_scale", 1.0)))


@op("RoIAlign")
def roi_align(ctx, inputs, args):
    """Regions are the image and four corners; without the image they are all of the first one."""
    if ctx.channels_last(args):
        raise TVMError("regions of images with channels last are not supported")
    x, rois = inputs
    if ctx.known_size(rois, 1) == 4:
        rois = relay.nn.pad(rois, ((0, 0), (1, 0)))
    scale, ratio = float(args.get("spatial_scale", 1.0)), args.get("sampling_ratio", 0)
    size = (args.get("pooled_h", 1), args.get("pooled_w", 1))
    if args.get("aligned", 0):
        # Places are those of the middles of pixels. Regions of less than a pixel are not widened to one there.
        rois = relay.subtract(rois, const(np.float32([0, 0.5, 0.5, 0.5, 0.5]) / np.float32(scale)))
    return relay.vision.roi_align(x, rois, size, scale, ratio if ratio > 0 else -1, mode="avg")
