"""Converters of layers that concatenate, slice, reshape and reduce tensors, of matmuls and of image resizing."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import axis_of, check_count
from ..common.resize import resized
from .table import Context, layer


@layer("Concat", param="concat_param")
def concat(ctx, inputs):
    if not inputs:
        raise TVMError("expected at least 1 input, got none")
    axis = axis_of(ctx.p.int("axis", ctx.p.int("concat_dim", 1)), ctx.rank(inputs[0]))
    return relay.concatenate(inputs, axis) if len(inputs) > 1 else inputs[0]


@layer("Slice", param="slice_param")
def cut(ctx, inputs):
    x, count = ctx.one(inputs), len(ctx.layer.tops)
    axis = axis_of(ctx.p.int("axis", ctx.p.int("slice_dim", 1)), ctx.rank(x))
    points, size = ctx.p.ints("slice_point"), ctx.known_size(x, axis)
    if not points:
        if size % count:
            raise TVMError(f"{size} elements cannot be split into {count} equal parts")
        points = [size // count * i for i in range(1, count)]
    edges = [0, *points, size]
    if len(edges) != count + 1 or any(a >= b for a, b in zip(edges, edges[1:])):
        raise TVMError(f"slice_point {points} does not split {size} elements into {count} parts")
    return [relay.strided_slice(x, [a], [b], [1], [axis]) for a, b in zip(edges, edges[1:])]


@layer("Split")
def split(ctx, inputs):
    return [ctx.one(inputs)] * len(ctx.layer.tops)


@layer("Silence")
def silence(ctx, inputs):
    return []


@layer("Reshape", param="reshape_param")
def reshape(ctx, inputs):
    x = ctx.one(inputs)
    shape = ctx.known_shape(x)
    wanted = ctx.p.inner("shape").ints("dim")
    axis, axes = ctx.p.int("axis", 0), ctx.p.int("num_axes", -1)
    axis = axis if axis >= 0 else axis + len(shape) + 1
    end = len(shape) if axes == -1 else axis + axes
    if not 0 <= axis <= end <= len(shape):
        raise TVMError(f"axis {axis} and num_axes {axes} are out of range for an input of shape {shape}")
    if any(d == 0 and axis + i >= len(shape) for i, d in enumerate(wanted)) or any(d < -1 for d in wanted):
        raise TVMError(f"the shape {wanted} is not valid for an input of shape {shape}")
    sizes = [shape[axis + i] if d == 0 else d for i, d in enumerate(wanted)]
    new = [*shape[:axis], *sizes, *shape[end:]]
    known = math.prod(d for d in new if d != -1)
    if new.count(-1) > 1 or (math.prod(shape) % known if -1 in new and known else known != math.prod(shape)):
        raise TVMError(f"an input of shape {shape} cannot be reshaped to {new}")
    return relay.reshape(x, tuple(math.prod(shape) // known if d == -1 else d for d in new))


@layer("Flatten", param="flatten_param")
def flatten(ctx, inputs):
    x = ctx.one(inputs)
    shape = ctx.known_shape(x)
    first, last = (axis_of(ctx.p.int(k, d), len(shape)) for k, d in (("axis", 1), ("end_axis", -1)))
    if last < first:
        raise TVMError(f"end_axis {last} is before axis {first}")
    return relay.reshape(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def _permute(ctx: Context, x: RelayExpr, order: list[int]) -> RelayExpr:
    """Permute the axes; axes that ``order`` does not contain come last."""
    rank = ctx.rank(x)
    if any(not 0 <= a < rank for a in order) or len(set(order)) != len(order):
        raise TVMError(f"{order} is not a permutation of {rank} axes")
    return relay.transpose(x, [*order, *(a for a in range(rank) if a not in order)])


@layer("Permute", param="permute_param")
def permute(ctx, inputs):
    return _permute(ctx, ctx.one(inputs), ctx.p.ints("order"))


@layer("Transpose", param="transpose_param")
def transpose(ctx, inputs):
    return _permute(ctx, ctx.one(inputs), ctx.p.ints("dim"))


@layer("Crop", param="crop_param")
def crop(ctx, inputs):
    if len(inputs) != 2:
        raise TVMError(f"expected 2 inputs (the data and a reference of the cropped size), got {len(inputs)}")
    x, shape, wanted = inputs[0], *(ctx.known_shape(v) for v in inputs)
    axis = axis_of(ctx.p.int("axis", 2), len(shape))
    offsets = ctx.p.ints("offset") or [0]
    offsets = offsets * (len(shape) - axis) if len(offsets) == 1 else offsets
    ends = [o + w for o, w in zip(offsets, wanted[axis:])]
    if (
        len(wanted) != len(shape)
        or len(offsets) != len(shape) - axis
        or any(o < 0 or e > s for o, e, s in zip(offsets, ends, shape[axis:]))
    ):
        raise TVMError(f"cannot crop {wanted} from shape {shape} at offsets {offsets} from axis {axis} on")
    return relay.strided_slice(x, offsets, ends, [1] * len(offsets), list(range(axis, len(shape))))


@layer("Tile", param="tile_param")
def tile(ctx, inputs):
    x = ctx.one(inputs)
    rank = ctx.rank(x)
    axis, tiles = axis_of(ctx.p.int("axis", 1), rank), ctx.p.int("tiles", 0)
    if tiles < 1:
        raise TVMError(f"tiles {tiles} is not supported; it must be positive")
    check_count("the output", [d * (tiles if i == axis else 1) for i, d in enumerate(ctx.known_shape(x))])
    return relay.tile(x, [tiles if i == axis else 1 for i in range(rank)])


@layer("ShuffleChannel", param="shuffle_channel_param")
def shuffle_channel(ctx, inputs):
    x, groups = ctx.one(inputs), ctx.p.int("group", 1)
    batch, channels, *rest = ctx.known_shape(x)
    if groups < 1 or channels % groups:
        raise TVMError(f"{channels} channels are not divisible into {groups} groups")
    wide = relay.reshape(x, (batch, groups, channels // groups, -1))
    return relay.reshape(relay.transpose(wide, (0, 2, 1, 3)), (batch, channels, *rest))


@layer("Reduction", param="reduction_param")
def reduction(ctx, inputs):
    x = ctx.one(inputs)
    operation = ctx.p.choice("operation", {"1": "SUM", "2": "ASUM", "3": "SUMSQ", "4": "MEAN"}, "SUM")
    axis, factor = axis_of(ctx.p.int("axis", 0), ctx.rank(x)), ctx.p.float("coeff", 1.0)
    axes = list(range(axis, ctx.rank(x)))
    x = relay.abs(x) if operation == "ASUM" else relay.multiply(x, x) if operation == "SUMSQ" else x
    out = relay.mean(x, axes) if operation == "MEAN" else relay.sum(x, axes)
    return out if factor == 1 else relay.multiply(out, ctx.like(factor, x))


@layer("ArgMax", param="argmax_param")
def argmax(ctx, inputs):
    """Return the indices of the ``top_k`` largest elements as floats.

    With ``out_max_val`` return the values instead if ``axis`` is set, else both.
    """
    x = ctx.one(inputs)
    shape, most, values = ctx.known_shape(x), ctx.p.int("top_k", 1), ctx.p.bool("out_max_val", False)
    whole = not ctx.p.has("axis")
    axis = 1 if whole else axis_of(ctx.p.int("axis", 0), len(shape))
    x = relay.reshape(x, (shape[0], -1)) if whole else x
    if not 1 <= most <= (math.prod(shape[1:]) if whole else shape[axis]):
        raise TVMError(f"top_k {most} is out of range for an input of shape {shape}")
    found, places = relay.topk(x, most, axis, "both", False, "int32")
    places = relay.cast(places, "float32")
    if not whole:
        return found if values else places
    parts = [relay.reshape(v, (shape[0], 1, most)) for v in ([places, found] if values else [places])]
    return relay.concatenate(parts, 1) if values else parts[0]


# -- matmul -----------------------------------------------------------------------------------------------------------


@layer("InnerProduct", param="inner_product_param")
def inner_product(ctx, inputs):
    x = ctx.one(inputs)
    shape = ctx.known_shape(x)
    axis, outputs = axis_of(ctx.p.int("axis", 1), len(shape)), ctx.p.int("num_output", 0)
    count, rows = math.prod(shape[axis:]), math.prod(shape[:axis])
    if outputs < 1:
        raise TVMError(f"num_output {outputs} is not supported; it must be positive")
    if ctx.p.bool("transpose", False):
        weight = ctx.blob(0, "weights", count, outputs).T
    else:
        weight = ctx.blob(0, "weights", outputs, count)
    out = relay.nn.dense(relay.reshape(x, (rows, count)), ctx.constant(weight))
    if ctx.p.bool("bias_term", True):
        out = relay.nn.bias_add(out, ctx.constant(ctx.blob(1, "biases", outputs)))
    return relay.reshape(out, (*shape[:axis], outputs)) if axis != 1 else out


@layer("Embed", param="embed_param")
def embed(ctx, inputs):
    x, count, outputs = ctx.one(inputs), ctx.p.int("input_dim", 0), ctx.p.int("num_output", 0)
    if count < 1 or outputs < 1:
        raise TVMError(f"input_dim {count} and num_output {outputs} are not supported; both must be positive")
    table = ctx.blob(0, "weights", count, outputs)
    if ctx.p.bool("bias_term", True):
        table = table + ctx.blob(1, "biases", 1, outputs)
    return relay.take(ctx.constant(table), relay.cast(x, "int32"), 0)


@layer("Parameter", param="parameter_param")
def parameter(ctx, inputs):
    if inputs:
        raise TVMError("expected no inputs")
    return ctx.constant(ctx.blob(0, "values", *ctx.p.inner("shape").ints("dim")))


@layer("DummyData", param="dummy_data_param")
def dummy_data(ctx, inputs):
    """Return constants filled with the values of ``data_filler``."""
    shapes = [m.ints("dim") for m in ctx.p.message.messages("shape")]
    if not shapes:
        shapes = [list(s) for s in zip(*(ctx.p.ints(k) for k in ("num", "channels", "height", "width")))]
    fillers = ctx.p.message.messages("data_filler")
    ctx.p.asked.update(("shape", "data_filler", "num", "channels", "height", "width"))
    count = len(ctx.layer.tops)
    if len(shapes) not in (1, count) or len(fillers) not in (0, 1, count):
        raise TVMError(f"{count} outputs have {len(shapes)} shapes and {len(fillers)} fillers")
    if any(f.word("type", "constant") != "constant" for f in fillers):
        raise TVMError(f"filler type {fillers[0].word('type')} is not supported; only constant is")
    out = []
    for i in range(count):
        dims = shapes[i if len(shapes) > 1 else 0]
        check_count("a constant", dims)
        value = float(fillers[i if len(fillers) > 1 else 0].word("value", "0")) if fillers else 0.0
        out.append(ctx.constant(np.full(dims, value, "float32")))
    return out


# -- images -----------------------------------------------------------------------------------------------------------


@layer("Upsample", param="upsample_param")
def upsample(ctx, inputs):
    x, scale = ctx.one(inputs), ctx.p.int("scale", 2)
    if ctx.rank(x) != 4 or scale < 1:
        raise TVMError(f"scale {scale} of an input of shape {ctx.known_shape(x)} is not supported")
    return relay.nn.upsampling(x, scale, scale)


@layer("Interp", param="interp_param")
def interp(ctx, inputs):
    """Resize an image bilinearly with aligned corners."""
    x = ctx.one(inputs)
    sizes = ctx.known_shape(x)[2:]
    before, after = ctx.p.int("pad_beg", 0), ctx.p.int("pad_end", 0)
    shrink, zoom = ctx.p.int("shrink_factor", 0), ctx.p.int("zoom_factor", 0)
    if len(sizes) != 2 or before > 0 or after > 0 or min(shrink, zoom) < 0:
        raise TVMError(
            f"pad_beg {before}, pad_end {after}, shrink_factor {shrink} and zoom_factor {zoom} are not supported"
        )
    ends = [s + after for s in sizes]
    if any(e <= -before for e in ends):
        raise TVMError(f"cropping by {before} and {after} leaves no elements of an image of size {sizes}")
    if before or after:
        x = ctx.made(relay.strided_slice(x, [-before] * 2, ends, [1, 1], [2, 3]))
    wanted = []
    for size, name in zip(ctx.known_shape(x)[2:], ("height", "width")):
        out = (size - 1) // shrink + 1 if shrink else size
        out = out + (out - 1) * (zoom - 1) if zoom else out
        wanted.append(ctx.p.int(name, out))
    if min(wanted) < 1:
        raise TVMError(f"an output size of {wanted} is not supported")
    own = ctx.known_shape(x)[2:]
    scales = [w / o for w, o in zip(wanted, own)]
    rule = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return resized(ctx, x, wanted, scales, rule, axes=[2, 3])


@layer("Reorg", param="reorg_param")
def reorg(ctx, inputs):
    x, stride = ctx.one(inputs), ctx.p.int("stride", 1)
    _, channels, height, width = ctx.known_shape(x)
    if stride < 1 or channels % (stride * stride) or height % stride or width % stride:
        raise TVMError(f"{channels} channels of {height} x {width} are not divisible by a stride of {stride}")
    if ctx.p.bool("reverse", False):
        raise TVMError("reverse is not supported")
    return relay.vision.yolo_reorg(x, stride)


@layer("ROIPooling", param="roi_pooling_param")
def roi_pooling(ctx, inputs):
    if len(inputs) != 2:
        raise TVMError(f"expected 2 inputs (data, rois), got {len(inputs)}")
    size, scale = (ctx.p.int("pooled_h", 0), ctx.p.int("pooled_w", 0)), ctx.p.float("spatial_scale", 1.0)
    if min(size) < 1 or scale <= 0:
        raise TVMError(f"pooled size {size} with spatial_scale {scale} is not supported")
    return relay.vision.roi_pool(inputs[0], relay.reshape(inputs[1], (-1, 5)), size, scale)
