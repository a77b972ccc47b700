"""Converters of operators with run-time arguments, such as the shape of Reshape, in models that declare output shapes.

Where the declared shape of an output determines an argument (the shape of a Reshape, the k of a TopK), the argument is
replaced by a constant. Arguments that stay ambiguous (the starts of a Slice, the amounts of a Pad) remain run-time
values: the output is gathered by indices that the program computes.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import check_count
from .table import axis_of


def _not_constant(ctx, what: str) -> TVMError:
    """Return an error about a run-time argument that no declared shape determines. It names the node's other inputs
    first.
    """
    late = [e for e in ctx.inputs[1:] if e is not None and ctx.value(e) is None]
    return ctx.not_constant(what, late or ctx.inputs)


def declared_shapes(graph) -> dict[str, tuple[int, ...]]:
    """Return the fully static shapes that a graph declares, by value name."""
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
    """Return the number of dimensions that a graph declares for a tensor; -1 if it declares no shape."""
    t = value.type.tensor_type
    return len(t.shape.dim) if value.type.HasField("tensor_type") and t.HasField("shape") else -1


def decides(ctx, data) -> bool:
    """Return whether the declared output shape determines the operator's arguments: it exists and the data shape is
    static.
    """
    return ctx.declared() is not None and all(isinstance(d, int) for d in ctx.shape(data))


def shape_of_output(ctx, what: str, index: int = 0) -> tuple[int, ...]:
    """Return the declared shape of an output of the node, or raise the error that ``what`` is not a constant."""
    found = ctx.declared(index)
    if found is None:
        raise _not_constant(ctx, what)
    return found


def reshaped(ctx, data, what: str):
    shape = shape_of_output(ctx, what)
    if int(np.prod(shape)) != int(np.prod(ctx.known_shape(data))):
        raise TVMError(
            f"the declared shape {shape} and the data's shape {ctx.known_shape(data)} have different numbers of "
            "elements"
        )
    return relay.reshape(data, shape, True)


def repeats(ctx, data) -> list[int]:
    shape, have = shape_of_output(ctx, "the repeats"), ctx.known_shape(data)
    if len(shape) != len(have) or any(h == 0 or s % h for s, h in zip(shape, have)):
        raise _not_constant(ctx, "the repeats")
    return [s // h for s, h in zip(shape, have)]


def reduced_axes(ctx, data, axes, attrs) -> list[tuple[list[int], object]]:
    """Return the candidate sets of axes that give the declared shape, each with its run-time test; None if it is the
    only one.
    """
    shape, have = shape_of_output(ctx, "the axes"), ctx.known_shape(data)
    rank, keepdims = len(have), bool(attrs.get("keepdims", 1))
    if keepdims and have != shape:
        # Axes of size 1 do not matter: reducing them does not change the output.
        return [([i for i, (s, h) in enumerate(zip(shape, have)) if s != h], None)]
    count = ctx.known_shape(axes)[0] if ctx.rank(axes) else 1
    if count > rank:
        raise TVMError(f"there are {count} axes for a tensor with {rank} dimensions")
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
        raise _not_constant(ctx, "the axes")
    if len(choices) == 1:
        return [(choices[0], None)]
    return [(gone, _axes_equal(ctx, axes, count, gone, rank)) for gone in choices]


def _axes_equal(ctx, axes, count: int, wanted: list[int], rank: int):
    """Return a run-time test: whether the run-time axes are exactly the axes in ``wanted``."""
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
    """Return one element of a vector as an int64 scalar."""
    flat = relay.reshape(vector, (-1,)) if ctx.rank(vector) != 1 else vector
    return relay.cast(relay.take(flat, const(index, "int64"), 0), "int64")


def _by_axis(ctx, vector, axes, rank: int, default: int) -> list:
    """Return, for each data axis, its element of a vector that is indexed by ``axes``; None for axes without an
    element.
    """
    count = ctx.known_shape(vector)[0] if ctx.rank(vector) == 1 else -1
    if not 0 <= count <= rank:
        raise TVMError(f"expected a vector of at most {rank} elements, one per axis, got shape {ctx.shape(vector)}")
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
    """Slice by run-time starts and steps; the declared output shape gives the number of elements."""
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
    """Pad by run-time amounts: each output element is gathered by its source index, or gets the padding value."""
    shape, have = shape_of_output(ctx, "the padding"), ctx.known_shape(data)
    rank = len(have)
    if ctx.rank(amounts) != 1 or ctx.known_shape(amounts)[0] > 2 * rank:
        raise TVMError(f"pads must have at most {2 * rank} elements, two per axis, got shape {ctx.shape(amounts)}")
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
    """Return start, start + delta, ...; the declared output shape gives the number of elements."""
    count = shape_of_output(ctx, "the range")[0]
    start, delta = (relay.reshape(v, ()) if ctx.rank(v) else v for v in (start, delta))
    check_count("the range", [count])
    steps = const(np.arange(count).astype(ctx.dtype(start)))
    return relay.add(start, relay.multiply(steps, delta))


__all__ = [
    "counted", "declared_rank", "decides", "declared_shapes", "padded", "reduced_axes", "repeats", "reshaped",
    "shape_of_output", "sliced",
]  # fmt: skip
