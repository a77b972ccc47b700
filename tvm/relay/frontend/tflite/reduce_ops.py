"""Converters of reductions, argmax, argmin and top-k."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .quantization import centered, finished, fixed_point, rescaled_wide, rounded_away, scaled
from .table import Context, axis_of, check_steps, moving, op, quantized


def _axes(ctx: Context, inputs: list) -> list[int]:
    rank = ctx.rank(inputs[0])
    return sorted({axis_of(a, rank) for a in ctx.ints(inputs[1], "the axes")})


def _reduced(ctx: Context, x: RelayExpr, inputs: list, options, function) -> RelayExpr:
    axes = _axes(ctx, inputs)
    return function(x, axis=axes, keepdims=options.keep_dims) if axes else x


def _reduce(name: str, function) -> None:
    op(name)(lambda ctx, inputs, options: _reduced(ctx, inputs[0], inputs, options, function))


for _name, _function in (("SUM", relay.sum), ("REDUCE_PROD", relay.prod), ("REDUCE_ANY", relay.any),
                         ("REDUCE_ALL", relay.all)):  # fmt: skip
    _reduce(_name, _function)
# The order of quantized integers equals the order of the values they represent.
for _name, _function in (("REDUCE_MAX", relay.max), ("REDUCE_MIN", relay.min)):
    moving(_name)(lambda ctx, inputs, options, f=_function: _reduced(ctx, inputs[0], inputs, options, f))


@op("MEAN")
def mean(ctx, inputs, options):
    x = inputs[0]
    if ctx.is_float(x):
        return _reduced(ctx, x, inputs, options, relay.mean)
    total = _reduced(ctx, relay.cast(x, "int64"), inputs, options, relay.sum)
    return relay.cast(relay.trunc_divide(total, const(_count(ctx, inputs), "int64")), ctx.dtype(x))


def _count(ctx: Context, inputs: list) -> int:
    shape = ctx.known_shape(inputs[0])
    count = int(np.prod([shape[a] for a in _axes(ctx, inputs)]))
    if not 0 < count < 1 << 31:
        raise TVMError(f"a quantized reduction of {count} elements is not supported")
    return count


@quantized("MEAN")
def integer_mean(ctx, inputs, options):
    """Multiply the sum by a factor that includes the division by the count, with the additional bits that the count
    needs.
    """
    x, y = ctx.quantization(ctx.tensor(0)), ctx.quantization(ctx.result())
    total = _reduced(ctx, centered(inputs[0], x), inputs, options, relay.sum)
    count = _count(ctx, inputs)
    factor, shift = fixed_point(float(x.scale[0]) / float(y.scale[0]))
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return finished(scaled(total, [((factor << bits) // count, shift - bits)]), ctx.result())


@quantized("SUM")
def integer_sum(ctx, inputs, options):
    x, y = ctx.quantization(ctx.tensor(0)), ctx.quantization(ctx.result())
    total = _reduced(ctx, centered(inputs[0], x), inputs, options, relay.sum)
    steps = relay.multiply(relay.cast(total, "float32"), const(np.float32(x.scale[0] / y.scale[0])))
    return finished(relay.cast(rounded_away(steps), "int32"), ctx.result())


@quantized("REDUCE_PROD")
def integer_product(ctx, inputs, options):
    """Multiply element by element, scaling each product by an equal share of the total scale."""
    x, y = ctx.quantization(ctx.tensor(0)), ctx.quantization(ctx.result())
    axes, shape = _axes(ctx, inputs), ctx.known_shape(inputs[0])
    count = _count(ctx, inputs)
    check_steps("a product", count)
    left = [i for i in range(len(shape)) if i not in axes]
    rows = relay.transpose(centered(inputs[0], x), [*left, *axes]) if shape else centered(inputs[0], x)
    factors = relay.split(relay.cast(relay.reshape(rows, (-1, count)), "int64"), count, 1)
    share = float(x.scale[0]) / float(y.scale[0]) ** (1.0 / count)
    total = factors[0]
    for factor in list(factors)[1:]:
        total = ctx.made(relay.cast(rescaled_wide(relay.multiply(total, factor), share), "int64"))
    kept = [1 if i in axes else d for i, d in enumerate(shape)] if options.keep_dims else [shape[i] for i in left]
    return finished(relay.reshape(rescaled_wide(total, share), kept), ctx.result())


def _place(function):
    def convert(ctx, inputs, options):
        axis = ctx.ints(inputs[1], "the axis")
        if len(axis) != 1:
            raise TVMError(f"the axis must be a scalar, got {axis}")
        found = function(inputs[0], axis=axis_of(axis[0], ctx.rank(inputs[0])))
        return relay.cast(found, ctx.result().dtype)

    return convert


for _name, _function in (("ARG_MAX", relay.argmax), ("ARG_MIN", relay.argmin)):
    moving(_name)(_place(_function))


@moving("TOPK_V2")
def topk(ctx, inputs, options):
    k = ctx.ints(inputs[1], "k")
    size = ctx.known_size(inputs[0], -1)
    if len(k) != 1 or not 0 < k[0] <= size:
        raise TVMError(f"k is {k}, but the axis has only {size} elements")
    values, places = relay.topk(inputs[0], k[0], axis=-1, ret_type="both", dtype="int32")
    return [values, places]


@op("CUMSUM")
def cumsum(ctx, inputs, options):
    axis = ctx.ints(inputs[1], "the axis")
    if len(axis) != 1:
        raise TVMError(f"the axis must be a scalar, got {axis}")
    at = axis_of(axis[0], ctx.rank(inputs[0]))
    x = relay.reverse(inputs[0], at) if options.reverse else inputs[0]
    out = relay.cumsum(x, at, ctx.dtype(x), options.exclusive)
    return relay.reverse(out, at) if options.reverse else out


@op("SEGMENT_SUM")
def segment_sum(ctx, inputs, options):
    ids = ctx.array(inputs[1], "the segments")
    return relay.segment_sum(inputs[0], inputs[1], int(ids.max()) + 1 if ids.size else 0)
