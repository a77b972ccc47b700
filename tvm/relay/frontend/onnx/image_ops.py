"""Converters of image decoding, resizing, and sampling at computed coordinates."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common import run_time_resize
from ..common.context import check_count
from ..common.deformable import masked_deformable
from ..common.resize import resized
from .declared import decides, shape_of_output
from .functions import function_body
from .nn_ops import biased
from .table import argument, axis_of, check_steps, op


def _by_scales(ctx, data, scales, attrs, roi=None, axes=None):
    shape = ctx.shape(data)
    chosen = range(len(shape)) if axes is None else [axis_of(a, len(shape)) for a in axes]
    if len(scales) != len(chosen) or not all(0 < s < np.inf for s in scales):
        raise TVMError(f"scales must be {len(chosen)} positive numbers, got {list(scales)}")
    if not all(isinstance(shape[a], int) for a, s in zip(chosen, scales) if s != 1.0 or roi):
        return _dynamic_by_scales(ctx, data, list(chosen), list(scales), attrs, roi)
    sizes = [shape[a] if s == 1.0 else int(np.floor(shape[a] * s)) for a, s in zip(chosen, scales)]
    return resized(ctx, data, sizes, scales, attrs, roi, axes)


def _dynamic_by_scales(ctx, data, axes, scales, attrs, roi):
    """Resize dynamic dimensions by constant scales.

    Nearest-neighbor resizing by integer factors repeats each element: the coordinate rules in ``rule`` all agree there.
    """
    rule = (attrs.get("coordinate_transformation_mode", "half_pixel"), attrs.get("nearest_mode", "round_prefer_floor"))
    same = rule in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"))
    if attrs.get("mode", "nearest") == "nearest" and same and all(s == int(s) for s in scales):
        for axis, s in zip(axes, scales):
            data = relay.repeat(data, int(s), axis) if s != 1.0 else data
        return data
    region = None if roi is None else const(np.array(roi, "float64"))
    return run_time_resize.resized(ctx, data, const(np.array(scales, "float64")), None, attrs, region, axes)


@op("ImageDecoder")
def image_decoder(ctx, inputs, attrs):
    return relay.image.decode(inputs[0], attrs.get("pixel_format", "RGB"))


@op("Upsample")
def upsample_7(ctx, inputs, attrs):
    return _upsample(ctx, inputs[0], attrs["scales"], attrs)


@op("Upsample", since=9)
@op("Resize", since=10)
def upsample(ctx, inputs, attrs):
    if ctx.is_run_time_value(inputs[1]):
        return run_time_resize.resized(ctx, inputs[0], inputs[1], None, _upsampling(attrs))
    return _upsample(ctx, inputs[0], [float(v) for v in ctx.array(inputs[1], "the scales").reshape(-1)], attrs)


def _upsample(ctx, data, scales, attrs):
    return _by_scales(ctx, data, scales, _upsampling(attrs))


def _upsampling(attrs) -> dict:
    return {
        "mode": attrs.get("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }


@op("Resize", since=11)
def resize(ctx, inputs, attrs):
    data = inputs[0]
    shape = ctx.shape(data)
    chosen = [axis_of(a, len(shape)) for a in attrs.get("axes", range(len(shape)))]
    roi, scales, sizes = _resizing(ctx, inputs, attrs)
    if ctx.is_run_time_value(roi, scales, sizes):
        plain = attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch" and roi is None
        if not (plain and sizes is not None and decides(ctx, data)):
            return run_time_resize.resized(ctx, data, scales, sizes, attrs, roi, chosen)
        wanted = [shape_of_output(ctx, "the sizes")[a] for a in chosen]
        return resized(ctx, data, wanted, [o / shape[a] for o, a in zip(wanted, chosen)], attrs, None, chosen)
    region = None if roi is None else [float(v) for v in ctx.array(roi, "the region").reshape(-1)]
    if sizes is None:
        factors = [float(v) for v in ctx.array(scales, "the scales").reshape(-1)]
        return _by_scales(ctx, data, factors, attrs, region, chosen)
    if not all(isinstance(shape[a], int) for a in chosen):
        return run_time_resize.resized(ctx, data, None, sizes, attrs, roi, chosen)
    return _by_sizes(ctx, data, ctx.ints(sizes, "the sizes"), attrs, region, chosen)


def _resizing(ctx, inputs, attrs) -> list:
    """Return the region, scales and sizes of a Resize; None for inputs that are absent or empty.

    The region is used only by the coordinate transformation mode tf_crop_and_resize.
    """
    given = [argument(inputs, i) for i in (1, 2, 3)]
    roi, scales, sizes = (None if e is None or 0 in ctx.shape(e) else e for e in given)
    if scales is None and sizes is None:
        raise TVMError("one of the inputs scales and sizes must be given")
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return [roi if crop else None, scales, None if scales is not None else sizes]


def _by_sizes(ctx, data, sizes, attrs, roi, axes):
    shape = ctx.shape(data)
    if len(sizes) != len(axes):
        raise TVMError(f"there are {len(sizes)} sizes for {len(axes)} axes")
    if any(s <= 0 for s in sizes):
        raise TVMError(f"sizes must be positive, got {sizes}")
    if any(shape[a] == 0 for a in axes):
        raise TVMError(f"cannot resize an axis of size 0: the data has the shape {list(shape)}")
    scales = [o / shape[a] for o, a in zip(sizes, axes)]
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        one = min(scales) if policy == "not_larger" else max(scales)
        scales = [one] * len(scales)
        sizes = [int(np.floor(one * shape[a] + 0.5)) for a in axes]
    return resized(ctx, data, sizes, scales, attrs, roi, axes)


# -- sampling at computed coordinates -------------------------------------------------------------------------------


def _reflect(ctx, at, low: float, high: float):
    """Reflect a coordinate at both bounds until it is in range."""
    span = high - low
    if span <= 0:
        return relay.zeros_like(at)
    apart = relay.abs(relay.subtract(at, ctx.like(low, at)))
    turns = relay.floor(relay.divide(apart, ctx.like(span, at)))
    rest = relay.subtract(apart, relay.multiply(turns, ctx.like(span, at)))
    odd = relay.subtract(turns, relay.multiply(ctx.like(2, at), relay.floor(relay.divide(turns, ctx.like(2, at)))))
    return relay.where(
        relay.greater(odd, ctx.like(0.5, at)),
        relay.subtract(ctx.like(high, at), rest),
        relay.add(rest, ctx.like(low, at)),
    )


@op("AffineGrid")
def affine_grid(ctx, inputs, attrs):
    """Compute a grid of points from -1 to 1 along each axis, transformed by one affine matrix per image.

    The function body that ONNX defines drops the batch axis for a single image; it is used only for dynamic shapes.
    """
    theta, size = inputs
    if ctx.is_run_time_value(size):
        return ctx.importer.function(function_body(ctx.node, ctx.version, inputs), inputs, ctx.node.attribute)
    count, _, *sizes = ctx.ints(size, "the size")
    check_count("the grid", [count, *sizes, len(sizes) + 1])
    if attrs.get("align_corners", 0):
        lines = [np.linspace(-1 if n > 1 else 1, 1, n) for n in sizes]
    else:
        lines = [(2 * np.arange(n) + 1) / n - 1 for n in sizes]
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)], -1).reshape(1, -1, len(sizes) + 1)
    moved = relay.nn.batch_matmul(const(points.astype(ctx.dtype(theta))), theta)
    return relay.reshape(moved, (count, *sizes, len(sizes)))


@op("GridSample")
def grid_sample(ctx, inputs, attrs):
    """Interpolate between the grid points around each sample; the padding mode defines the points outside the image."""
    data, grid = inputs
    if not all(isinstance(d, int) for d in (*ctx.shape(data), *ctx.shape(grid))):
        return _dynamic_grid_sample(ctx, data, grid, attrs)
    n, c, *space = ctx.known_shape(data)
    points = list(ctx.known_shape(grid)[1:-1])
    align = attrs.get("align_corners", 0)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(attrs.get("mode", "linear"), attrs.get("mode", "linear"))
    rule = attrs.get("padding_mode", "zeros")
    count = int(np.prod(points))
    flat = relay.reshape(data, (n, c, int(np.prod(space))))
    one = relay.cast(grid, "float32") if ctx.dtype(grid) != "float32" else grid
    corners = []
    for i, size in enumerate(space):
        at = relay.reshape(relay.take(one, const(len(space) - 1 - i, "int64"), ctx.rank(grid) - 1), (n, count))
        half = relay.multiply(relay.add(at, const(1.0, "float32")), const(0.5, "float32"))
        at = (
            relay.multiply(half, const(float(size - 1), "float32"))
            if align
            else relay.subtract(relay.multiply(half, const(float(size), "float32")), const(0.5, "float32"))
        )
        corners.append(_taps(ctx, at, size, mode, rule, align))
    out = None
    for chosen in np.ndindex(*[len(t) for t in corners]):
        place = weight = None
        for axis, k in enumerate(chosen):
            index, w = corners[axis][k]
            place = index if place is None else relay.add(relay.multiply(place, const(space[axis], "int64")), index)
            weight = (
                w if weight is None else w if weight is _ONE else weight if w is _ONE else relay.multiply(weight, w)
            )
        taken = relay.gather(flat, 2, relay.broadcast_to(relay.expand_dims(place, 1), (n, c, count)))
        if weight is not _ONE:
            taken = relay.multiply(taken, relay.cast(relay.expand_dims(weight, 1), ctx.dtype(data)))
        out = taken if out is None else relay.add(out, taken)
    return relay.reshape(out, (n, c, *points))


def _dynamic_grid_sample(ctx, data, grid, attrs):
    """Sample images with dynamic shapes by Relay's ``grid_sample``, which supports two and three spatial dimensions."""
    rank, names = ctx.rank(data), {"linear": "bilinear", "cubic": "bicubic"}
    layout = {4: "NCHW", 5: "NCDHW"}.get(rank)
    if layout is None:
        raise TVMError(
            f"images with {rank - 2} spatial dimensions must have static shapes; pass the input shapes to from_onnx"
        )
    mode = attrs.get("mode", "linear")
    places = relay.transpose(relay.cast(grid, "float32") if ctx.dtype(grid) != "float32" else grid,
                             [0, rank - 1, *range(1, rank - 1)])  # fmt: skip
    return relay.image.grid_sample(data, places, names.get(mode, mode), layout, attrs.get("padding_mode", "zeros"),
                                   bool(attrs.get("align_corners", 0)))  # fmt: skip


