"""Converters of resizing and of sampling at computed coordinates."""

from __future__ import annotations

import math

import numpy as np

from ... import op as relay
from ...expr import const
from ..common import run_time_resize
from ..common.resize import resized
from .table import op

_NAMES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _resize(ctx, x, sizes, scales, mode: str, align_corners: bool, exact: bool = False, antialias: bool = False):
    """Resize the spatial axes. Source coordinates are computed from the scales if the model has them, otherwise from
    the sizes.
    """
    n = ctx.rank(x) - 2
    attrs = {"mode": mode, "antialias": antialias, "exclude_outside": antialias}
    by_corners = align_corners and antialias
    if mode == "nearest":
        attrs["coordinate_transformation_mode"] = "half_pixel" if exact else "asymmetric"
        attrs["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
    else:
        # With antialiasing, align_corners only affects the scale.
        attrs["coordinate_transformation_mode"] = "align_corners" if align_corners and not by_corners else "half_pixel"
    if mode == "cubic" and antialias:
        attrs["cubic_coeff_a"] = -0.5
    axes = list(range(2, n + 2))
    sizes = sizes * n if sizes is not None and len(sizes) == 1 else sizes
    if not all(isinstance(d, int) for d in [*ctx.shape(x)[2:], *(sizes or [])]):
        # The output sizes are also computed from the scales.
        late = None if scales else ctx.infer(ctx.shape_vector(sizes))
        scale = const(np.array(scales, "float64")) if scales else None
        return run_time_resize.resized(ctx, x, scale, late, attrs, None, axes)
    shape = ctx.spatial(x)
    if sizes is None:
        sizes = [int(s * f) for s, f in zip(shape, scales)]
    factors = [f if f else o / s for o, s, f in zip(sizes, shape, scales or [None] * n)]
    if by_corners:
        factors = [(o - 1) / (s - 1) if min(o, s) > 1 else math.inf for o, s in zip(sizes, shape)]
    # An explicit scale changes the source coordinates even if all sizes are unchanged.
    return resized(ctx, x, sizes, factors, attrs, None, axes)


def _one_size(ctx, output_size, size, scale_factors, scales, n: int):
    wanted = output_size if output_size is not None else size
    factors = scale_factors if scale_factors is not None else scales
    if factors is not None and all(f is None for f in factors):
        factors = None
    return None if wanted is None else ctx.sizes(wanted), factors


def _register(name: str, n: int, mode: str, exact: bool = False, antialias: bool = False) -> None:
    @op(name)
    def convert(
        ctx,
        self,
        output_size=None,
        size=None,
        align_corners=False,
        scale_factors=None,
        scales=None,
        scales_d=None,
        scales_h=None,
        scales_w=None,
    ):
        own = scales if isinstance(scales, (list, tuple)) else [scales]
        given = {1: own, 2: [scales_h, scales_w], 3: [scales_d, scales_h, scales_w]}[n]
        sizes, factors = _one_size(ctx, output_size, size, scale_factors, given, n)
        return _resize(ctx, self, sizes, factors, mode, bool(align_corners), exact, antialias)


for _n in (1, 2, 3):
    _register(f"upsample_nearest{_n}d", _n, "nearest")
    _register(f"_upsample_nearest_exact{_n}d", _n, "nearest", exact=True)
_register("upsample_linear1d", 1, "linear")
_register("upsample_bilinear2d", 2, "linear")
_register("upsample_trilinear3d", 3, "linear")
_register("upsample_bicubic2d", 2, "cubic")
_register("_upsample_bilinear2d_aa", 2, "linear", antialias=True)
_register("_upsample_bicubic2d_aa", 2, "cubic", antialias=True)
_register("_upsample_lanczos2d_aa", 2, "lanczos", antialias=True)


@op("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(ctx, self, grid, interpolation_mode, padding_mode, align_corners):
    n = ctx.rank(self) - 2
    method = {0: "bilinear", 1: "nearest", 2: "bicubic"}[interpolation_mode]
    padding = {0: "zeros", 1: "border", 2: "reflection"}[padding_mode]
    # The Relay operator requires the coordinates as the second axis.
    order = [0, n + 1, *range(1, n + 1)]
    layout = "NCHW" if n == 2 else "NCDHW"
    return relay.image.grid_sample(self, relay.transpose(grid, order), method, layout, padding, bool(align_corners))


@op("affine_grid_generator")
def affine_grid_generator(ctx, theta, size, align_corners):
    """Multiply the coordinates of all points, from -1 to 1 along each axis, by the matrix of each image."""
    batch, _, *spatial = ctx.known_ints(size, "the size")
    n = len(spatial)
    lines = [np.linspace(-1, 1, s) * (1 if align_corners else (s - 1) / s) if s > 1 else np.zeros(1) for s in spatial]
    places = [*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(spatial)]
    points = const(np.stack([p.reshape(-1) for p in places], 1).astype(ctx.dtype(theta)))
    made = relay.nn.dense(relay.reshape(theta, (batch * n, n + 1)), points)
    return relay.transpose(relay.reshape(made, (batch, n, *spatial)), [0, *range(2, n + 2), 1])
