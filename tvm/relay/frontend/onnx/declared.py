"""Operators whose sizes are computed when the model runs, in models that declare the shapes of the results.

The shape a model declares for a value is part of the model. Where it decides what an operator does (the shape of a
Reshape, the k of a TopK), it is used; where positions are left open (a Slice, a Pad), they stay run-time values, and
the result is gathered by indices computed in the program.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import check_count
from .table import axis_of


def _late(ctx, what: str) -> TVMError:
    """Nothing declares what a value would say; the data itself, the first input, is not to blame."""
    late = [e for e in ctx.inputs[1:] if e is not None and ctx.value(e) is None]
    return ctx.late(what, late or ctx.inputs)


def declared_shapes(graph) -> dict[str, tuple[int, ...]]:
    """The shapes of values that a graph gives in full, by name."""
    out = {}
    for value in (*graph.value_info, *graph.output):
        t = value.type.tensor_type
        if (
            value.type.HasField("tensor_type")
            and t.HasField("shape")
            and all(d.HasField("dim_value") for d in t.shape.dim)
        ):
            out[value.name] = tuple(d.dim_value for d in t.shape.dim)
    return out


def declared_rank(value) -> int:
    """The number of dimensions that a graph gives to a tensor; -1 if it does not."""
    t = value.type.tensor_type
    return len(t.shape.dim) if value.type.HasField("tensor_type") and t.HasField("shape") else -1


def decides(ctx, data) -> bool:
    """Whether the declared shape of the node's result says what it does to data of known shape."""
    return ctx.declared() is not None and all(isinstance(d, int) for d in ctx.shape(data))


def shape_of_output(ctx, what: str, index: int = 0) -> tuple[int, ...]:
    """The declared shape of the node's result, or the error that the value is not known."""
    found = ctx.declared(index)
    if found is None:
        raise _late(ctx, what)
    return found


def reshaped(ctx, data, what: str):
    shape = shape_of_output(ctx, what)
    if int(np.prod(shape)) != int(np.prod(ctx.known_shape(data))):
        raise TVMError(f"the declared shape {shape} does not hold the elements of shape {ctx.known_shape(data)}")
    return relay.reshape(data, shape, True)


