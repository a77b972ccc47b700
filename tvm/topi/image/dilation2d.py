"""Morphological dilation of images."""

from __future__ import annotations

from collections.abc import Sequence

from ... import te, tir
from ...dtype import canonical
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import convert
from .. import utils
from ..assumptions import agree
from ..reduction import least
from ..utils import check_tensor, get_const_int


def _pair(value, what: str, at: int) -> tuple[int, int]:
    """Return the values for rows and columns. Four values are for all dimensions of the image; ``at`` is the dimension
    of its rows."""
    values = [value, value] if isinstance(value, int) else [get_const_int(v) for v in value]
    if len(values) == 4 and [v for n, v in enumerate(values) if n not in (at, at + 1)] == [1, 1]:
        values = values[at : at + 2]
    if len(values) != 2 or min(values) < 1:
        raise ExprValueError(
            f"dilation2d: {what} must be one or two positive numbers, or four with 1 for images and channels, got "
            f"{value}"
        )
    return values[0], values[1]


def _padding(padding, kernel: Sequence[int], sizes: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Return the padding (top, left, bottom, right)."""
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [0, 0, 0, 0]
        if padding.upper() != "SAME":
            raise ExprValueError(f"dilation2d: padding must be VALID, SAME or numbers, got '{padding}'")
        totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(sizes, kernel, stride)]
        return [totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2]
    values = [padding] if isinstance(padding, int) else [get_const_int(v) for v in padding]
    if len(values) not in (1, 2, 4):
        raise ExprValueError(f"dilation2d: padding must have 1, 2 or 4 values, got {len(values)}")
    if min(values) < 0:
        raise ExprValueError(f"dilation2d: padding must not be negative, got {values}")
    return values * (4 // len(values))


def _dilation(data, kernel, at: int, channel: int, stride, padding, dilations, out_dtype):
    check_tensor(data, "dilation2d"), check_tensor(kernel, "dilation2d")
    if len(data.shape) != 4 or len(kernel.shape) != 3:
        raise ExprValueError(
            f"dilation2d: images must have 4 and kernels 3 dimensions, got {len(data.shape)} and {len(kernel.shape)}"
        )
    stride, dilations = _pair(stride, "stride", at), _pair(dilations, "dilations", at)
    # The kernel has the channel first or last, like the image.
    spatial = (1, 2) if channel == 1 else (0, 1)
    filters = kernel.shape[3 - sum(spatial)]
    if not agree(data.shape[channel], filters, "equal channels of images and kernel"):
        raise ExprValueError(f"dilation2d: images have {data.shape[channel]} channels, but the kernel has {filters}")
    sizes = [get_const_int(kernel.shape[p]) for p in spatial]
    reach = [(size - 1) * d + 1 for size, d in zip(sizes, dilations)]
    images = [data.shape[at], data.shape[at + 1]]
    known = isinstance(padding, str)
    pads = _padding(padding, reach, utils.get_const_tuple(images) if known else (0, 0), stride)
    out = [utils.simplify((images[n] + pads[n] + pads[n + 2] - reach[n]) // stride[n] + 1) for n in (0, 1)]
    out_dtype = canonical(out_dtype) if out_dtype else data.dtype
    over = [te.reduce_axis((0, size), name=name) for size, name in zip(sizes, ("kh", "kw"))]
    shape = list(data.shape)
    shape[at], shape[at + 1] = out

    def element(*indices):
        places = [indices[at + n] * stride[n] + over[n].var * dilations[n] - convert(pads[n]) for n in (0, 1)]
        weight = kernel(indices[channel], *over) if channel == 1 else kernel(*over, indices[channel])
        inside = tir.all(*[tir.all(p >= 0, p < size) for p, size in zip(places, images)])
        value = primop.cast(out_dtype, data(*indices[:at], *places, *indices[at + 2 :])) + primop.cast(
            out_dtype, weight
        )
        return te.max(te.if_then_else(inside, value, least(out_dtype)), axis=over)

    return te.compute(shape, lambda *i: element(*i), name="T_dilation2d", tag="dilation2d")


def dilation2d_nchw(input, filter, stride, padding, dilations, out_dtype=None):
    """The maximum of the sums of image and kernel elements under the kernel (C, kh, kw), at each position."""
    return _dilation(input, filter, 2, 1, stride, padding, dilations, out_dtype)


def dilation2d_nhwc(input, filter, stride, padding, dilations, out_dtype=None):
    """The maximum of the sums of image and kernel elements under the kernel (kh, kw, C), at each position."""
    return _dilation(input, filter, 1, 3, stride, padding, dilations, out_dtype)


__all__ = ["dilation2d_nchw", "dilation2d_nhwc"]
