"""Converters of operators with data-dependent output shapes, such as NonZero, Unique and NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from ..common import run_time
from .table import argument, axis_of, op


@op("Compress")
def compress(ctx, inputs, attrs):
    condition, axis = inputs[1], attrs.get("axis")
    data = inputs[0] if axis is not None else relay.reshape(inputs[0], (-1,))
    axis = 0 if axis is None else axis_of(axis, ctx.rank(data))
    known = ctx.value(condition)
    if known is not None:
        return relay.take(data, const(np.nonzero(known)[0].astype("int64")), axis)
    data = ctx.made(data)
    size, count = ctx.shape(data)[axis], ctx.shape(condition)[0]
    if not (isinstance(size, int) and isinstance(count, int) and count <= size):
        # Condition elements beyond the end of the axis are ignored.
        condition = _first(ctx, condition, run_time.size_of(ctx, data, axis))
    places = relay.reshape(relay.argwhere(condition), (-1,))
    return relay.take(data, places, axis)


def _first(ctx, data, count):
    """Return the first ``count`` elements of a tensor along axis 0."""
    ends = (run_time.number([0]), run_time.joined(ctx, [count]), run_time.number([1]))
    rest = ctx.shape(ctx.made(data))[1:]
    return run_time.sharpened(ctx, relay.strided_slice(data, *ends, axes=[0]), [None, *rest])


@op("NonZero")
def non_zero(ctx, inputs, attrs):
    found = ctx.value(inputs[0])
    if found is not None:
        return Constant(np.stack(np.nonzero(found)).astype("int64"))
    return relay.cast(relay.transpose(relay.argwhere(inputs[0]), [1, 0]), "int64")


@op("NonMaxSuppression")
def non_max_suppression(ctx, inputs, attrs):
    boxes, scores = inputs[:2]
    limit, overlap, least = (argument(inputs, i) for i in (2, 3, 4))
    dtype = ctx.dtype(boxes)
    if attrs.get("center_point_box", 0):
        middle, extent = (relay.strided_slice(boxes, [k], [k + 2], [1], [2]) for k in (0, 2))
        half = relay.multiply(extent, const(0.5, dtype))
        boxes = relay.concatenate([relay.subtract(middle, half), relay.add(middle, half)], 2)
    if overlap is not None:
        overlap = run_time.within(ctx, run_time.scalar(ctx, overlap, dtype), 0, 1, "iou_threshold must be from 0 to 1")
    rows, count = relay.vision.all_class_non_max_suppression(
        boxes,
        scores,
        const(0, "int64") if limit is None else run_time.scalar(ctx, limit),
        const(0.0, dtype) if overlap is None else overlap,
        const(float("-inf"), dtype) if least is None else run_time.scalar(ctx, least, dtype),
    )
    return relay.cast(_first(ctx, rows, run_time.scalar(ctx, ctx.made(count))), "int64")


@op("Unique")
def unique(ctx, inputs, attrs):
    data, is_sorted = inputs[0], bool(attrs.get("sorted", 1))
    if "axis" in attrs:
        return _unique_rows(ctx, data, axis_of(attrs["axis"], ctx.rank(data)), is_sorted)
    kept = ctx.dtype(data)
    flat = relay.reshape(data, (-1,))
    # float32 represents all float16 and bfloat16 values exactly.
    flat = relay.cast(flat, "float32") if kept in ("bfloat16", "float16") else flat
    values, firsts, inverse, count, counts = relay.unique(flat, is_sorted, True)
    count = run_time.scalar(ctx, ctx.made(count))
    values = _first(ctx, values, count)
    values = relay.cast(values, kept) if kept in ("bfloat16", "float16") else values
    places = [relay.cast(v, "int64") for v in (_first(ctx, firsts, count), inverse, _first(ctx, counts, count))]
    return [values, *places]


def _unique_rows(ctx, data, axis: int, is_sorted: bool) -> list:
    """Return the unique slices along an axis, their indices, the inverse indices and the counts.

    All pairs of slices are compared; the first element in which two slices differ decides their order.
    """
    rank = ctx.rank(data)
    if not rank:
        raise TVMError("an axis is given, but the input is a scalar")
    order = [axis, *(i for i in range(rank) if i != axis)]
    rows = ctx.made(relay.transpose(data, order))
    flat = rows
    while ctx.rank(flat) > 2:
        flat = ctx.made(relay.reshape(flat, (0, -3, -2) if ctx.rank(flat) > 3 else (0, -3)))
    flat = flat if ctx.rank(flat) == 2 else ctx.made(relay.expand_dims(flat, 1))
    a, b = relay.expand_dims(flat, 1), relay.expand_dims(flat, 0)
    differs = relay.cast(relay.not_equal(a, b), "int32")
    same = ctx.made(relay.equal(relay.sum(differs, axis=2), const(0)))
    deciding = relay.equal(relay.cumsum(differs, 2), relay.multiply(differs, const(1)))
    decided = relay.logical_and(deciding, relay.equal(differs, const(1)))
    before = ctx.made(relay.any(relay.logical_and(decided, relay.less(a, b)), axis=2))
    first = ctx.made(relay.cast(relay.argmax(relay.cast(same, "int32"), axis=1), "int64"))
    count = run_time.size_of(ctx, flat, 0)
    is_first = ctx.made(relay.equal(first, run_time.counted(ctx, count)))
    places = ctx.made(relay.cast(relay.reshape(relay.argwhere(is_first), (-1,)), "int64"))
    if is_sorted:
        new = relay.logical_and(relay.expand_dims(is_first, 1), before)
        inverse = ctx.made(relay.sum(relay.cast(new, "int64"), axis=0))
        places = ctx.made(relay.take(places, relay.argsort(relay.take(inverse, places, 0), 0, True, "int64"), 0))
    else:
        number = relay.subtract(relay.cumsum(relay.cast(is_first, "int64"), 0), run_time.number(1))
        inverse = ctx.made(relay.take(number, first, 0))
    named = run_time.counted(ctx, run_time.size_of(ctx, places, 0))
    hits = relay.equal(relay.expand_dims(named, 1), relay.expand_dims(inverse, 0))
    counts = relay.sum(relay.cast(hits, "int64"), axis=1)
    return [relay.take(data, places, axis), places, inverse, counts]
