"""Converters of pooling operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .conv_ops import _LAST, _PLAIN, Window
from .table import Context, op
from .unary_ops import cube_root

POOLING = (
    "kernel:dims=() pool_type:avg|lp|max|sum=max global_pool:bool=False pooling_convention:full|valid=valid"
    " stride:dims=() pad:dims=() p_value:int?=None count_include_pad:bool?=None layout:str?=None"
)


class Pool(Window):
    """A pooling window over data of known size: padding and number of outputs."""

    def __init__(self, ctx: Context, x: RelayExpr, attrs):
        super().__init__(attrs)
        if ctx.rank(x) != self.rank + 2:
            raise TVMError(f"data of {ctx.rank(x)} dimensions does not match kernel={self.kernel}")
        self.first = 1 if self.last else 2
        self.convention = attrs.pooling_convention
        self.sizes = ctx.shape(x)[self.first : self.first + self.rank]
        if self.convention != "valid":
            self.sizes = ctx.known_shape(x)[self.first : self.first + self.rank]
        if any(isinstance(d, int) and k > d + 2 * p for d, k, p in zip(self.sizes, self.kernel, self.pad)):
            raise TVMError(f"the window {self.kernel} is larger than the padded data {self.sizes}")
        self.extra = [self._beyond(i) for i in range(self.rank)]

    def _beyond(self, i: int) -> int:
        """Return the number of elements by which the last window exceeds the padded data."""
        if self.convention == "valid":
            return 0
        size, k, s = self.sizes[i] + 2 * self.pad[i], self.kernel[i], self.stride[i]
        return max(-(-(size - k) // s) * s + k - size, 0)

    def padding(self) -> tuple[int, ...]:
        return (*self.pad, *(p + e for p, e in zip(self.pad, self.extra)))

    def misses(self) -> bool:
        """Return whether a window contains only padding."""
        rows = zip(self.sizes, self.kernel, self.stride, self.pad, self.extra)
        return any(p >= k or isinstance(d, int) and (d + 2 * p + e - k) // s * s - p >= d for d, k, s, p, e in rows)

    def counts(self, include_pad: bool) -> np.ndarray:
        """Return the number of elements of each window, without those beyond the padding."""
        out = np.ones(())
        for size, k, s, p, e in zip(self.sizes, self.kernel, self.stride, self.pad, self.extra):
            start = np.arange((size + 2 * p + e - k) // s + 1) * s - p
            low, high = (-p, size + p) if include_pad else (0, size)
            own = np.minimum(start + k, high) - np.maximum(start, low)
            out = out[..., None] * np.maximum(own, 1)
        return out[..., None] if self.last else out


def _built(kind: str, rank: int):
    return getattr(relay.nn, f"{kind}_pool{rank}d")


def pooled(ctx: Context, x: RelayExpr, attrs) -> RelayExpr:
    if attrs.global_pool:
        return _global(ctx, x, attrs)
    pool = Pool(ctx, x, attrs)
    if attrs.pool_type == "max":
        out = _built("max", pool.rank)(
            x, pool_size=pool.kernel, strides=pool.stride, padding=pool.padding(), layout=pool.layout
        )
        return relay.maximum(out, _least(ctx, x)) if pool.misses() else out
    if attrs.pool_type == "lp":
        return _norms(ctx, x, attrs, lambda v: _sum_pool(ctx, v, pool))
    if attrs.pool_type == "sum":
        return _sum_pool(ctx, x, pool)
    include = attrs.count_include_pad is not False
    if not any(pool.extra):
        return _built("avg", pool.rank)(
            x,
            pool_size=pool.kernel,
            strides=pool.stride,
            padding=pool.padding(),
            layout=pool.layout,
            count_include_pad=include,
        )
    counts = pool.counts(include)
    return relay.divide(_sum_pool(ctx, x, pool), Constant(counts.astype(ctx.dtype(x))))


def _least(ctx: Context, x: RelayExpr) -> RelayExpr:
    kind = ctx.dtype(x)
    return ctx.like(float(np.finfo(kind).min) if ctx.is_float(x) else int(np.iinfo(kind).min), x)


def _sum_pool(ctx: Context, x: RelayExpr, pool: Pool) -> RelayExpr:
    out = _built("avg", pool.rank)(
        x,
        pool_size=pool.kernel,
        strides=pool.stride,
        padding=pool.padding(),
        layout=pool.layout,
        count_include_pad=True,
    )
    return relay.multiply(out, ctx.like(math.prod(pool.kernel), x))


def _norms(ctx: Context, x: RelayExpr, attrs, total) -> RelayExpr:
    p = attrs.p_value
    if p not in (1, 2, 3):
        raise TVMError(f"the attribute p_value={p} is not supported; it must be 1, 2 or 3")
    # MXNet does not take absolute values: elements keep their signs.
    powers = x
    for _ in range(p - 1):
        powers = relay.multiply(powers, x)
    out = ctx.made(total(ctx.made(powers)))
    return out if p == 1 else relay.sqrt(out) if p == 2 else cube_root(ctx, out)


def _global(ctx: Context, x: RelayExpr, attrs) -> RelayExpr:
    rank = ctx.rank(x) - 2
    if rank not in (1, 2, 3):
        raise TVMError(f"data of {rank + 2} dimensions cannot be pooled")
    layout = attrs.layout or _PLAIN[rank]
    if layout not in (_PLAIN[rank], _LAST[rank]):
        raise TVMError(f"the attribute layout={layout} does not match data of {rank + 2} dimensions")
    axes = list(range(1, rank + 1) if layout == _LAST[rank] else range(2, rank + 2))
    if attrs.pool_type in ("max", "avg"):
        return _built(f"global_{attrs.pool_type}", rank)(x, layout=layout)
    if attrs.pool_type == "sum":
        return relay.sum(x, axes, keepdims=True)
    return _norms(ctx, x, attrs, lambda v: relay.sum(v, axes, keepdims=True))


@op("Pooling", POOLING)
def pooling(ctx, inputs, attrs):
    return pooled(ctx, inputs[0], attrs)


@op(
    "Pooling_v1",
    "kernel:dims=() pool_type:avg|max|sum=max global_pool:bool=False"
    " pooling_convention:full|valid=valid stride:dims=() pad:dims=()",
)
def pooling_v1(ctx, inputs, attrs):
    attrs.p_value = attrs.layout = attrs.count_include_pad = None
    x = inputs[0]
    if attrs.global_pool or attrs.pool_type == "sum":
        return pooled(ctx, x, attrs)
    # In Pooling_v1, elements beyond the data are zeros and count in averages.
    pool = Pool(ctx, x, attrs)
    befores, afters = pool.padding()[: pool.rank], pool.padding()[pool.rank :]
    x = relay.nn.pad(x, ((0, 0), (0, 0), *zip(befores, afters)))
    return _built(attrs.pool_type, pool.rank)(x, pool_size=pool.kernel, strides=pool.stride)


@op("_contrib_AdaptiveAvgPooling2D", "output_size:dims=()")
def adaptive(ctx, inputs, attrs):
    size = tuple(attrs.output_size) or (1,)
    size = size * 2 if len(size) == 1 else size
    if len(size) != 2 or any(d is None or not 0 < d < 1 << 24 for d in size):
        raise TVMError(f"the attribute output_size={attrs.output_size} is not supported")
    return relay.nn.adaptive_avg_pool2d(inputs[0], size)


__all__ = ["POOLING", "Pool", "pooled"]
