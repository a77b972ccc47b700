"""Pooling operators: maximum, average, global and adaptive."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from .. import reduction
from ..utils import simplify
from .pad import pad
from .utils import pads, spatial


def _spatial_dims(layout: str, names: str) -> list[int]:
    """Return the indices of the spatial dimensions in the layout, which may have blocked channels (NCHW16c)."""
    dims = [c for c in layout if c.isalpha()]
    return [dims.index(c) for c in names]


def pool_nd(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, names):
    """Return pooling over the dimensions ``names`` of ``layout``."""
    n = len(names)
    what = f"pool{n}d"
    if pool_type not in ("max", "avg"):
        raise TVMError(f"{what}: the pooling type must be max or avg, got '{pool_type}'")
    kernel, stride = spatial(kernel, n, what + ": kernel"), spatial(stride, n, what + ": stride")
    dilation = spatial(dilation, n, what + ": dilation")
    before, after = pads(padding, kernel, n, what)
    places = _spatial_dims(layout, names)
    rank = len(data.shape)
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    shape = list(data.shape)
    extra = [0] * n
    for i, place in enumerate(places):
        span = data.shape[place] + before[i] + after[i] - sizes[i]
        if ceil_mode:
            extra[i] = stride[i] - 1
        shape[place] = simplify((span + extra[i]) // stride[i] + 1)
    lo, hi = [0] * rank, [0] * rank
    for i, place in enumerate(places):
        lo[place], hi[place] = before[i], after[i] + extra[i]
    window = [te.reduce_axis((0, k), name=f"rv{i}") for i, k in enumerate(kernel)]

    def where(at):
        out = list(at)
        for i, place in enumerate(places):
            out[place] = at[place] * stride[i] + window[i] * dilation[i]
        return out

    if pool_type == "max":
        padded = _padded(data, lo, hi, reduction.least(data.dtype))
        return te.compute(shape, lambda *at: te.max(padded(*where(at)), axis=window), name="pool_max", tag="pool_max")
    padded = _padded(data, lo, hi, tir.const(0, data.dtype))
    kind = reduction.wide(data.dtype)
    total = te.compute(
        shape, lambda *at: te.sum(padded(*where(at)).astype(kind), axis=window), name="pool_sum", tag="pool_sum"
    )

    def average(*at):
        count = tir.const(1, "int32")
        for i, place in enumerate(places):
            # All windows are complete, so their size is constant.
            if count_include_pad and not ceil_mode:
                count = count * kernel[i]
                continue
            start = at[place] * stride[i] - before[i]
            low = -before[i] if count_include_pad else 0
            limit = data.shape[place] + (after[i] if count_include_pad else 0)
            count = count * te.max(_taps_between(start, kernel[i], dilation[i], low, limit), 1)
        if data.dtype.startswith(("int", "uint")):
            return te.div(total(*at), count.astype(data.dtype))
        return (total(*at) / count.astype(kind)).astype(data.dtype)

    return te.compute(shape, average, name="pool_avg", tag="elemwise")


def _taps_between(start, kernel: int, dilation: int, low, limit):
    """Return how many taps ``start + k * dilation`` of a window are in ``[low, limit)``; the result is at most 0 if the
    window is outside."""
    if dilation == 1:
        return te.min(start + kernel, limit) - te.max(start, low)
    # The first tap inside may be past ``low``, so count taps instead of elements.
    first = te.max((low - start + dilation - 1) // dilation, 0)
    return te.min((limit - start + dilation - 1) // dilation, kernel) - first


def _padded(data, lo, hi, value):
    return pad(data, lo, hi, value, name="pad_temp") if any(lo) or any(hi) else data


def pool1d(data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout="NCW", count_include_pad=True):
    """The maximum or the mean of each window along one dimension."""
    return pool_nd(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "W")


def pool2d(data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout="NCHW", count_include_pad=True):
    """The maximum or the mean of each window along height and width."""
    return pool_nd(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "HW")


def pool3d(data, kernel, stride, dilation, padding, pool_type, ceil_mode=False, layout="NCDHW", count_include_pad=True):
    """The maximum or the mean of each window along depth, height and width."""
    return pool_nd(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "DHW")


def adaptive_pool_nd(data, output_size, pool_type, layout, names):
    """Return pooling with windows chosen such that the output has ``output_size``; window sizes may differ by one."""
    if pool_type not in ("max", "avg"):
        raise TVMError(f"adaptive pooling: the pooling type must be max or avg, got '{pool_type}'")
    places = _spatial_dims(layout, names)
    sizes = [data.shape[p] if s is None else s for p, s in zip(places, spatial_or_none(output_size, len(names)))]
    if any(isinstance(s, int) and s < 1 for s in sizes):
        raise TVMError(f"adaptive pooling: output_size must be at least 1, got {output_size}")
    shape = list(data.shape)
    for p, s in zip(places, sizes):
        shape[p] = s
    even = all(
        isinstance(getattr(data.shape[p], "value", None), int) and data.shape[p].value % int(s) == 0
        for p, s in zip(places, sizes)
    )
    if even:
        kernel = [data.shape[p].value // int(s) for p, s in zip(places, sizes)]
        return pool_nd(data, kernel, kernel, 1, [0] * len(names), pool_type, False, layout, True, names)
    widest = [simplify((data.shape[p] + s - 1) // s + 1) for p, s in zip(places, sizes)]
    window = [te.reduce_axis((0, w), name=f"rv{i}") for i, w in enumerate(widest)]

    def bounds(at, i):
        n, s = data.shape[places[i]], sizes[i]
        start = at[places[i]] * n // s
        return start, ((at[places[i]] + 1) * n + s - 1) // s

    def element(at):
        out, inside = list(at), []
        for i, place in enumerate(places):
            start, end = bounds(at, i)
            inside.append(start + window[i] < end)
            out[place] = te.min(start + window[i], data.shape[place] - 1)
        return data(*out), tir.all(*inside)

    if pool_type == "max":

        def largest(*at):
            value, inside = element(at)
            return te.max(tir.Select(inside, value, reduction.least(data.dtype)), axis=window)

        return te.compute(shape, largest, name="adaptive_pool_max", tag="adaptive_pool_max")

    kind = reduction.wide(data.dtype)

    def summed(*at):
        value, inside = element(at)
        return te.sum(tir.Select(inside, value, tir.const(0, data.dtype)).astype(kind), axis=window)

    total = te.compute(shape, summed, name="adaptive_pool_sum", tag="adaptive_pool_sum")

    def average(*at):
        count = tir.const(1, "int32")
        for i in range(len(places)):
            start, end = bounds(at, i)
            count = count * (end - start)
        return te.div(total(*at), count.astype(kind)).astype(data.dtype)

    return te.compute(shape, average, name="adaptive_pool_avg", tag="elemwise")


def spatial_or_none(value, n: int) -> list:
    if value is None:
        return [None] * n
    if isinstance(value, (tuple, list)):
        values = list(value)
        return values * n if len(values) == 1 else values or [None] * n
    return [value] * n


def adaptive_pool1d(data, output_size, pool_type, layout="NCW"):
    """Pooling with windows chosen such that the output has ``output_size`` points."""
    return adaptive_pool_nd(data, output_size, pool_type, layout, "W")


def adaptive_pool(data, output_size, pool_type, layout="NCHW"):
    """Pooling with windows of height and width chosen such that the output has ``output_size`` points."""
    return adaptive_pool_nd(data, output_size, pool_type, layout, "HW")


def adaptive_pool3d(data, output_size, pool_type, layout="NCDHW"):
    """Pooling with windows of depth, height and width chosen such that the output has ``output_size`` points."""
    return adaptive_pool_nd(data, output_size, pool_type, layout, "DHW")


def global_pool(data, pool_type, layout="NCHW"):
    """Pooling with one window over all of height and width."""
    return adaptive_pool_nd(data, 1, pool_type, layout, "HW")
