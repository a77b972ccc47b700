"""Converters of reductions."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .dtypes import dtype_name
from .elementwise import as_bool, cast, nan_kept
from .table import op


def _typed(ctx, x, dtype):
    """Cast the operand of a sum to ``dtype``; without it, integers and bools become int64."""
    if dtype is not None:
        return cast(ctx, x, dtype_name(dtype))
    return x if ctx.is_float(x) else cast(ctx, x, "int64")


def _reduced(ctx, name: str, x, dim, keepdim: bool):
    axes = ctx.axes(x, dim)
    if not ctx.rank(x):
        return x
    return getattr(relay, name)(x, axis=axes, keepdims=bool(keepdim))


@op("sum")
def sum_(ctx, self, dim=None, keepdim=False, dtype=None):
    if isinstance(self, (list, tuple)):
        return sum(self)
    return _reduced(ctx, "sum", _typed(ctx, self, dtype), dim, keepdim)


@op("nansum")
def nansum(ctx, self, dim=None, keepdim=False, dtype=None):
    x = _typed(ctx, self, dtype)
    return _reduced(ctx, "sum", relay.where(relay.isnan(x), relay.zeros_like(x), x), dim, keepdim)


@op("prod")
def prod(ctx, self, dim=None, keepdim=False, dtype=None):
    return _reduced(ctx, "prod", _typed(ctx, self, dtype), dim, keepdim)


@op("mean")
def mean(ctx, self, dim=None, keepdim=False, dtype=None):
    x = self if dtype is None else cast(ctx, self, dtype_name(dtype))
    if ctx.dtype(x) in ("float16", "bfloat16"):
        return relay.cast(_reduced(ctx, "mean", ctx.infer(relay.cast(x, "float32")), dim, keepdim), ctx.dtype(x))
    return _reduced(ctx, "mean", x, dim, keepdim)


@op("amax")
def amax(ctx, self, dim=(), keepdim=False):
    return _reduced(ctx, "max", self, dim, keepdim)


@op("amin")
def amin(ctx, self, dim=(), keepdim=False):
    return _reduced(ctx, "min", self, dim, keepdim)


@op("aminmax")
def aminmax(ctx, self, dim=None, keepdim=False):
    return amin(ctx, self, dim, keepdim), amax(ctx, self, dim, keepdim)


def _extreme(name: str, arg: str):
    def convert(ctx, self, dim=None, keepdim=False, other=None):
        if other is not None:
            return nan_kept(ctx, f"{name}imum", self, other)
        if isinstance(self, (list, tuple)):
            return (max if name == "max" else min)(self)
        if dim is None:
            return _reduced(ctx, name, self, None, False)
        if not ctx.rank(self):
            return self, const(0, "int64")
        axis = ctx.axis(self, dim)
        places = relay.cast(getattr(relay, arg)(self, axis=axis, keepdims=bool(keepdim)), "int64")
        return _reduced(ctx, name, self, axis, keepdim), places

    return convert


op("max")(_extreme("max", "argmax"))
op("min")(_extreme("min", "argmin"))


def _place(name: str):
    def convert(ctx, self, dim=None, keepdim=False):
        if not ctx.rank(self):
            return const(0, "int64")
        if dim is None:
            flat = relay.reshape(self, (-1,))
            out = getattr(relay, name)(flat, axis=0)
            return relay.cast(relay.reshape(out, (1,) * ctx.rank(self)) if keepdim else out, "int64")
        return relay.cast(getattr(relay, name)(self, axis=ctx.axis(self, dim), keepdims=bool(keepdim)), "int64")

    return convert


op("argmax")(_place("argmax"))
op("argmin")(_place("argmin"))


def _any_or_all(name: str):
    def convert(ctx, self, dim=None, keepdim=False):
        if isinstance(self, (list, tuple)):
            return (any if name == "any" else all)(self)
        return _reduced(ctx, name, ctx.infer(as_bool(ctx, self)), dim, keepdim)

    return convert


op("any")(_any_or_all("any"))
op("all")(_any_or_all("all"))


@op("count_nonzero")
def count_nonzero(ctx, self, dim=None):
    return _reduced(ctx, "sum", ctx.infer(relay.cast(as_bool(ctx, self), "int64")), dim, False)


# -- moments ------------------------------------------------------------------------------------------------------


def _correction(unbiased, correction) -> float:
    if correction is not None:
        return float(correction)
    return 1.0 if unbiased is None or unbiased else 0.0


def variance(ctx, x, dim, keepdim, correction: float):
    axes = ctx.axes(x, dim)
    axes = list(range(ctx.rank(x))) if axes is None else axes
    apart = relay.subtract(x, relay.mean(x, axis=axes, keepdims=True))
    total = relay.sum(relay.multiply(apart, apart), axis=axes, keepdims=bool(keepdim))
    count = math.prod(ctx.known_size(x, a) for a in axes)
    return relay.divide(total, ctx.like(max(count - correction, 0.0), x))


@op("var")
def var(ctx, self, dim=None, unbiased=None, keepdim=False, correction=None):
    return variance(ctx, self, dim, keepdim, _correction(unbiased, correction))


@op("std")
def std(ctx, self, dim=None, unbiased=None, keepdim=False, correction=None):
    return relay.sqrt(variance(ctx, self, dim, keepdim, _correction(unbiased, correction)))


@op("var_mean")
def var_mean(ctx, self, dim=None, unbiased=None, keepdim=False, correction=None):
    out = variance(ctx, self, dim, keepdim, _correction(unbiased, correction))
    return out, _reduced(ctx, "mean", self, dim, keepdim)


@op("std_mean")
def std_mean(ctx, self, dim=None, unbiased=None, keepdim=False, correction=None):
    out = variance(ctx, self, dim, keepdim, _correction(unbiased, correction))
    return relay.sqrt(out), _reduced(ctx, "mean", self, dim, keepdim)


@op("logsumexp")
def logsumexp(ctx, self, dim, keepdim=False):
    x = ctx.floats(self)
    axes = ctx.axes(x, dim)
    return relay.logsumexp(x, axes, bool(keepdim)) if ctx.rank(x) else x


@op("norm", "linalg_vector_norm", "frobenius_norm")
def norm(ctx, self, p=2, ord=None, dim=None, keepdim=False, dtype=None):
    kind = ord if ord is not None else 2 if p is None else p
    x = ctx.floats(self) if dtype is None else cast(ctx, self, dtype_name(dtype))
    x = ctx.infer(x)
    if kind in ("fro", 2):
        return relay.sqrt(_reduced(ctx, "sum", ctx.infer(relay.multiply(x, x)), dim, keepdim))
    size = ctx.infer(relay.abs(x))
    if kind == math.inf or kind == "inf":
        return _reduced(ctx, "max", size, dim, keepdim)
    if kind == -math.inf:
        return _reduced(ctx, "min", size, dim, keepdim)
    if kind == 0:
        return _reduced(
            ctx, "sum", ctx.infer(relay.cast(relay.greater(size, ctx.like(0, x)), ctx.dtype(x))), dim, keepdim
        )
    if kind == 1:
        return _reduced(ctx, "sum", size, dim, keepdim)
    if not isinstance(kind, (int, float)):
        raise TVMError(f"norm order {kind!r} is not supported")
    total = _reduced(ctx, "sum", ctx.infer(relay.power(size, ctx.like(kind, x))), dim, keepdim)
    return relay.power(total, ctx.like(1 / kind, x))


@op("cosine_similarity")
def cosine_similarity(ctx, x1, x2, dim=1, eps=1e-8):
    x, y = ctx.together(x1, x2, at_least=2)
    axis = ctx.axis(x, dim)
    sizes = [
        relay.maximum(relay.sqrt(relay.sum(relay.multiply(v, v), axis=axis, keepdims=True)), ctx.like(eps, v))
        for v in (x, y)
    ]
    return relay.sum(relay.multiply(relay.divide(x, sizes[0]), relay.divide(y, sizes[1])), axis=axis)


@op("median")
def median(ctx, self, dim=None, keepdim=False):
    """Return the lower of the two middle elements."""
    if dim is None:
        flat = ctx.infer(relay.reshape(self, (-1,)))
        k = (ctx.known_size(flat, 0) - 1) // 2 + 1
        return ctx.convert("kthvalue", flat, k, 0, False)[0]
    k = (ctx.known_size(self, ctx.axis(self, dim)) - 1) // 2 + 1
    return ctx.convert("kthvalue", self, k, dim, keepdim)


@op("quantile")
def quantile(ctx, self, q, dim=None, keepdim=False, interpolation="linear"):
    """Interpolate elements of the sorted axis at fractional indices; return NaN where the axis contains NaN.

    For several quantiles, their axis comes first.
    """
    ones, dtype = [1] * ctx.rank(self), ctx.kind(self)
    axis = ctx.axis(self, dim or 0)
    if dim is None:
        self, axis = ctx.infer(relay.reshape(self, (-1,))), 0
    q = ctx.tensor(q, dtype)
    many = ctx.rank(q)
    index = ctx.infer(relay.multiply(q, const(float(ctx.known_size(self, axis) - 1), dtype)))
    if interpolation == "nearest":
        index = ctx.infer(ctx.convert("round", index))
    in_order = relay.sort(self, axis)

    def at(whole):
        found = relay.take(in_order, relay.cast(whole, "int64"), axis=axis)
        return ctx.infer(ctx.convert("movedim", ctx.infer(found), axis, 0) if many else found)

    low, high = at(relay.floor(index)), at(relay.ceil(index))
    part = relay.subtract(index, relay.floor(index))
    if many:
        part = relay.reshape(part, [-1] + [1] * (ctx.rank(low) - 1))
    if interpolation == "midpoint":
        part = relay.multiply(relay.ceil(part), const(0.5, dtype))
    out = {"lower": low, "higher": high}.get(interpolation)
    if out is None:
        out = relay.add(low, relay.multiply(part, relay.subtract(high, low)))
    has_nan = relay.any(relay.isnan(self), axis=[axis])
    out = ctx.infer(relay.where(has_nan, const(math.nan, dtype), out))
    if not keepdim:
        return out
    return relay.reshape(out, [-1] * many + ones) if dim is None else relay.expand_dims(out, axis + many)
