"""Converters of image resizing, grid sampling and pooling over regions of interest."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import run_time, run_time_resize
from ..common.resize import resized
from .shape_ops import channels_last
from .table import Context, check_count, check_steps, op

_KINDS = {"nearest": ("nearest", 2), "linear": ("linear", 1), "bilinear": ("linear", 2), "trilinear": ("linear", 3),
          "bicubic": ("cubic", 2)}  # fmt: skip


def _rule(ctx: Context, mode: str) -> dict:
    """Return the interpolation attributes. The coordinate transformation is align_corners, half_pixel or asymmetric."""
    corners = ctx.attr("align_corners", True)
    middle = mode == "cubic" or mode == "linear" and ctx.attr("align_mode", 1) == 0
    places = "align_corners" if corners else "half_pixel" if middle else "asymmetric"
    return {"mode": mode, "coordinate_transformation_mode": places,
            "nearest_mode": "round_prefer_ceil" if corners else "floor"}  # fmt: skip


def _requested_sizes(ctx: Context, n: int) -> tuple[RelayExpr | None, RelayExpr | None]:
    """Return the requested sizes or the scales of the resized axes; the other is None."""
    if ctx.has("SizeTensor"):
        return run_time.joined(ctx, [run_time.vector(ctx, t) for t in ctx.tensors("SizeTensor")]), None
    if ctx.has("OutSize"):
        return run_time.vector(ctx, ctx.get("OutSize")), None
    scales = ctx.maybe("Scale")
    if scales is not None:
        scales = ctx.made(relay.cast(relay.reshape(scales, (-1,)), "float64"))
        return None, run_time.joined(ctx, [scales] * n) if ctx.length(scales, "the scales") == 1 else scales
    given = ctx.operator.attrs.get("scale", [])
    given = given if isinstance(given, list) else [given] if given > 0 else []
    given = given * n if len(given) == 1 else given
    if given:
        if len(given) != n or not all(0 < s < np.inf for s in given):
            raise TVMError(f"the attribute 'scale' must be {n} positive numbers, got {given}")
        return None, const(np.array(given, "float64"))
    sizes = [ctx.attr(name, 0) for name in ("out_d", "out_h", "out_w")[3 - n :]]
    if min(sizes) < 1:
        raise TVMError(f"neither sizes nor scales are given (out_d, out_h, out_w: {sizes})")
    return run_time.number(sizes), None


def _resized(ctx: Context, mode: str, n: int) -> RelayExpr:
    x = ctx.get("X")
    axes = list(range(1, n + 1)) if channels_last(ctx, "data_layout") else list(range(2, n + 2))
    if ctx.rank(x) != n + 2:
        raise TVMError(f"data of {ctx.rank(x)} dimensions is not supported; expected {n + 2}")
    rule, (sizes, scales) = _rule(ctx, mode), _requested_sizes(ctx, n)
    have = [ctx.shape(x)[a] for a in axes]
    if ctx.is_run_time_value(sizes, scales) or not all(isinstance(d, int) for d in have):
        return _resize_dynamic(ctx, x, axes, rule, sizes, scales)
    if sizes is not None:
        wanted = ctx.ints(sizes, "the sizes") or []
        factors = [o / d for o, d in zip(wanted, have)]
    else:
        factors = [float(v) for v in ctx.array(scales, "the scales")]
        wanted = [int(d * s) for d, s in zip(have, factors)]
    if len(wanted) != n or min(wanted) < 1:
        raise TVMError(f"an image of size {have} cannot be resized to {wanted}")
    check_count("an image", wanted)
    return resized(ctx, x, wanted, factors, rule, None, axes)


def _resize_dynamic(ctx: Context, x: RelayExpr, axes: list[int], rule: dict, sizes, scales) -> RelayExpr:
    """Resize to sizes known only at run time. Nearest-neighbor scaling by an integer repeats elements."""
    known = ctx.value(scales)
    plain = rule["mode"] == "nearest" and rule["coordinate_transformation_mode"] == "asymmetric"
    if known is not None and plain and (known == known.astype("int64")).all():
        for axis, s in zip(axes, known):
            x = relay.repeat(x, int(s), axis) if s != 1 else x
        return x
    return run_time_resize.resized(ctx, x, scales, sizes, rule, None, axes)


for _name, (_mode, _n) in _KINDS.items():
    op(f"{_name}_interp", f"{_name}_interp_v2")(lambda ctx, mode=_mode, n=_n: _resized(ctx, mode, n))


# -- grid sampling ----------------------------------------------------------------------------------------------------


@op("grid_sampler")
def grid_sampler(ctx):
    x, grid = ctx.get("X"), ctx.get("Grid")
    mode, rule, n = ctx.attr("mode", "bilinear"), ctx.attr("padding_mode", "zeros"), ctx.rank(x) - 2
    if mode not in ("bilinear", "nearest") or rule not in ("zeros", "border", "reflection") or n not in (2, 3):
        raise TVMError(f"sampling mode {mode!r} with padding mode {rule!r} over {n} dimensions is not supported")
    # Move the coordinate axis to position 1, as relay.image.grid_sample expects.
    places = relay.transpose(grid, [0, n + 1, *range(1, n + 1)])
    layout = "NCHW" if n == 2 else "NCDHW"
    return relay.image.grid_sample(x, places, mode, layout, rule, bool(ctx.attr("align_corners", True)))


@op("affine_grid")
def affine_grid(ctx):
    sizes = ctx.ints(ctx.vector("output_shape", "OutputShape"), "the output shape") or []
    if len(sizes) != 4:
        raise TVMError(f"a grid over {len(sizes) - 2} dimensions is not supported; expected 2")
    check_count("a grid", sizes)
    made = relay.image.affine_grid(ctx.get("Theta"), sizes[2:], bool(ctx.attr("align_corners", True)))
    return relay.transpose(made, (0, 2, 3, 1))


# -- regions of interest ----------------------------------------------------------------------------------------------


def region_rows(ctx: Context, x: RelayExpr, rois: RelayExpr) -> RelayExpr:
    """Prepend the image index to each region, computed from the number of regions per image."""
    counts = ctx.maybe("RoisNum")
    if counts is None:
        if ctx.shape(x)[0] != 1:
            raise TVMError(
                "the input 'RoisNum' (the number of regions of each image) is required for a batch size other than 1"
            )
        image = relay.zeros_like(relay.strided_slice(rois, [0], [1], [1], [1]))
        return relay.concatenate([image, rois], 1)
    ends = relay.expand_dims(relay.cumsum(relay.cast(counts, "int64"), 0), 0)
    number = relay.expand_dims(run_time.counted(ctx, run_time.size_of(ctx, rois, 0)), 1)
    image = relay.sum(relay.cast(relay.greater_equal(number, ends), ctx.dtype(rois)), axis=1, keepdims=True)
    return relay.concatenate([image, rois], 1)


@op("roi_align")
def roi_align(ctx):
    x, ratio = ctx.get("X"), ctx.attr("sampling_ratio", -1)
    size = (ctx.attr("pooled_height", 1), ctx.attr("pooled_width", 1))
    check_steps("a row of samples", ratio)
    check_count("a region", size)
    if min(size) < 1:
        raise TVMError(f"a pooled size of {size} is not supported; it must be positive")
    return relay.vision.roi_align(x, region_rows(ctx, x, ctx.get("ROIs")), size, float(ctx.attr("spatial_scale", 1.0)),
                                  ratio, "NCHW", "avg", aligned=bool(ctx.attr("aligned", False)))  # fmt: skip


@op("roi_pool")
def roi_pool(ctx):
    x = ctx.get("X")
    size = (ctx.attr("pooled_height", 1), ctx.attr("pooled_width", 1))
    check_count("a region", size)
    if min(size) < 1:
        raise TVMError(f"a pooled size of {size} is not supported; it must be positive")
    rows = region_rows(ctx, x, ctx.get("ROIs"))
    return relay.vision.roi_pool(x, rows, size, float(ctx.attr("spatial_scale", 1.0)))


__all__ = ["region_rows"]
