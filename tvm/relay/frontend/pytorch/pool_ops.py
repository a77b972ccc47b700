"""Converters of pooling operators."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .pad_ops import padded
from .table import op

_MAX = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}
_AVG = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}
_ADAPTIVE = {
    "avg": {1: relay.nn.adaptive_avg_pool1d, 2: relay.nn.adaptive_avg_pool2d, 3: relay.nn.adaptive_avg_pool3d},
    "max": {1: relay.nn.adaptive_max_pool1d, 2: relay.nn.adaptive_max_pool2d, 3: relay.nn.adaptive_max_pool3d},
}


def _window(ctx, n: int, kernel_size, stride, padding, dilation=1):
    kernel = ctx.known_ints(kernel_size, "the window", n)
    given = ctx.known_ints(stride, "the strides", n) if stride is not None and stride != [] else kernel
    return kernel, given, ctx.known_ints(padding, "the padding", n), ctx.known_ints(dilation, "the dilation", n)


def _extra(size: int, k: int, s: int, p: int, d: int, ceil: bool) -> tuple[int, int]:
    """Return the number of windows along an axis, and the end padding that they need.

    The last window must start inside the data or the padding at the start.
    """
    reach = d * (k - 1) + 1
    count = -(-(size + 2 * p - reach) // s) + 1 if ceil else (size + 2 * p - reach) // s + 1
    if ceil and (count - 1) * s >= size + p:
        count -= 1
    return count, max((count - 1) * s + reach - size - p, 0)


def _with_batch(function):
    """Return a function that adds a batch dimension to data without one."""

    def convert(ctx, self, n: int, *args, **kwargs):
        if ctx.rank(self) == n + 1:
            made = convert(ctx, ctx.infer(relay.expand_dims(self, 0)), n, *args, **kwargs)
            many = [relay.squeeze(m, [0]) for m in (made if isinstance(made, tuple) else (made,))]
            return tuple(many) if isinstance(made, tuple) else many[0]
        return function(ctx, self, n, *args, **kwargs)

    return convert


@_with_batch
def _max_pool(ctx, x, n: int, kernel_size, stride, padding, dilation, ceil_mode, indices=False):
    kernel, strides, pads, dilations = _window(ctx, n, kernel_size, stride, padding, dilation)
    if any(2 * p > k for p, k in zip(pads, kernel)):
        raise TVMError(f"the padding {pads} must be at most half of the window size {kernel}")
    if indices:
        return _max_with_places(ctx, x, n, kernel, strides, pads, dilations, ceil_mode)
    after = list(pads)
    if ceil_mode:
        after = [_extra(*row, True)[1] for row in zip(ctx.spatial(x), kernel, strides, pads, dilations)]
    return _MAX[n](
        x, pool_size=tuple(kernel), strides=tuple(strides), padding=(*pads, *after), dilation=tuple(dilations)
    )


def _max_with_places(ctx, x, n: int, kernel, strides, pads, dilations, ceil_mode):
    """Return the maximum of each window and its index in the data; the windows are gathered along a last axis."""
    sizes = ctx.spatial(x)
    places, counts = np.zeros((1,) * (2 * n), "int64"), []
    inside = np.ones((1,) * (2 * n), bool)
    for i, (size, k, s, p, d) in enumerate(zip(sizes, kernel, strides, pads, dilations)):
        count, _ = _extra(size, k, s, p, d, bool(ceil_mode))
        counts.append(count)
        at = np.arange(count)[:, None] * s + np.arange(k)[None, :] * d - p
        spread = [count if j == i else k if j == n + i else 1 for j in range(2 * n)]
        good = ((at >= 0) & (at < size)).reshape(spread)
        places = places * size + np.clip(at, 0, size - 1).reshape(spread)
        inside = inside & good
    total, width = int(np.prod(counts)), int(np.prod(kernel))
    places, inside = (np.broadcast_to(v, (*counts, *kernel)).reshape(total, width) for v in (places, inside))
    outer = ctx.shape(x)[:2]
    windows = relay.take(relay.reshape(x, (*outer, int(np.prod(sizes)))), const(places.astype("int64")), 2)
    low = float("-inf") if ctx.is_float(x) else int(np.iinfo(ctx.dtype(x)).min)
    windows = ctx.infer(relay.where(const(inside.copy()), windows, ctx.like(low, x)))
    best = relay.cast(relay.argmax(windows, axis=3), "int64")
    flat = relay.add(best, const(np.arange(total, dtype="int64") * width))
    found = relay.take(const(places.reshape(-1).astype("int64")), flat, 0)
    values = relay.max(windows, axis=3)
    return relay.reshape(values, (*outer, *counts)), relay.reshape(found, (*outer, *counts))


def _register_max(n: int) -> None:
    @op(f"max_pool{n}d")
    def max_pool(ctx, self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return _max_pool(ctx, self, n, kernel_size, stride, padding, dilation, ceil_mode)

    @op(f"max_pool{n}d_with_indices")
    def with_indices(ctx, self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        if not ctx.wants(1):
            return _max_pool(ctx, self, n, kernel_size, stride, padding, dilation, ceil_mode), const(0, "int64")
        return _max_pool(ctx, self, n, kernel_size, stride, padding, dilation, ceil_mode, True)


@_with_batch
def _avg_pool(ctx, x, n: int, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    kernel, strides, pads, _ = _window(ctx, n, kernel_size, stride, padding)
    after = list(pads)
    if ceil_mode:
        after = [_extra(*row, 1, True)[1] for row in zip(ctx.spatial(x), kernel, strides, pads)]
    # Padding that is added by rounding up the output size is never counted; explicit padding is counted on request.
    if count_include_pad and any(pads):
        x = ctx.infer(padded(ctx, x, [p for p in reversed(pads) for _ in (0, 1)]))
        after = [max(a - p, 0) for a, p in zip(after, pads)]
        pads = [0] * n
    if divisor_override is not None:
        ones = _AVG[n](
            x, pool_size=tuple(kernel), strides=tuple(strides), padding=(*pads, *after), count_include_pad=True
        )
        return relay.multiply(ones, ctx.like(float(np.prod(kernel)) / divisor_override, x))
    return _AVG[n](x, pool_size=tuple(kernel), strides=tuple(strides), padding=(*pads, *after))


def _register_avg(n: int) -> None:
    @op(f"avg_pool{n}d")
    def avg_pool(
        ctx, self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        return _avg_pool(ctx, self, n, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@_with_batch
def _adaptive(ctx, x, n: int, kind: str, output_size):
    sizes = output_size if isinstance(output_size, (list, tuple)) else [output_size] * n
    sizes = [s if s is None else ctx.known_int(s, "the size") for s in sizes]
    return _ADAPTIVE[kind][n](x, tuple(sizes))


def _register_adaptive(n: int) -> None:
    @op(f"adaptive_avg_pool{n}d", f"_adaptive_avg_pool{n}d")
    def adaptive_avg(ctx, self, output_size):
        return _adaptive(ctx, self, n, "avg", output_size)

    @op(f"adaptive_max_pool{n}d")
    def adaptive_max(ctx, self, output_size):
        if ctx.wants(1):
            raise TVMError("the indices of the maxima are not supported")
        return _adaptive(ctx, self, n, "max", output_size), const(0, "int64")


for _n in (1, 2, 3):
    _register_max(_n)
    _register_avg(_n)
    _register_adaptive(_n)
