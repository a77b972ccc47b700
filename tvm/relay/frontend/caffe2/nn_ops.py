"""Converters of matmul, softmax and image operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common.matmul import numpy_matmul
from ..common.resize import resized
from .conv_ops import explicit_padding
from .table import axis_of, op


def _as_matrix(ctx, x, axis: int):
    """Flatten a tensor to a matrix at ``axis``: the axes before it become rows, the others columns."""
    shape = ctx.shape(x)
    tail = shape[axis:]
    if any(not isinstance(d, int) for d in tail):
        raise TVMError("the flattened dimensions must be static; pass static input shapes for the model")
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
    data = ctx.made(_as_matrix(ctx, x, axis))
    if ctx.known_size(data, 1) != second:
        raise TVMError(f"data rows of {ctx.known_size(data, 1)} elements do not match weights for {second}")
    out = relay.nn.bias_add(relay.nn.dense(data, weight, units=first), relay.reshape(bias, (-1,)), -1)
    if len(lead) == 1:
        return out
    if any(not isinstance(d, int) for d in lead):
        raise TVMError("the dimensions before the axis must be static; pass static input shapes for the model")
    return relay.reshape(out, (*lead, first))


op("FC")(lambda ctx, inputs, args: _fully_connected(ctx, inputs, args, False))
op("FCTransposed")(lambda ctx, inputs, args: _fully_connected(ctx, inputs, args, True))


@op("MatMul")
def matmul(ctx, inputs, args):
    """Multiply matrices, or tensors flattened to matrices at an axis. Each operand may be transposed."""
    sides = []
    for x, axis, turned in zip(inputs, ("axis_a", "axis_b"), ("trans_a", "trans_b")):
        rows = ctx.made(_as_matrix(ctx, x, axis_of(args.get(axis, 1), ctx.rank(x) + 1)))
        sides.append(relay.transpose(rows, (1, 0)) if args.get(turned, 0) else rows)
    return numpy_matmul(ctx, *(ctx.made(s) for s in sides))


@op("BatchMatMul")
def batch_matmul(ctx, inputs, args):
    """Batched matmul with NumPy's broadcasting; the last two axes of each operand may be transposed."""
    sides = []
    for x, turned in zip(inputs, ("trans_a", "trans_b")):
        rank = ctx.rank(x)
        if args.get(turned, 0) and rank > 1:
            x = relay.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
        sides.append(ctx.made(x))
    return numpy_matmul(ctx, *sides)


@op("Softmax")
def softmax(ctx, inputs, args):
    """Apply softmax over all axes from ``axis`` on, flattened."""
    x = inputs[0]
    axis = axis_of(args.get("axis", 1), ctx.rank(x))
    if axis == ctx.rank(x) - 1:
        return relay.nn.softmax(x, axis)
    return relay.reshape(relay.nn.softmax(_as_matrix(ctx, x, axis), 1), ctx.known_shape(x))


@op("LRN")
def lrn(ctx, inputs, args):
    size = args.get("size", 0)
    if size < 1 or size % 2 == 0:
        raise TVMError(f"LRN over {size} channels is not supported; the size must be odd and positive")
    # alpha, beta and bias have no defaults in Caffe2: each file sets them.
    return relay.nn.lrn(
        inputs[0],
        size=size,
        axis=ctx.channel(inputs[0], args),
        bias=float(args.get("bias", 1.0)),
        alpha=float(args.get("alpha", 0.0)),
        beta=float(args.get("beta", 0.0)),
    )


# -- images ------------------------------------------------------------------------------------------------------------


def _nearest(ctx, x, scales: list[float], axes: list[int]):
    for scale, axis in zip(scales, axes):
        size = ctx.known_size(x, axis)
        if not scale > 0 or not math.isfinite(scale) or size * scale > 1 << 28:
            raise TVMError(f"an image of size {size} cannot be resized by {scale}")
        # Caffe2 computes source indices in float32; rounding must match.
        out = int(np.float32(size) * np.float32(scale))
        places = np.minimum((np.arange(out, dtype="float32") / np.float32(scale)).astype("int64"), size - 1)
        x = ctx.made(relay.take(x, const(places), axis))
    return x


@op("ResizeNearest")
def resize_nearest(ctx, inputs, args):
    """Resize to the nearest pixel. The scales are arguments, or a second input (height, width)."""
    x = inputs[0]
    if len(inputs) > 1:
        scales = [float(v) for v in ctx.array(inputs[1], "the scales").reshape(-1)]
        if len(scales) != 2:
            raise TVMError(f"expected 2 scales (height, width), got {len(scales)}")
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
        raise TVMError(f"scale {scale!r} is not supported; it must be an integer from 1 to 16384")
    return relay.repeat(relay.repeat(inputs[0], scale, rank - 2), scale, rank - 1)


@op("UpsampleBilinear")
def upsample_bilinear(ctx, inputs, args):
    """Resize bilinearly with aligned corners."""
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
        raise TVMError(f"{shape[axis]} channels are not divisible into {group} groups")
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
        raise TVMError(f"padding mode {mode!r} is not supported")
    return relay.nn.pad(x, widths, float(args.get("value", 0.0)), mode.decode())


@op("SpaceToBatch")
def space_to_batch(ctx, inputs, args):
    block, pads = args.get("block_size", 2), explicit_padding(args, 2)
    return relay.transpose(
        relay.nn.space_to_batch_nd(
            relay.transpose(inputs[0], (0, 2, 3, 1)), [block, block], [[pads[0], pads[2]], [pads[1], pads[3]]]
        ),
        (0, 3, 1, 2),
    )


@op("BatchToSpace")
def batch_to_space(ctx, inputs, args):
    block, pads = args.get("block_size", 2), explicit_padding(args, 2)
    return relay.transpose(
        relay.nn.batch_to_space_nd(
            relay.transpose(inputs[0], (0, 2, 3, 1)), [block, block], [[pads[0], pads[2]], [pads[1], pads[3]]]
        ),
        (0, 3, 1, 2),
    )


@op("RoIPool")
def roi_pool(ctx, inputs, args):
    """Max pooling over regions of interest. The second output, the argmax indices, exists only in training."""
    if ctx.wants(1):
        raise TVMError("a training net is not supported; RoIPool needs is_test=1")
    if ctx.channels_last(args):
        raise TVMError("regions of images with channels last are not supported")
    size = (args.get("pooled_h", 1), args.get("pooled_w", 1))
    return relay.vision.roi_pool(inputs[0], inputs[1], size, float(args.get("spatial_scale", 1.0)))


@op("RoIAlign")
def roi_align(ctx, inputs, args):
    """Average pooling over regions of interest (image index and four corners; without an index, of the first image)."""
    if ctx.channels_last(args):
        raise TVMError("regions of images with channels last are not supported")
    x, rois = inputs
    if ctx.known_size(rois, 1) == 4:
        rois = relay.nn.pad(rois, ((0, 0), (1, 0)))
    scale, ratio = float(args.get("spatial_scale", 1.0)), args.get("sampling_ratio", 0)
    size = (args.get("pooled_h", 1), args.get("pooled_w", 1))
    if args.get("aligned", 0):
        # With `aligned`, coordinates refer to pixel centers, and regions smaller than a pixel are not enlarged to one.
        rois = relay.subtract(rois, const(np.float32([0, 0.5, 0.5, 0.5, 0.5]) / np.float32(scale)))
    return relay.vision.roi_align(x, rois, size, scale, ratio if ratio > 0 else -1, mode="avg")