_ONE = object()


def _taps(ctx, at, size: int, mode: str, rule: str, align: int) -> list:
    """Return (index, weight) pairs of the elements that interpolation at a coordinate uses, along one axis."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)

    def inside(index):
        """Return an integer coordinate moved into range, and its weight: 0 or 1 for zero padding."""
        weight = _ONE
        if rule == "zeros":
            ok = relay.logical_and(
                relay.greater_equal(index, ctx.like(0, index)), relay.less(index, ctx.like(size, index))
            )
            weight = relay.cast(ok, "float32")
        elif rule == "reflection":
            index = _reflect(ctx, index, low, high)
        index = relay.minimum(relay.maximum(index, ctx.like(0, index)), ctx.like(size - 1, index))
        return relay.cast(relay.round(index) if rule == "reflection" else index, "int64"), weight

    if mode != "cubic" and rule == "reflection":
        at = _reflect(ctx, at, low, high)
    if mode != "cubic" and rule != "zeros":
        at = relay.minimum(relay.maximum(at, ctx.like(0, at)), ctx.like(size - 1, at))
    if mode == "nearest":
        return [inside(relay.round(at))]
    base = relay.floor(at)
    ratio = relay.subtract(at, base)
    offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    out = []
    for k in offsets:
        distance = relay.abs(relay.subtract(ratio, ctx.like(k, at)))
        weight = relay.subtract(ctx.like(1, at), distance) if mode == "linear" else _cubic_weight(ctx, distance)
        index, extra = inside(relay.add(base, ctx.like(k, at)))
        out.append((index, weight if extra is _ONE else relay.multiply(weight, extra)))
    return out


def _cubic_weight(ctx, d):
    a = -0.75

    def polynomial(*factors):
        out = ctx.like(factors[0], d)
        for f in factors[1:]:
            out = relay.add(relay.multiply(out, d), ctx.like(f, d))
        return out

    near = polynomial(a + 2, -(a + 3), 0.0, 1.0)
    far = polynomial(a, -5 * a, 8 * a, -4 * a)
    return relay.where(
        relay.less_equal(d, ctx.like(1, d)), near, relay.where(relay.less(d, ctx.like(2, d)), far, relay.zeros_like(d))
    )


@op("RoiAlign")
def roi_align(ctx, inputs, attrs):
    data, rois, batch = inputs
    mode = attrs.get("mode", "avg")
    if mode not in ("avg", "max"):
        raise TVMError(f"mode must be 'avg' or 'max', got '{mode}'")
    height, width = attrs.get("output_height", 1), attrs.get("output_width", 1)
    ratio = attrs.get("sampling_ratio", 0)
    check_steps("a row of samples", ratio)
    if height < 1 or width < 1:
        raise TVMError(f"output_height and output_width must be positive, got {height} and {width}")
    shift = attrs.get("coordinate_transformation_mode", "half_pixel" if ctx.version >= 16 else "output_half_pixel")
    rows = relay.concatenate([relay.expand_dims(relay.cast(batch, ctx.dtype(rois)), 1), rois], 1)
    return relay.vision.roi_align(
        data,
        rows,
        (height, width),
        attrs.get("spatial_scale", 1.0),
        ratio,
        "NCHW",
        mode,
        aligned=shift == "half_pixel",
        weighted_max=True,
    )


@op("DeformConv")
def deform_conv(ctx, inputs, attrs):
    data, weight, offset = inputs[:3]
    mask, groups = argument(inputs, 4), attrs.get("group", 1)
    outputs, _, *kernel = ctx.known_shape(weight)
    if len(kernel) != 2:
        raise TVMError(f"deformable convolutions with {len(kernel)} spatial dimensions are not supported")
    window = {
        "strides": tuple(attrs.get("strides", [1, 1])),
        "padding": tuple(attrs.get("pads", [0, 0, 0, 0])),
        "dilation": tuple(attrs.get("dilations", [1, 1])),
        "deformable_groups": attrs.get("offset_group", 1),
    }
    if mask is None:
        out = relay.nn.deformable_conv2d(data, offset, weight, groups=groups, channels=outputs,
                                         kernel_size=tuple(kernel), **window)  # fmt: skip
    else:
        out = masked_deformable(ctx, data, offset, mask, weight, groups, **window)
    return biased(out, argument(inputs, 3))
