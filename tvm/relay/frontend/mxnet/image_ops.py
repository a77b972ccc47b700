"""Converters of image resizing, sampling and preprocessing operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common.resize import resized
from .shape_ops import checked_dims
from .table import Context, axis_of, check_count, op

_MAX_SIZE = 1 << 24


@op("UpSampling", "scale:int num_filter:int=0 sample_type:bilinear|nearest multi_input_mode:concat|sum=concat")
def up_sampling(ctx, inputs, attrs):
    """Upsample.

    Several images are resized to the upsampled size of the first; bilinear mode is a transposed convolution with the
    given weights.
    """
    if not 0 < attrs.scale < _MAX_SIZE:
        raise TVMError(f"the attribute scale={attrs.scale} is not supported")
    if attrs.sample_type == "bilinear":
        if len(inputs) != 2:
            raise TVMError(f"sample_type=bilinear needs 2 inputs (data, weights), got {len(inputs)}")
        scale, channels = attrs.scale, ctx.known_size(inputs[0], 1)
        kernel, pad = 2 * scale - scale % 2, math.ceil((scale - 1) / 2)
        return relay.nn.conv2d_transpose(
            inputs[0],
            inputs[1],
            strides=(scale, scale),
            padding=(pad,) * 4,
            groups=channels,
            channels=channels,
            kernel_size=(kernel, kernel),
        )
    sizes = [d * attrs.scale for d in ctx.spatial(inputs[0])]
    out = []
    for x in inputs:
        factors = [w // d for w, d in zip(sizes, ctx.spatial(x))]
        if any(f * d != w for f, w, d in zip(factors, sizes, ctx.spatial(x))):
            raise TVMError(f"an image of shape {ctx.shape(x)} cannot be upsampled to {sizes} by an integer factor")
        for axis, factor in zip((2, 3), factors):
            x = relay.repeat(x, factor, axis) if factor > 1 else x
        out.append(x)
    if len(out) == 1:
        return out[0]
    if attrs.multi_input_mode == "concat":
        return relay.concatenate(out, 1)
    total = out[0]
    for x in out[1:]:
        total = relay.add(total, x)
    return total


def _bilinear(ctx: Context, x: RelayExpr, sizes: list[int], align_corners: bool, axes=(2, 3)) -> RelayExpr:
    if any(not 0 < s < _MAX_SIZE for s in sizes):
        raise TVMError(f"{sizes} is not a valid image size")
    own = [ctx.known_size(x, a) for a in axes]
    rule = {"mode": "linear", "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel"}
    return resized(ctx, x, sizes, [w / d for w, d in zip(sizes, own)], rule, axes=list(axes))


@op(
    "_contrib_BilinearResize2D",
    "height:int=1 width:int=1 scale_height:float?=None scale_width:float?=None"
    " mode:like|odd_scale|size|to_even_down|to_even_up|to_odd_down|to_odd_up=size align_corners:bool=True",
)
def bilinear_resize(ctx, inputs, attrs):
    x = inputs[0]
    sizes = list(ctx.spatial(x))
    scales = (attrs.scale_height, attrs.scale_width)
    if any(s is not None and not 0 < s < _MAX_SIZE for s in scales):
        raise TVMError(f"the scales {scales} are not supported")
    if attrs.mode == "size":
        wanted = [attrs.height, attrs.width] if None in scales else [int(d * s) for d, s in zip(sizes, scales)]
    elif attrs.mode == "like":
        wanted = list(ctx.spatial(inputs[1]))
    elif attrs.mode == "odd_scale":
        if None in scales:
            raise TVMError("mode=odd_scale needs scale_height and scale_width")
        wanted = [int(d * s) if d % 2 == 0 else int((d - 1) * s) + 1 for d, s in zip(sizes, scales)]
    else:
        even, up = "even" in attrs.mode, attrs.mode.endswith("up")
        wanted = [d + ((1 if up else -1) if (d % 2 == 0) != even else 0) for d in sizes]
    return _bilinear(ctx, x, wanted, attrs.align_corners)


# -- sampling ---------------------------------------------------------------------------------------------------------


@op("BilinearSampler")
def bilinear_sampler(ctx, inputs, attrs):
    return relay.image.grid_sample(inputs[0], inputs[1], "bilinear", padding_mode="zeros", align_corners=True)


@op("GridGenerator", "transform_type:affine|warp target_shape:dims=(0,0)")
def grid_generator(ctx, inputs, attrs):
    x = inputs[0]
    if attrs.transform_type == "affine":
        return _affine(ctx, x, attrs.target_shape)
    # A flow field in pixels is added to the pixel coordinates, which are then normalized to -1..1.
    height, width = ctx.spatial(x)
    check_count("the grid", [2, height, width])
    if min(height, width) < 2:
        raise TVMError(f"a grid of {height} x {width} is not supported; both sizes must be at least 2")
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)))[None].astype("float32")
    half = np.array([(width - 1) / 2, (height - 1) / 2], "float32").reshape(1, 2, 1, 1)
    moved = relay.add(x, Constant(places))
    return relay.subtract(relay.divide(moved, Constant(half)), ctx.like(1, x))


def _affine(ctx: Context, x: RelayExpr, shape) -> RelayExpr:
    if len(shape) != 2 or any(d is None or not 0 < d < _MAX_SIZE for d in shape):
        raise TVMError(f"the attribute target_shape={shape} must have 2 positive elements")
    return relay.image.affine_grid(relay.reshape(x, (-1, 2, 3)), tuple(shape))


@op("SpatialTransformer", "target_shape:dims=(0,0) transform_type:affine sampler_type:bilinear")
def spatial_transformer(ctx, inputs, attrs):
    grid = _affine(ctx, inputs[1], attrs.target_shape)
    return relay.image.grid_sample(inputs[0], grid, "bilinear", padding_mode="zeros", align_corners=True)


@op(
    "Correlation",
    "kernel_size:int=1 max_displacement:int=1 stride1:int=1 stride2:int=1 pad_size:int=0 is_multiply:bool=True",
)
def correlation(ctx, inputs, attrs):
    if attrs.kernel_size % 2 == 0 or min(attrs.kernel_size, attrs.stride1, attrs.stride2) < 1 or attrs.pad_size < 0:
        raise TVMError(
            f"kernel_size={attrs.kernel_size} with strides {attrs.stride1}, {attrs.stride2} is not supported"
        )
    return relay.nn.correlation(
        inputs[0],
        inputs[1],
        attrs.kernel_size,
        attrs.max_displacement,
        attrs.stride1,
        attrs.stride2,
        attrs.pad_size,
        attrs.is_multiply,
        "NCHW",
    )


@op("im2col", "kernel:dims stride:dims=() dilate:dims=() pad:dims=()")
def im2col(ctx, inputs, attrs):
    """Return the elements of each window as a column."""
    from .conv_ops import Window

    attrs.layout = None
    window, x = Window(attrs), inputs[0]
    batch, channels, *sizes = ctx.known_shape(x)
    if len(sizes) != window.rank:
        raise TVMError(f"data of {len(sizes) + 2} dimensions does not match kernel={window.kernel}")
    padded = relay.nn.pad(x, ((0, 0), (0, 0), *((p, p) for p in window.pad)))
    wide = [d + 2 * p for d, p in zip(sizes, window.pad)]
    counts = [(w - (k - 1) * d - 1) // s + 1 for w, k, d, s in zip(wide, window.kernel, window.dilate, window.stride)]
    check_count("the index tensor", [*window.kernel, *counts])
    places = np.zeros((), "int64")
    rank = window.rank
    for i, (k, d, s, n) in enumerate(zip(window.kernel, window.dilate, window.stride, counts)):
        taps = (np.arange(k) * d).reshape([-1 if j == i else 1 for j in range(2 * rank)])
        at = (np.arange(n) * s).reshape([-1 if j == rank + i else 1 for j in range(2 * rank)])
        places = places + (taps + at) * math.prod(wide[i + 1 :])
    flat = relay.reshape(padded, (batch, channels, math.prod(wide)))
    taps = relay.take(flat, Constant(places.reshape(math.prod(window.kernel), -1)), axis=2)
    return relay.reshape(taps, (batch, channels * math.prod(window.kernel), math.prod(counts)))


# -- image preprocessing, channels last -------------------------------------------------------------------------------


@op("_image_to_tensor")
def to_tensor(ctx, inputs, attrs):
    x, rank = inputs[0], ctx.rank(inputs[0])
    out = relay.divide(relay.cast(x, "float32"), Constant(np.array(255, "float32")))
    return relay.transpose(out, [*range(rank - 3), rank - 1, rank - 3, rank - 2])


@op("_image_normalize", "mean:floats=(0,0,0,0) std:floats=(1,1,1,1)")
def normalize(ctx, inputs, attrs):
    x, rank = inputs[0], ctx.rank(inputs[0])
    channels = ctx.known_size(x, rank - 3)
    rows = []
    for values in (attrs.mean, attrs.std):
        own = values * channels if len(values) == 1 else values[:channels]
        if len(own) != channels:
            raise TVMError(f"{values} does not match {channels} channels")
        rows.append(Constant(np.array(own, ctx.dtype(x)).reshape(-1, 1, 1)))
    return relay.divide(relay.subtract(x, rows[0]), rows[1])


@op("_image_resize", "size:dims=() keep_ratio:bool=False interp:int=1")
def resize(ctx, inputs, attrs):
    """Resize an image. ``size`` is (width, height), or one value for both."""
    x, rank = inputs[0], ctx.rank(inputs[0])
    if attrs.interp not in (0, 1) or attrs.keep_ratio:
        raise TVMError(f"interp={attrs.interp} with keep_ratio={attrs.keep_ratio} is not supported")
    size = tuple(attrs.size) * (2 if len(attrs.size) == 1 else 1)
    if len(size) != 2 or any(s is None or not 0 < s < _MAX_SIZE for s in size):
        raise TVMError(f"the attribute size={attrs.size} is not supported")
    wanted, axes = [size[1], size[0]], [rank - 3, rank - 2]
    if attrs.interp == 1:
        return _bilinear(ctx, x, wanted, False, axes)
    scales = [w / ctx.known_size(x, a) for w, a in zip(wanted, axes)]
    rule = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return resized(ctx, x, wanted, scales, rule, axes=axes)


@op("_image_crop", "x:int y:int width:int height:int")
def image_crop(ctx, inputs, attrs):
    x, rank = inputs[0], ctx.rank(inputs[0])
    checked_dims((attrs.height, attrs.width), "size")
    ends = [attrs.y + attrs.height, attrs.x + attrs.width]
    sizes = [ctx.known_size(x, rank - 3), ctx.known_size(x, rank - 2)]
    if min(attrs.x, attrs.y) < 0 or any(e > s for e, s in zip(ends, sizes)):
        raise TVMError(f"the crop from x={attrs.x}, y={attrs.y} to {ends} exceeds the image of size {sizes}")
    return relay.strided_slice(x, [attrs.y, attrs.x], ends, [1, 1], [rank - 3, rank - 2])


@op("_image_flip_left_right")
def flip_left_right(ctx, inputs, attrs):
    return relay.reverse(inputs[0], axis_of(-2, ctx.rank(inputs[0])))


@op("_image_flip_top_bottom")
def flip_top_bottom(ctx, inputs, attrs):
    return relay.reverse(inputs[0], axis_of(-3, ctx.rank(inputs[0])))
