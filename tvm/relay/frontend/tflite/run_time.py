"""Slices with run-time bounds."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .table import Context


def _element(ctx: Context, vector: RelayExpr, index: int) -> RelayExpr:
    return ctx.made(relay.take(relay.cast(vector, "int64"), const(index, "int64"), 0))


def run_time_slice(ctx: Context, data: RelayExpr, begin: RelayExpr, size: RelayExpr) -> RelayExpr:
    """Slice at a run-time position. A slice of constant size is gathered, so that its shape stays static."""
    shape, sizes = ctx.known_shape(data), ctx.value(size)
    if sizes is None or (sizes < 0).any():
        first = relay.cast(begin, "int64")
        count = relay.cast(size, "int64")
        rest = relay.subtract(Constant(np.array(shape, "int64")), first)
        count = relay.where(relay.less(count, const(0, "int64")), rest, count)
        return relay.strided_slice(data, ctx.made(first), ctx.made(relay.add(first, count)))
    for axis, (d, s) in enumerate(zip(shape, (int(v) for v in sizes.ravel()))):
        if s != d:
            places = relay.add(_element(ctx, begin, axis), Constant(np.arange(s, dtype="int64")))
            data = relay.take(data, places, axis, mode="clip")
    return data


def run_time_strided_slice(ctx: Context, inputs: list, options) -> RelayExpr:
    """Slice with run-time bounds. Single elements are gathered; ranges become dynamic slices."""
    data, begin, end = inputs[:3]
    strides = ctx.ints(inputs[3], "the strides")
    shape, count = ctx.known_shape(data), len(strides)
    if options.ellipsis_mask or options.new_axis_mask or options.offset or any(s != 1 for s in strides):
        raise TVMError(
            "a slice with run-time bounds is supported only with strides of 1, and without an ellipsis and new axes"
        )
    if count > len(shape):
        raise TVMError(f"a slice of {count} axes exceeds the {len(shape)} axes of the tensor")
    bounds: list[list[RelayExpr]] = [[], []]
    kept = [i for i in range(count) if not options.shrink_axis_mask & 1 << i]
    for axis in kept:
        for which, (vector, mask, open_end) in enumerate(
            ((begin, options.begin_mask, 0), (end, options.end_mask, shape[axis]))
        ):
            is_open = mask & 1 << axis
            bounds[which].append(const(open_end, "int64") if is_open else _element(ctx, vector, axis))
    if kept:
        ends = [ctx.made(relay.stack(row, 0)) for row in bounds]
        data = ctx.made(relay.strided_slice(data, *ends, const([1] * len(kept), "int64"), axes=kept))
    for axis in reversed([i for i in range(count) if i not in kept]):
        place = _element(ctx, begin, axis)
        place = relay.where(relay.less(place, const(0, "int64")), relay.add(place, const(shape[axis], "int64")), place)
        data = relay.take(data, place, axis, mode="clip")
    return data


__all__ = ["run_time_slice", "run_time_strided_slice"]
