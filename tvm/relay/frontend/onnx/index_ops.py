"""Converters of operators that gather, scatter, sort or count elements by index."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ....ir.op import Op
from ... import op as relay
from ...expr import Call, Constant, Var, const
from ...size_values import plain, same_size
from ..common import run_time
from .declared import shape_of_output
from .load import check_count
from .table import argument, axis_of, check_steps, op


def from_end(ctx, data, indices, axis: int):
    """Add the axis size to negative indices."""
    size = ctx.shape(data)[axis]
    if isinstance(indices, Constant):
        array = indices.data.numpy()
        if not (array < 0).any():
            return indices
        if isinstance(size, int):
            return Constant(np.where(array < 0, array + size, array).astype(array.dtype))
    if _counts_from_zero(ctx, indices):
        return indices
    limit = ctx.like(size, indices) if isinstance(size, int) else _size_like(ctx, data, axis, indices)
    return relay.where(relay.less(indices, ctx.like(0, indices)), relay.add(indices, limit), indices)


# Relay operators that do not change the values of their input, up to its type and shape.
_SAME_NUMBERS = ("cast", "expand_dims", "reshape", "squeeze")


def _counts_from_zero(ctx, indices) -> bool:
    """Return whether an index is the iteration number of a loop, which is never negative."""
    while isinstance(indices, Call) and isinstance(indices.op, Op) and indices.op.name in _SAME_NUMBERS:
        indices = indices.args[0]
    return isinstance(indices, Var) and indices in ctx.importer.counters


def _size_like(ctx, data, axis: int, e):
    """Return a dynamic size as a scalar of the element type of ``e``."""
    return run_time.scalar(ctx, run_time.size_of(ctx, data, axis), ctx.dtype(e))


@op("Gather")
def gather(ctx, inputs, attrs):
    axis = axis_of(attrs.get("axis", 0), ctx.rank(inputs[0]))
    return relay.take(inputs[0], from_end(ctx, inputs[0], inputs[1], axis), axis)


@op("GatherElements")
def gather_elements(ctx, inputs, attrs):
    data, axis = inputs[0], attrs.get("axis", 0)
    axis = axis_of(axis, ctx.rank(data))
    indices = from_end(ctx, data, inputs[1], axis)
    have, want = ctx.shape(data), ctx.shape(indices)
    rest = [i for i in range(len(have)) if i != axis and not same_size(plain(have[i]), plain(want[i]))]
    if any(not isinstance(want[i], int) for i in rest):
        ends = run_time.joined(ctx, [run_time.size_of(ctx, indices, i) for i in rest])
        zero, one = (run_time.number([v] * len(rest)) for v in (0, 1))
        data = relay.strided_slice(data, zero, ends, one, rest)
    elif rest:
        data = relay.strided_slice(data, [0] * len(rest), [want[i] for i in rest], [1] * len(rest), rest)
    return relay.gather(data, axis, indices)


@op("GatherND")
def gather_nd(ctx, inputs, attrs):
    data, indices = inputs
    batch = attrs.get("batch_dims", 0)
    indices = _points(ctx, data, indices, batch)
    rank = ctx.rank(indices)
    return relay.gather_nd(data, relay.transpose(indices, [rank - 1, *range(rank - 1)]), batch)


def _points(ctx, data, indices, batch: int):
    """Return the index tuples with negative indices replaced by non-negative ones."""
    count = ctx.known_size(indices, -1)
    sizes = ctx.shape(data)[batch : batch + count]
    if all(isinstance(d, int) for d in sizes):
        limit = const(np.array(sizes, ctx.dtype(indices)))
    else:
        limit = relay.strided_slice(run_time.shape_of(ctx, data), [batch], [batch + count], [1], [0])
        limit = relay.cast(limit, ctx.dtype(indices))
    return relay.where(relay.less(indices, ctx.like(0, indices)), relay.add(indices, limit), indices)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@op("ScatterElements", "Scatter")
def scatter_elements(ctx, inputs, attrs):
    data, indices, updates = inputs
    axis = axis_of(attrs.get("axis", 0), ctx.rank(data))
    return relay.scatter_elements(
        data, from_end(ctx, data, indices, axis), updates, axis, _REDUCTIONS[attrs.get("reduction", "none")]
    )


@op("ScatterND")
def scatter_nd(ctx, inputs, attrs):
    data, indices, updates = inputs
    indices = _points(ctx, data, indices, 0)
    rank = ctx.rank(indices)
    return relay.scatter_nd(
        data,
        relay.transpose(indices, [rank - 1, *range(rank - 1)]),
        updates,
        _REDUCTIONS[attrs.get("reduction", "none")],
    )


@op("TensorScatter")
def tensor_scatter(ctx, inputs, attrs):
    """Write updates into a cache at a start position per batch element: gather the update of each cache element."""
    cache, update = inputs[:2]
    axis = axis_of(attrs.get("axis", -2), ctx.rank(cache))
    shape, new = ctx.known_shape(cache), ctx.known_shape(update)
    start = argument(inputs, 2)
    start = const(np.zeros(shape[0], "int64")) if start is None else relay.cast(start, "int64")
    spread = [1] * len(shape)
    spread[0] = shape[0]
    start = relay.reshape(start, spread)
    places = np.arange(shape[axis], dtype="int64").reshape([shape[axis] if i == axis else 1 for i in range(len(shape))])
    offset = relay.subtract(const(places), start)
    if attrs.get("mode", "linear") == "circular":
        offset = relay.floor_mod(offset, const(shape[axis], "int64"))
    inside = relay.logical_and(
        relay.greater_equal(offset, const(0, "int64")), relay.less(offset, const(new[axis], "int64"))
    )
    at = relay.minimum(relay.maximum(offset, const(0, "int64")), const(new[axis] - 1, "int64"))
    taken = relay.gather(update, axis, relay.broadcast_to(at, shape))
    return relay.where(inside, taken, cache)


@op("OneHot")
def one_hot(ctx, inputs, attrs):
    indices, depth, values = inputs
    rank = ctx.rank(indices) + 1
    axis = axis_of(attrs.get("axis", -1), rank)
    if ctx.is_run_time_value(depth) and ctx.declared() is None:
        return _dynamic_one_hot(ctx, indices, depth, values, axis)
    depth = shape_of_output(ctx, "the depth")[axis] if ctx.is_run_time_value(depth) else ctx.ints(depth, "the depth")[0]
    check_count("the depth", [depth])
    indices = relay.cast(indices, "int64")
    indices = relay.where(relay.less(indices, const(0, "int64")), relay.add(indices, const(depth, "int64")), indices)
    places = np.arange(depth, dtype="int64").reshape([depth if i == axis else 1 for i in range(rank)])
    hit = relay.equal(relay.expand_dims(indices, axis), const(places))
    off, on = (relay.take(values, const(i, "int64"), 0) for i in (0, 1))
    return relay.where(hit, on, off)


def _dynamic_one_hot(ctx, indices, depth, values, axis: int):
    depth, indices = run_time.scalar(ctx, depth), relay.cast(indices, "int64")
    indices = relay.where(relay.less(indices, const(0, "int64")), relay.add(indices, depth), indices)
    off, on = (relay.take(values, const(i, "int64"), 0) for i in (0, 1))
    return relay.one_hot(indices, on, off, run_time.joined(ctx, [depth]), axis, ctx.dtype(values))


@op("TopK")
def topk(ctx, inputs, attrs):
    axis = axis_of(attrs.get("axis", -1), ctx.rank(inputs[0]))
    if "k" in attrs:
        k = attrs["k"]
    elif ctx.is_run_time_value(inputs[1]) and ctx.declared() is None:
        return run_time.largest(ctx, inputs[0], inputs[1], axis, not attrs.get("largest", 1))
    else:
        k = shape_of_output(ctx, "k")[axis] if ctx.is_run_time_value(inputs[1]) else ctx.ints(inputs[1], "k")[0]
    shape = ctx.shape(inputs[0])
    if k < 0 or isinstance(shape[axis], int) and k > shape[axis]:
        raise TVMError(f"k is {k}, but axis {axis} has only {shape[axis]} elements")
    if k == 0:
        # Relay's ``topk`` interprets k < 1 as "all elements".
        none = relay.strided_slice(inputs[0], [0], [0], [1], [axis])
        return [none, relay.cast(none, "int64")]
    return list(relay.topk(inputs[0], k, axis, "both", not attrs.get("largest", 1), "int64"))


def _arg(name: str):
    def convert(ctx, inputs, attrs):
        out = getattr(relay, name)(
            inputs[0],
            axis=axis_of(attrs.get("axis", 0), ctx.rank(inputs[0])),
            keepdims=bool(attrs.get("keepdims", 1)),
            select_last_index=bool(attrs.get("select_last_index", 0)),
        )
        return relay.cast(out, "int64")

    return convert


op("ArgMax")(_arg("argmax"))
op("ArgMin")(_arg("argmin"))


def _running(name: str):
    def convert(ctx, inputs, attrs):
        """Accumulate along an axis. For a run-time axis, select among the outputs for all axes."""
        data = inputs[0]
        rank = ctx.rank(data)
        known = ctx.value(inputs[1])
        if known is not None:
            return running(ctx, name, data, axis_of(int(known.reshape(-1)[0]), rank), attrs)
        axis = relay.reshape(inputs[1], ()) if ctx.rank(inputs[1]) else inputs[1]
        axis = run_time.axes_from_start(ctx, axis, rank)
        out = running(ctx, name, data, 0, attrs)
        for i in range(1, rank):
            out = relay.where(relay.equal(axis, ctx.like(i, axis)), running(ctx, name, data, i, attrs), out)
        return out

    return convert


def running(ctx, name: str, data, axis: int, attrs):
    backwards = attrs.get("reverse", 0)
    out = relay.reverse(data, axis) if backwards else data
    out = getattr(relay, name)(out, axis, ctx.dtype(data), bool(attrs.get("exclusive", 0)))
    return relay.reverse(out, axis) if backwards else out


op("CumSum")(_running("cumsum"))
op("CumProd")(_running("cumprod"))


@op("Einsum")
def einsum(ctx, inputs, attrs):
    return relay.einsum(inputs, attrs["equation"].replace(" ", ""))


@op("Det")
def determinant(ctx, inputs, attrs):
    """Compute the determinant by unrolled Gaussian elimination with row exchanges; it is meant for small matrices."""
    data = inputs[0]
    shape = ctx.known_shape(data)
    n = shape[-1]
    check_steps("a determinant", n)
    rest = list(shape[:-2])
    out = None
    a = data
    axis = len(rest)
    for size in range(n, 0, -1):
        column = relay.take(a, const(0, "int64"), axis + 1)
        place = relay.argmax(relay.abs(column), axis=axis, keepdims=True)
        rows = const(np.arange(size, dtype="int64").reshape([1] * axis + [size]))
        place = relay.cast(place, "int64")
        is_pivot = relay.equal(rows, place)
        mask = relay.cast(relay.expand_dims(is_pivot, axis + 1), ctx.dtype(data))
        pivot_row = relay.sum(relay.multiply(a, mask), axis=axis, keepdims=True)
        pivot = relay.take(pivot_row, const([0], "int64"), axis + 1)
        sign = relay.where(relay.equal(place, const(0, "int64")), ctx.like(1, data), ctx.like(-1, data))
        factor = relay.multiply(relay.reshape(pivot, rest), relay.reshape(sign, rest))
        out = factor if out is None else relay.multiply(out, factor)
        if size == 1:
            break
        first = relay.take(a, const([0], "int64"), axis)
        a = relay.where(relay.expand_dims(is_pivot, axis + 1), first, a)
        safe = relay.where(relay.equal(pivot, ctx.like(0, data)), ctx.like(1, data), pivot)
        ratio = relay.divide(relay.take(a, const([0], "int64"), axis + 1), safe)
        a = relay.subtract(a, relay.multiply(ratio, pivot_row))
        a = relay.strided_slice(a, [1, 1], [size, size], [1, 1], [axis, axis + 1])
    return out


@op("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(ctx, inputs, attrs):
    out = relay.take(inputs[0], relay.reshape(inputs[1], (-1,)), ctx.rank(inputs[0]) - 1)
    return relay.reshape(out, (1, -1)) if ctx.rank(inputs[0]) == 1 else out
