"""Fourier transforms of static lengths, as matmuls with constant matrices."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import RelayExpr, const
from .context import NodeContext


def _waves(length: int, size: int, dtype: str, inverse: bool):
    """Return matrices of cosines and sines, with one row per frequency."""
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(size)) / length
    sign = 1 if inverse else -1
    return np.cos(angle).astype(dtype), (sign * np.sin(angle)).astype(dtype)


def fourier(
    ctx: NodeContext, real: RelayExpr, imaginary: RelayExpr | None, axis: int, length: int, inverse: bool,
    onesided: bool,
) -> tuple[RelayExpr, RelayExpr | None]:  # fmt: skip
    """Return the real and imaginary parts of a Fourier transform along an axis, cropped or zero-padded to ``length``.

    The inverse of a one-sided spectrum is real; every inverse is divided by the length.
    """
    dtype = ctx.dtype(real)
    if dtype in ("float16", "bfloat16", "float32"):
        # Terms cancel: float64 accumulation keeps small frequency components accurate.
        wide = [v if v is None else ctx.made(relay.cast(v, "float64")) for v in (real, imaginary)]
        re, im = fourier(ctx, *wide, axis, length, inverse, onesided)
        return relay.cast(re, dtype), im if im is None else relay.cast(im, dtype)
    shape = ctx.known_shape(real)
    half = inverse and onesided
    size = min(shape[axis], length // 2 + 1 if half else length)
    cosine, sine = _waves(length, size, dtype, inverse)
    if half:
        # Frequencies above half of the sampling rate are the conjugates of those below it.
        weight = np.array([1.0 if i == 0 or 2 * i == length else 2.0 for i in range(size)], dtype)
        cosine, sine = cosine * weight, sine * weight
    elif onesided:
        cosine, sine = (v[: length // 2 + 1] for v in (cosine, sine))
    if inverse:
        cosine, sine = cosine / length, sine / length
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    sizes = [shape[i] for i in order[:-1]]

    def rows(x: RelayExpr) -> RelayExpr:
        x = relay.strided_slice(x, [0], [size], [1], [axis]) if shape[axis] > size else x
        return relay.reshape(relay.transpose(x, order), (-1, size))

    def back(x: RelayExpr) -> RelayExpr:
        made = relay.reshape(x, (*sizes, len(cosine)))
        return relay.transpose(made, [order.index(i) for i in range(len(shape))])

    across = rows(real)
    re = relay.nn.dense(across, const(cosine))
    im = None if half else relay.nn.dense(across, const(sine))
    if imaginary is not None:
        along = rows(imaginary)
        re = relay.subtract(re, relay.nn.dense(along, const(sine)))
        im = im if im is None else relay.add(im, relay.nn.dense(along, const(cosine)))
    return back(re), im if im is None else back(im)


__all__ = ["fourier"]
