"""Resizing along each axis: each output element is a weighted sum of a few elements with constant indices and weights.

The sums become gathers with constant indices, which implement all coordinate transformation modes.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .context import axis_of, check_count

# Weighted sums of more elements than this (antialiasing, strong downscaling) become matmuls with a weight matrix.
_MOST_TAPS = 4
# The number of elements on each side that contribute to an output element, by interpolation mode.
_REACHES = {"linear": 1, "cubic": 2, "lanczos": 3}


class Axis:
    """The resizing of one axis.

    The nearest element is determined in float32, as in other implementations: a coordinate from a decimal scale can be
    exactly between two elements in float32, but not in float64.
    """

    def __init__(self, size: int, out: int, scale: float, attrs, roi: tuple[float, float]):
        self.size, self.out, self.scale, self.attrs = size, out, scale, attrs
        check_count("an axis", [out])
        kind = np.float32 if attrs.get("mode", "nearest") == "nearest" else np.float64
        x, scale = np.arange(out, dtype=kind), kind(scale)
        mode = attrs.get("coordinate_transformation_mode", "half_pixel")
        if mode == "half_pixel":
            at = (x + 0.5) / scale - 0.5
        elif mode == "half_pixel_symmetric":
            shrink = out / (scale * size)
            at = size / 2 * (1 - shrink) + (x + 0.5) / scale - 0.5
        elif mode == "pytorch_half_pixel":
            at = (x + 0.5) / scale - 0.5 if out > 1 else x * 0
        elif mode == "align_corners":
            at = x * (size - 1) / (out - 1) if out > 1 else x * 0
        elif mode == "asymmetric":
            at = x / scale
        elif mode == "tf_half_pixel_for_nn":
            at = (x + 0.5) / scale
        elif mode == "tf_crop_and_resize":
            begin, end = roi
            step = (end - begin) * (size - 1) / (out - 1) if out > 1 else 0.0
            at = begin * (size - 1) + x * step if out > 1 else np.full(1, 0.5 * (begin + end) * (size - 1))
        else:
            raise TVMError(f"coordinate_transformation_mode '{mode}' is not supported")
        self.at = at
        self.outside = (at < 0) | (at > size - 1) if mode == "tf_crop_and_resize" else np.zeros(out, bool)

    def nearest(self):
        rule = self.attrs.get("nearest_mode", "round_prefer_floor")
        at = self.at
        if rule == "round_prefer_floor":
            places = np.ceil(at - 0.5)
        elif rule == "round_prefer_ceil":
            places = np.floor(at + 0.5)
        elif rule in ("floor", "ceil"):
            places = np.floor(at) if rule == "floor" else np.ceil(at)
        else:
            raise TVMError(f"nearest_mode '{rule}' is not supported")
        return np.clip(places, 0, self.size - 1).astype("int64")

    def weights(self, mode: str):
        """Return the indices and weights of the source elements, one row for each output element."""
        base = np.floor(self.at)
        ratio = self.at - base
        steps = self.attrs.get("ratio_steps")
        if steps is not None and mode == "cubic":
            # Some kernels quantize the interpolation ratio to a table with this number of steps.
            ratio = np.rint(ratio * steps) / steps
        scale = min(self.scale, 1.0) if self.attrs.get("antialias", 0) else 1.0
        reach = int(np.ceil(_REACHES[mode] / scale))
        offsets = np.arange(1 - reach, reach + 1)
        distance = np.abs(offsets[None, :] - ratio[:, None]) * scale
        if mode == "linear":
            taps = np.clip(1 - distance, 0, 1)
        elif mode == "lanczos":
            taps = np.where(distance < 3, np.sinc(distance) * np.sinc(distance / 3), 0.0)
        else:
            taps = cubic(distance, self.attrs.get("cubic_coeff_a", -0.75))
        places = (base[:, None] + offsets[None, :]).astype("int64")
        if self.attrs.get("exclude_outside", 0):
            taps = np.where((places < 0) | (places >= self.size), 0.0, taps)
        if self.attrs.get("exclude_outside", 0) or scale != 1.0:
            taps = taps / taps.sum(1, keepdims=True)
        return np.clip(places, 0, self.size - 1), taps

    def apply(self, ctx, data, axis: int, mode: str):
        if mode == "nearest" or not self.out:
            return relay.take(data, const(self.nearest()), axis)
        places, taps = self.weights(mode)
        rank, dtype = ctx.rank(data), ctx.dtype(data)
        if taps.shape[1] > _MOST_TAPS:
            return self._by_matrix(ctx, data, axis, places, taps)
        out = None
        for k in range(taps.shape[1]):
            if not taps[:, k].any():
                continue
            weight = taps[:, k].reshape([-1 if i == axis else 1 for i in range(rank)])
            part = relay.multiply(relay.take(data, const(places[:, k].copy()), axis), const(weight.astype(dtype)))
            out = part if out is None else relay.add(out, part)
        return out

    def _by_matrix(self, ctx, data, axis: int, places, taps):
        check_count("the matrix of weights", [self.out, self.size])
        matrix = np.zeros((self.out, self.size))
        np.add.at(matrix, (np.arange(self.out)[:, None], places), taps)
        rank = ctx.rank(data)
        order = [i for i in range(rank) if i != axis] + [axis]
        moved = relay.transpose(data, order)
        shape = ctx.known_shape(moved)
        flat = relay.reshape(moved, (-1, self.size))
        out = relay.reshape(relay.nn.dense(flat, const(matrix.astype(ctx.dtype(data)))), (*shape[:-1], self.out))
        back = [order.index(i) for i in range(rank)]
        return relay.transpose(out, back)


def cubic(d, a: float):
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def resized(ctx, data, out_sizes, scales, attrs, roi=None, axes=None):
    """Resize ``data`` along ``axes``, to which sizes, scales and region refer."""
    shape = ctx.shape(data)
    axes = list(range(len(shape))) if axes is None else [axis_of(a, len(shape)) for a in axes]
    mode = attrs.get("mode", "nearest")
    mode = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode != "nearest" and mode not in _REACHES:
        raise TVMError(f"resizing mode '{mode}' is not supported")
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    kept = ctx.dtype(data)
    out = data if mode == "nearest" or ctx.is_float(data) else relay.cast(data, "float32")
    outside = np.zeros((1,) * len(shape), bool)
    for i, axis in enumerate(axes):
        region = (roi[i], roi[i + len(axes)]) if crop and roi else (0.0, 1.0)
        cut = crop and region != (0.0, 1.0)
        # A dynamic dimension is not resized here.
        if not isinstance(shape[axis], int) or out_sizes[i] == shape[axis] and scales[i] == 1.0 and not cut:
            continue
        rule = Axis(shape[axis], out_sizes[i], scales[i], attrs, region)
        out = rule.apply(ctx, out, axis, mode)
        outside = outside | rule.outside.reshape([-1 if j == axis else 1 for j in range(len(shape))])
    if outside.any():
        out = relay.where(const(outside), ctx.like(attrs.get("extrapolation_value", 0.0), out), out)
    return out if ctx.dtype(out) == kept else relay.cast(relay.round(out), kept)


__all__ = ["resized"]
