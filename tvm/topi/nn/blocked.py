"""1D and 3D convolutions and transposed convolutions in blocked layouts (NCW16c, NCDHW16c).

Kernels are packed in the layout in which these operators read them: (O/o, I/i, window, i, o).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import te
from ...error import TVMError
from ..utils import get_const_int, get_const_tuple, simplify
from .convolution import SPATIAL
from .pad import pad
from .utils import pads, spatial


def _check(data, kernel, n: int, what: str) -> None:
    if len(data.shape) != n + 3 or len(kernel.shape) != n + 4:
        raise TVMError(
            f"{what}: data must have {n + 3} and the kernel {n + 4} dimensions, got {len(data.shape)} and "
            f"{len(kernel.shape)}"
        )
    channels = get_const_int(data.shape[1]) * get_const_int(data.shape[-1])
    taken = get_const_int(kernel.shape[1]) * get_const_int(kernel.shape[-2])
    if channels != taken or get_const_int(data.shape[-1]) != get_const_int(kernel.shape[-2]):
        raise TVMError(f"{what}: data has {channels} channels, but the kernel takes {taken}")


def _correlation(
    source,
    kernel,
    strides: Sequence[int],
    dilations: Sequence[int],
    sizes: Sequence[Any],
    out_dtype: str,
    name: str,
    attrs: dict[str, Any] | None = None,
):
    """Return the reduction over channels and window of padded data."""
    n = len(sizes)
    outer = te.reduce_axis((0, kernel.shape[1]), name="ic_outer")
    inner = te.reduce_axis((0, kernel.shape[-2]), name="ic_inner")
    window = [te.reduce_axis((0, kernel.shape[2 + i]), name="k" + SPATIAL[n][i].lower()) for i in range(n)]

    def body(batch, oc, *at):
        *places, lane = at
        where = [p * s + k * d for p, s, k, d in zip(places, strides, window, dilations)]
        value = source(batch, outer, *where, inner).astype(out_dtype)
        return te.sum(value * kernel(oc, outer, *window, inner, lane).astype(out_dtype), axis=[outer, *window, inner])

    shape = (source.shape[0], kernel.shape[0], *sizes, kernel.shape[-1])
    return te.compute(shape, body, name=name, tag=name, attrs=attrs)


def conv_blocked(data, kernel, strides, padding, dilation, out_dtype=None):
    """A convolution of data (n, C/c, spatial, c) and a kernel (O/o, I/i, window, i, o) with one or three spatial
    dimensions.

    Raises
    ------
    TVMError
        The data does not have one or three spatial dimensions.
    """
    n = len(data.shape) - 3
    name = {1: "conv1d_NCWc", 3: "conv3d_NCDHWc"}.get(n)
    if name is None:
        raise TVMError(f"conv_blocked: data must have one or three spatial dimensions, got {n}")
    _check(data, kernel, n, name)
    out_dtype = out_dtype or data.dtype
    strides, dilations = spatial(strides, n, name + ": strides"), spatial(dilation, n, name + ": dilation")
    spans = [(get_const_int(k) - 1) * d + 1 for k, d in zip(kernel.shape[2 : 2 + n], dilations)]
    before, after = pads(padding, spans, n, name)
    source = data
    if any(before) or any(after):
        source = pad(data, (0, 0, *before, 0), (0, 0, *after, 0), name="data_pad")
    sizes = [
        simplify((d + lo + hi - k) // s + 1)
        for d, lo, hi, k, s in zip(data.shape[2 : 2 + n], before, after, spans, strides)
    ]
    return _correlation(source, kernel, strides, dilations, sizes, out_dtype, name)


# -- transposed --------------------------------------------------------------------------------------------------------


class Phase(NamedTuple):
    """One dimension of a transposed convolution with stride s. Its uncropped output at q = s * i + a uses the taps k =
    a, a + s, ... of the kernel with the data at i, i - 1, ... For each ``a`` this is an ordinary convolution of the
    data; all of them have the same window of ``taps``. ``first`` is the first i that is needed."""

    taps: int
    first: int
    count: int
    before: int
    after: int


def phase(size: int, kernel: int, stride: int, before: int, out: int) -> Phase:
    """Return the phases for ``size`` elements of data and ``out`` of the output, of which ``before`` are cropped at the
    start."""
    taps, first = -(-kernel // stride), before // stride
    count = (before + out - 1) // stride - first + 1
    return Phase(taps, first, count, taps - 1 - first, first + count - size)


def phase_kernels(kernel: np.ndarray, strides: Sequence[int]) -> np.ndarray:
    """Convert an IOHW kernel to that of the ordinary convolution: (O, phases of height, of width, I, taps of height, of
    width), with reversed taps. Missing taps of a phase are zeros."""
    inputs, filters, height, width = kernel.shape
    taps = [-(-k // s) for k, s in zip((height, width), strides)]
    made = np.zeros((filters, *strides, inputs, *taps), kernel.dtype)
    for y, x in itertools.product(range(height), range(width)):
        at = (taps[0] - 1 - y // strides[0], taps[1] - 1 - x // strides[1])
        made[:, y % strides[0], x % strides[1], :, at[0], at[1]] = kernel[:, :, y, x].T
    return made


def conv2d_transpose_blocked(data, kernel, kernel_size, strides, padding, output_padding, out_dtype=None):
    """A transposed convolution of data (n, C/c, h, w, c). The kernel contains all phases, (O/o * phases, I/i, taps,
    taps, i, o), with those of one block of filters adjacent. The outputs of the phases are then interleaved."""
    name = "conv2d_transpose_NCHWc"
    _check(data, kernel, 2, name)
    out_dtype = out_dtype or data.dtype
    strides, extra = spatial(strides, 2, name + ": strides"), spatial(output_padding, 2, name + ": output_padding", 0)
    window = spatial(kernel_size, 2, name + ": kernel_size")
    before, after = pads(padding, window, 2, name)
    batch, _, height, width, _ = get_const_tuple(data.shape)
    out = [
        (d - 1) * s + k - lo - hi + e
        for d, s, k, lo, hi, e in zip((height, width), strides, window, before, after, extra)
    ]
    phases = [phase(*row) for row in zip((height, width), window, strides, before, out)]
    lows, highs = [p.before for p in phases], [p.after for p in phases]
    source = data
    if any(lows) or any(highs):
        source = pad(data, (0, 0, *lows, 0), (0, 0, *highs, 0), name="data_pad")
    wide, each = get_const_int(kernel.shape[-1]), strides[0] * strides[1]
    outs = get_const_int(kernel.shape[0]) // each
    parts = _correlation(
        source, kernel, (1, 1), (1, 1), [p.count for p in phases], out_dtype, "conv2d_NCHWc", {"groups": 1}
    )

    def body(n, oc, y, x, lane):
        row, column = y + before[0], x + before[1]
        which = (oc * strides[0] + te.indexmod(row, strides[0])) * strides[1] + te.indexmod(column, strides[1])
        places = te.indexdiv(row, strides[0]) - phases[0].first, te.indexdiv(column, strides[1]) - phases[1].first
        return parts(n, which, *places, lane)

    return te.compute((batch, outs, *out, wide), body, name=name, tag="injective")


__all__ = ["conv2d_transpose_blocked", "conv_blocked", "phase", "phase_kernels"]
