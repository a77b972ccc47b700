"""Converters of cumulative sums, products and extremes, and of histograms."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .dtypes import dtype_name
from .elementwise import cast
from .index_ops import index_add
from .table import op


def _running(name: str):
    def convert(ctx, self, dim, dtype=None):
        kind = dtype_name(dtype) if dtype is not None else ctx.dtype(self)
        if dtype is None and not ctx.is_float(self):
            kind = "int64"
        if not ctx.rank(self):
            return cast(ctx, self, kind)
        return getattr(relay, name)(cast(ctx, self, kind), ctx.axis(self, dim), kind)

    return convert


op("cumsum")(_running("cumsum"))
op("cumprod")(_running("cumprod"))


def _scanned(ctx, parts: list, axis: int, join) -> list:
    """Compute an inclusive scan along an axis in steps that double their reach.

    ``join`` combines the earlier elements and the later ones.
    """
    size, reach = ctx.known_size(parts[0], axis), 1
    while reach < size:
        first, early, late = (
            [ctx.infer(relay.strided_slice(p, [begin], [end], [1], [axis])) for p in parts]
            for begin, end in ((0, reach), (0, size - reach), (reach, size)))  # fmt: skip
        parts = [ctx.infer(relay.concatenate(both, axis)) for both in zip(first, join(early, late))]
        reach *= 2
    return parts


def _running_extreme(compare):
    def convert(ctx, self, dim):
        """Return the cumulative extremes and the index of the latest one. After the first NaN, all values are NaN."""
        axis = ctx.axis(self, dim)
        if not ctx.rank(self):
            return self, const(0, "int64")
        numbers = ctx.convert("arange", ctx.size(self, axis))
        numbers = relay.reshape(numbers, [-1] + [1] * (ctx.rank(self) - 1 - axis))
        places = ctx.infer(ctx.convert("expand_as", ctx.infer(numbers), self))

        def join(early, late):
            taken = compare(late[0], early[0])
            if ctx.is_float(self):
                taken = relay.logical_and(taken, relay.logical_not(relay.isnan(early[0])))
                taken = relay.logical_or(taken, relay.isnan(late[0]))
            return [relay.where(taken, new, old) for old, new in zip(early, late)]

        return tuple(_scanned(ctx, [self, places], axis, join))

    return convert


op("cummax")(_running_extreme(relay.greater_equal))
op("cummin")(_running_extreme(relay.less_equal))


@op("logcumsumexp", "_logcumsumexp")
def logcumsumexp(ctx, self, dim):
    kind = ctx.dtype(self)
    if not ctx.rank(self):
        return self
    x = ctx.infer(cast(ctx, self, "float32" if kind in ("float16", "bfloat16") else kind))
    made = _scanned(ctx, [x], ctx.axis(x, dim), lambda early, late: [ctx.convert("logaddexp", early[0], late[0])])
    return cast(ctx, made[0], kind)


# -- counts -------------------------------------------------------------------------------------------------------


@op("bincount")
def bincount(ctx, self, weights=None, minlength=0):
    """Count the occurrences of each integer, or sum their weights. The largest integer determines the output size."""
    shape = ctx.shape(self)
    if weights is None:
        weights = relay.ones_like(ctx.infer(relay.cast(self, "int64")))
    elif ctx.dtype(weights) != "float32":
        weights = relay.cast(weights, "float64")
    count = minlength
    if shape != (0,):
        least = ctx.tensor(ctx.known_int(minlength, "the least number of counts") - 1, "int64")
        top = relay.maximum(relay.max(relay.cast(self, "int64")), least)
        count = ctx.number(ctx.infer(relay.add(top, const(1, "int64"))))
    weights = ctx.infer(weights)
    start = ctx.convert("zeros", [count], dtype=ctx.dtype(weights))
    return index_add(ctx, start, 0, ctx.infer(relay.cast(self, "int64")), weights) if shape != (0,) else start


@op("histc")
def histc(ctx, self, bins=100, min=0, max=0):
    """Count the elements in each of ``bins`` equal parts of a range; an empty range is replaced by that of the data."""
    x = ctx.infer(relay.reshape(self, (-1,)))
    bins = ctx.known_int(bins, "the number of bins")
    low, high = (ctx.known_number(v, "the range") for v in (min, max))
    if low == high and ctx.shape(x) != (0,):
        low, high = relay.min(x), relay.max(x)
        flat = relay.equal(low, high)
        low, high = (relay.where(flat, relay.add(v, ctx.like(by, x)), v) for v, by in ((low, -1), (high, 1)))
    elif low > high or not (math.isfinite(low) and math.isfinite(high)):
        raise TVMError(f"the range from {low} to {high} is not valid; it must be finite and increasing")
    else:
        low, high = ctx.like(low, x), ctx.like(high, x)
    place = relay.multiply(relay.subtract(x, low), ctx.like(bins, x))
    place = relay.cast(relay.divide(place, relay.subtract(high, low)), "int64")
    inside = relay.logical_and(relay.greater_equal(x, low), relay.less_equal(x, high))
    place = relay.where(inside, relay.minimum(place, const(bins - 1, "int64")), const(0, "int64"))
    start = ctx.convert("zeros", [bins], dtype=ctx.dtype(x))
    return index_add(ctx, start, 0, ctx.infer(place), ctx.infer(relay.cast(inside, ctx.dtype(x))))
