"""Converters of reductions."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import axis_of, numbers, op


def _axes(ctx, x, args) -> list[int]:
    """Return the reduced axes: the argument ``axes``, or all axes without it."""
    rank = ctx.rank(x)
    axes = [axis_of(a, rank) for a in numbers(args, "axes", [])] if "axes" in args else list(range(rank))
    if len(set(axes)) != len(axes):
        raise TVMError(f"the axes {axes} contain an axis twice")
    return axes or list(range(rank))


def _reduced(build):
    def convert(ctx, inputs, args):
        return build(inputs[0], _axes(ctx, inputs[0], args), keepdims=bool(args.get("keepdims", 1)))

    return convert


def _l1(x, axes, keepdims):
    return relay.sum(relay.abs(x), axes, keepdims)


def _l2(x, axes, keepdims):
    return relay.sqrt(relay.sum(relay.multiply(x, x), axes, keepdims))


for _name, _build in {"ReduceSum": relay.sum, "ReduceMean": relay.mean, "ReduceMax": relay.max,
                      "ReduceMin": relay.min, "ReduceL1": _l1, "ReduceL2": _l2}.items():  # fmt: skip
    op(_name)(_reduced(_build))


def _some(build, front: bool):
    """Return a converter that reduces the first or last ``num_reduce_dim`` axes."""

    def convert(ctx, inputs, args):
        x, count = inputs[0], args.get("num_reduce_dim", 1)
        rank = ctx.rank(x)
        if len(inputs) > 1:
            raise TVMError("the input 'lengths' is not supported")
        if not 0 < count <= rank:
            raise TVMError(f"num_reduce_dim {count} is out of range for {rank} dimensions")
        return build(x, list(range(count)) if front else list(range(rank - count, rank)))

    return convert


for _name, _build in {"Sum": relay.sum, "Mean": relay.mean, "Max": relay.max}.items():
    op(f"ReduceFront{_name}")(_some(_build, True))
    op(f"ReduceBack{_name}")(_some(_build, False))


@op("ArgMax")
def argmax(ctx, inputs, args):
    axis = axis_of(args.get("axis", -1), ctx.rank(inputs[0]))
    return relay.cast(relay.argmax(inputs[0], axis, keepdims=bool(args.get("keepdims", 1))), "int64")


@op("ArgMin")
def argmin(ctx, inputs, args):
    axis = axis_of(args.get("axis", -1), ctx.rank(inputs[0]))
    return relay.cast(relay.argmin(inputs[0], axis, keepdims=bool(args.get("keepdims", 1))), "int64")


@op("SumElements")
def sum_elements(ctx, inputs, args):
    return relay.mean(inputs[0]) if args.get("average", 0) else relay.sum(inputs[0])


@op("SumSqrElements")
def sum_squares(ctx, inputs, args):
    squares = relay.multiply(inputs[0], inputs[0])
    return relay.mean(squares) if args.get("average", 0) else relay.sum(squares)


@op("RowwiseMax")
def rowwise_max(ctx, inputs, args):
    """Return the maximum of each row of each matrix."""
    return relay.max(inputs[0], [2])


@op("ColwiseMax")
def colwise_max(ctx, inputs, args):
    return relay.max(inputs[0], [1])


def _pairs(ctx, inputs):
    """Flatten two tensors to matrices with one row for each sample."""
    return [relay.reshape(x, (ctx.known_size(x, 0), math.prod(ctx.known_shape(x)[1:]))) for x in inputs]


@op("DotProduct")
def dot_product(ctx, inputs, args):
    return relay.sum(relay.multiply(*_pairs(ctx, inputs)), [1])


@op("CosineSimilarity")
def cosine_similarity(ctx, inputs, args):
    x, y = _pairs(ctx, inputs)
    lengths = [
        relay.sqrt(relay.maximum(relay.sum(relay.multiply(v, v), [1]), ctx.like(1e-10, inputs[0]))) for v in (x, y)
    ]
    return relay.divide(relay.sum(relay.multiply(x, y), [1]), relay.multiply(*lengths))


@op("SquaredL2Distance")
def squared_distance(ctx, inputs, args):
    x, y = _pairs(ctx, inputs)
    gap = relay.subtract(x, y)
    return relay.multiply(relay.sum(relay.multiply(gap, gap), [1]), ctx.like(0.5, inputs[0]))


@op("L1Distance")
def l1_distance(ctx, inputs, args):
    return relay.sum(relay.abs(relay.subtract(*_pairs(ctx, inputs))), [1])


@op("TopK")
def top_k(ctx, inputs, args):
    """Return the k largest elements, their indices along the axis, and their indices in the flattened data."""
    x = inputs[0]
    axis, shape = axis_of(args.get("axis", -1), ctx.rank(x)), ctx.known_shape(x)
    count = args.get("k", 0)
    if not 0 < count <= shape[axis]:
        raise TVMError(f"k {count} is out of range for an axis of {shape[axis]} elements")
    values, places = relay.topk(x, count, axis, "both", False, "int64")
    if not ctx.wants(2):
        return [values, places]
    strides = np.arange(math.prod(shape), dtype="int64").reshape(shape)
    starts = const(np.take(strides, [0], axis))
    step = const(math.prod(shape[axis + 1 :]), "int64")
    return [values, places, relay.reshape(relay.add(starts, relay.multiply(places, step)), (-1,))]
