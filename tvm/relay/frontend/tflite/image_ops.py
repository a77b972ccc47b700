"""Converters of resizing.

Along each axis, an output element is a weighted sum of two elements with constant indices and weights.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common.context import check_count
from .table import Context, moving, op, quantized

# Number of fraction bits of the weights for integer data.
_BITS = 10


def _sizes(ctx: Context, inputs: list, options) -> list[tuple[int, int, int]]:
    """Return (axis, size, new size) of height and width."""
    shape, wanted = ctx.known_shape(inputs[0]), ctx.ints(inputs[1], "the new size")
    if len(shape) != 4 or len(wanted) != 2 or min(wanted) < 1 or not all(shape[1:3]):
        raise TVMError(f"cannot resize an image of shape {list(shape)} to the size {wanted}")
    if options.align_corners and options.half_pixel_centers:
        raise TVMError("align_corners and half_pixel_centers must not both be set")
    check_count("an image", [shape[0], *wanted, shape[3]])
    return [(1, shape[1], wanted[0]), (2, shape[2], wanted[1])]


def _scale(size: int, out: int, options) -> np.float32:
    if options.align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def _sum_of_two(x: RelayExpr, axis: int, low, high, weights, rest) -> RelayExpr:
    shape = [-1 if i == axis else 1 for i in range(4)]
    parts = [
        relay.multiply(relay.take(x, Constant(places.astype("int32")), axis), Constant(w.reshape(shape)))
        for places, w in ((low, rest), (high, weights))
        if w.any()
    ]
    return relay.add(*parts) if len(parts) == 2 else parts[0]


@op("RESIZE_BILINEAR")
def resize_bilinear(ctx, inputs, options):
    out = inputs[0]
    for axis, size, new in _sizes(ctx, inputs, options):
        at = np.arange(new, dtype="float32")
        scale = _scale(size, new, options)
        at = (at + np.float32(0.5)) * scale - np.float32(0.5) if options.half_pixel_centers else at * scale
        low = np.maximum(np.floor(at), 0)
        high = np.minimum(np.ceil(at), size - 1)
        weights = (at - low).astype("float32")
        out = _sum_of_two(out, axis, np.minimum(low, size - 1), np.maximum(high, 0), weights, 1 - weights)
    return out


@quantized("RESIZE_BILINEAR")
def integer_resize_bilinear(ctx, inputs, options):
    if ctx.tensor(0).dtype == "uint8":
        # The kernel for this type computes in float; sums exactly midway between two integers depend on the order of
        # additions.
        real = resize_bilinear(ctx, [relay.cast(inputs[0], "float32"), *inputs[1:]], options)
        return relay.cast(relay.floor(relay.add(real, const(0.5))), "uint8")
    kind = "int64" if ctx.tensor(0).dtype == "int16" else "int32"
    out = relay.cast(inputs[0], kind)
    for axis, size, new in _sizes(ctx, inputs, options):
        if options.align_corners and new > 1:
            scale = ((size - 1 << _BITS) + (new - 1) // 2) // (new - 1)
        else:
            scale = ((size << _BITS) + new // 2) // new
        at = np.arange(new, dtype="int64") * scale
        at = at + scale // 2 - (1 << _BITS - 1) if options.half_pixel_centers else at
        low = np.clip(at >> _BITS, 0, size - 1)
        high = np.clip(-(-at >> _BITS), 0, size - 1)
        weights = (at - (np.maximum(at >> _BITS, 0) << _BITS)).astype(kind)
        out = _sum_of_two(out, axis, low, high, weights, (1 << _BITS) - weights)
    half = const(1 << 2 * _BITS - 1, kind)
    whole = relay.right_shift(relay.add(relay.abs(out), half), const(2 * _BITS, kind))
    return relay.cast(relay.multiply(relay.sign(out), whole), ctx.result().dtype)


@moving("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(ctx, inputs, options):
    out = inputs[0]
    for axis, size, new in _sizes(ctx, inputs, options):
        at = np.arange(new, dtype="float32")
        at = (at + np.float32(0.5 if options.half_pixel_centers else 0)) * _scale(size, new, options)
        places = np.floor(at + np.float32(0.5)) if options.align_corners else np.floor(at)
        out = relay.take(out, Constant(np.clip(places, 0, size - 1).astype("int32")), axis)
    return out
