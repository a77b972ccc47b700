"""Converters of pooling."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .conv_ops import padding, steps
from .shape_ops import channels_last, first_of, last_of
from .table import Context, check_count, check_steps, op

_POOL = {
    "max": {2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d},
    "avg": {2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d},
}
_ADAPTIVE = {2: relay.nn.adaptive_avg_pool2d, 3: relay.nn.adaptive_avg_pool3d}


def _kernel(ctx: Context, n: int) -> list[int]:
    found = ctx.attr("ksize", [])
    found = found * n if len(found) == 1 else found
    if len(found) != n or min(found) < 1:
        raise TVMError(f"the attribute 'ksize' must be {n} positive integers, got {found}")
    return found


@op("pool2d", "pool3d")
def pool(ctx):
    ctx.refuse(use_mkldnn=False)
    n, kind, last = int(ctx.operator.type[4]), ctx.attr("pooling_type", "max"), channels_last(ctx)
    x = first_of(ctx, ctx.get("X"), last)
    if kind not in _POOL or ctx.rank(x) != n + 2:
        raise TVMError(f"pooling of type {kind!r} over data of {ctx.rank(x)} dimensions is not supported")
    if kind == "max" and ctx.attr("adaptive", False):
        # PaddlePaddle's kernel deviates from its documentation here; programs use max_pool2d_with_index instead.
        raise TVMError(
            "adaptive pooling of type 'max' is not supported by pool2d and pool3d; use max_pool2d_with_index"
        )
    if ctx.attr("global_pooling", False) or ctx.attr("adaptive", False) and _kernel(ctx, n) == [1] * n:
        whole = relay.max if kind == "max" else relay.mean
        return last_of(ctx, whole(x, axis=list(range(2, n + 2)), keepdims=True), last)
    kernel = _kernel(ctx, n)
    check_count("a window", kernel)
    if ctx.attr("adaptive", False):
        return last_of(ctx, _ADAPTIVE[n](x, tuple(kernel)), last)
    strides = steps(ctx, "strides", n)
    x, before, after = padding(ctx, x, kernel, strides, -math.inf if kind == "max" else 0)
    if ctx.attr("ceil_mode", False):
        # Allow one more window if a stride is incomplete.
        after = [a + s - 1 for a, s in zip(after, strides)]
        _check_begun(ctx, x, kernel, strides, before, after)
    more = {} if kind == "max" else {"count_include_pad": not ctx.attr("exclusive", True)}
    out = _POOL[kind][n](x, pool_size=tuple(kernel), strides=tuple(strides), padding=(*before, *after), **more)
    return last_of(ctx, out, last)


def _check_begun(ctx: Context, x: RelayExpr, kernel: list, strides: list, before: list, after: list) -> None:
    """Check that every window starts inside the data."""
    for d, k, s, b, a in zip(ctx.shape(x)[2:], kernel, strides, before, after):
        count = (d + b + a - k) // s + 1 if isinstance(d, int) else 1
        if (count - 1) * s - b >= (d if isinstance(d, int) else 1):
            raise TVMError(f"windows of size {k} with stride {s} start after the end of {d} elements")


# -- max pooling with indices -----------------------------------------------------------------------------------------


def _axis_places(size: int, k: int, s: int, p: int, adaptive: bool, ceil: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices that each window covers along an axis, and the mask of the valid ones."""
    if adaptive:
        begin = np.arange(k) * size // k
        end = -(-(np.arange(k) + 1) * size // k)
        at = begin[:, None] + np.arange(int((end - begin).max()))[None, :]
        good = at < end[:, None]
    else:
        count = (size - k + 2 * p + (s - 1 if ceil else 0)) // s + 1
        check_count("the window indices", [max(count, 0), k])
        at = np.arange(count)[:, None] * s - p + np.arange(k)[None, :]
        good = (at >= 0) & (at < size)
    return np.clip(at, 0, size - 1), good


@op("max_pool2d_with_index", "max_pool3d_with_index")
def max_pool_with_index(ctx):
    x = ctx.get("X")
    n, sizes = int(ctx.operator.type[8]), ctx.spatial(x)
    whole, adaptive = ctx.attr("global_pooling", False), ctx.attr("adaptive", False)
    kernel = list(sizes) if whole else _kernel(ctx, n)
    strides, pads = steps(ctx, "strides", n), [0] * n if whole else ctx.attr("paddings", [0] * n)
    if len(sizes) != n or len(pads) != n or min(pads) < 0:
        raise TVMError(f"paddings {pads} do not match data of {ctx.rank(x)} dimensions")
    check_steps("a window", math.prod(kernel) if not adaptive else 1)
    places, inside, counts, widths = np.zeros((1,) * (2 * n), "int64"), np.ones((1,) * (2 * n), bool), [], []
    for i in range(n):
        at, good = _axis_places(sizes[i], kernel[i], strides[i], pads[i], adaptive, ctx.attr("ceil_mode", False))
        spread = [at.shape[0] if j == i else at.shape[1] if j == n + i else 1 for j in range(2 * n)]
        places, inside = places * sizes[i] + at.reshape(spread), inside & good.reshape(spread)
        counts.append(at.shape[0])
        widths.append(at.shape[1])
    rows, width = math.prod(counts), math.prod(widths)
    check_count("the window indices", [rows, width])
    places, inside = (np.broadcast_to(v, (*counts, *widths)).reshape(rows, width) for v in (places, inside))
    flat = relay.reshape(x, (0, 0, -1))
    windows = relay.take(flat, const(np.ascontiguousarray(places)), 2)
    windows = ctx.made(relay.where(const(np.ascontiguousarray(inside)), windows, ctx.like(-math.inf, x)))
    best = relay.argmax(windows, axis=3, keepdims=True)
    table = const(np.ascontiguousarray(places)[None, None])
    hit = relay.equal(relay.cast(best, "int64"), const(np.arange(width).reshape(1, 1, 1, -1)))
    mask = relay.sum(relay.where(hit, table, const(0, "int64")), axis=3)
    shape = (0, 0, *counts)
    return {"Out": relay.reshape(relay.max(windows, axis=3), shape),
            "Mask": relay.cast(relay.reshape(mask, shape), "int32")}  # fmt: skip