def repeats(ctx, data) -> list[int]:
    shape, have = shape_of_output(ctx, "the repeats"), ctx.known_shape(data)
    if len(shape) != len(have) or any(h == 0 or s % h for s, h in zip(shape, have)):
        raise _late(ctx, "the repeats")
    return [s // h for s, h in zip(shape, have)]


def reduced_axes(ctx, data, axes, attrs) -> list[tuple[list[int], object]]:
    """Sets of axes that give the declared shape, each with the run-time test whether it is the one."""
    shape, have = shape_of_output(ctx, "the axes"), ctx.known_shape(data)
    rank, keepdims = len(have), bool(attrs.get("keepdims", 1))
    if keepdims and have != shape:
        # Reducing an axis of one element more or less changes nothing.
        return [([i for i, (s, h) in enumerate(zip(shape, have)) if s != h], None)]
    count = ctx.known_shape(axes)[0] if ctx.rank(axes) else 1
    if count > rank:
        raise TVMError(f"{count} axes are given for a tensor of {rank} dimensions")
    noop = bool(attrs.get("noop_with_empty_axes", 0))
    if count == 0:
        return [([] if noop else list(range(rank)), None)]
    choices = []
    for mask in range(1, 1 << rank):
        gone = [i for i in range(rank) if mask >> i & 1]
        left = tuple(1 if i in gone else h for i, h in enumerate(have) if keepdims or i not in gone)
        if left == tuple(shape) and len(gone) <= count:
            choices.append(gone)
    if not choices:
        raise _late(ctx, "the axes")
    if len(choices) == 1:
        return [(choices[0], None)]
    return [(gone, _are(ctx, axes, count, gone, rank)) for gone in choices]


def _are(ctx, axes, count: int, wanted: list[int], rank: int):
    """Whether run-time axes are exactly these."""
    out = None
    for d in range(rank):
        found = None
        for k in range(count):
            axis = _scalar(ctx, axes, k)
            hit = relay.logical_or(relay.equal(axis, const(d, "int64")), relay.equal(axis, const(d - rank, "int64")))
            found = hit if found is None else relay.logical_or(found, hit)
        found = found if d in wanted else relay.logical_not(found)
        out = found if out is None else relay.logical_and(out, found)
    return out


def _scalar(ctx, vector, index: int):
    """One element as a 64-bit scalar."""
    flat = relay.reshape(vector, (-1,)) if ctx.rank(vector) != 1 else vector
    return relay.cast(relay.take(flat, const(index, "int64"), 0), "int64")


def _by_axis(ctx, vector, axes, rank: int, default: int) -> list:
    """For each axis its element of a vector that belongs to run-time or known axes; None where it has none."""
    count = ctx.known_shape(vector)[0] if ctx.rank(vector) == 1 else -1
    if not 0 <= count <= rank:
        raise TVMError(f"a vector of at most {rank} numbers is wanted, one for each axis, got {ctx.shape(vector)}")
    known = list(range(count)) if axes is None else ctx.value(axes)
    out: list = [None] * rank
    if known is not None:
        for i, axis in enumerate(known):
            out[axis_of(int(axis), rank)] = _scalar(ctx, vector, i)
        return out
    zero = const(0, "int64")
    for d in range(rank):
        out[d] = const(default, "int64")
        for i in range(count):
            axis = _scalar(ctx, axes, i)
            axis = relay.where(relay.less(axis, zero), relay.add(axis, const(rank, "int64")), axis)
            out[d] = relay.where(relay.equal(axis, const(d, "int64")), _scalar(ctx, vector, i), out[d])
    return out


def sliced(ctx, data, starts, axes, steps):
    """Elements start, start + step, ... of every axis; how many, the model declares."""
    shape, have = shape_of_output(ctx, "starts"), ctx.known_shape(data)
    rank = len(have)
    begin = _by_axis(ctx, starts, axes, rank, 0)
    step = _by_axis(ctx, steps, axes, rank, 1) if steps is not None else [None] * rank
    zero = const(0, "int64")
    for axis in range(rank):
        if begin[axis] is None:
            continue
        size = const(have[axis], "int64")
        stride = step[axis] if step[axis] is not None else const(1, "int64")
        first = relay.where(relay.less(begin[axis], zero), relay.add(begin[axis], size), begin[axis])
        last = relay.where(relay.less(stride, zero), relay.subtract(size, const(1, "int64")), size)
        first = relay.minimum(relay.maximum(first, zero), last)
        places = relay.add(first, relay.multiply(const(np.arange(shape[axis], dtype="int64")), stride))
        data = relay.take(data, places, axis)
    return data


def padded(ctx, data, amounts, axes, value, mode: str):
    """Padding by run-time amounts: every place of the result finds its source, or is outside."""
    shape, have = shape_of_output(ctx, "the padding"), ctx.known_shape(data)
    rank = len(have)
    if ctx.rank(amounts) != 1 or ctx.known_shape(amounts)[0] > 2 * rank:
        raise TVMError(f"a vector of at most {2 * rank} amounts is wanted, two for each axis, got {ctx.shape(amounts)}")
    count = ctx.known_shape(amounts)[0] // 2
    before = _by_axis(ctx, relay.strided_slice(amounts, [0], [count], [1], [0]), axes, rank, 0)
    outside = None
    zero = const(0, "int64")
    for axis in range(rank):
        if before[axis] is None:
            continue
        size = have[axis]
        at = relay.subtract(const(np.arange(shape[axis], dtype="int64")), before[axis])
        if mode == "constant":
            out = relay.logical_or(relay.less(at, zero), relay.greater_equal(at, const(size, "int64")))
            out = relay.reshape(out, [-1 if i == axis else 1 for i in range(rank)])
            outside = out if outside is None else relay.logical_or(outside, out)
        elif mode == "wrap":
            at = relay.floor_mod(at, const(size, "int64"))
        elif mode == "reflect":
            period = max(2 * (size - 1), 1)
            at = relay.floor_mod(at, const(period, "int64"))
            at = relay.minimum(at, relay.subtract(const(period, "int64"), at))
        elif mode != "edge":
            raise TVMError(f"padding mode '{mode}' is not supported")
        at = relay.minimum(relay.maximum(at, zero), const(size - 1, "int64"))
        data = relay.take(data, at, axis)
    return data if outside is None else relay.where(outside, value, data)


def counted(ctx, start, delta):
    """start, start + delta, ... as many as the model declares."""
    count = shape_of_output(ctx, "the range")[0]
    start, delta = (relay.reshape(v, ()) if ctx.rank(v) else v for v in (start, delta))
    check_count("the range", [count])
    steps = const(np.arange(count).astype(ctx.dtype(start)))
    return relay.add(start, relay.multiply(steps, delta))


__all__ = [
    "counted", "declared_rank", "decides", "declared_shapes", "padded", "reduced_axes", "repeats", "reshaped",
    "shape_of_output", "sliced",
]  # fmt: skip
