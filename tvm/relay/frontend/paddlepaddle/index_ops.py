"""Converters of gather, scatter, sorting and search operators."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import run_time
from .elementwise import unary
from .shape_ops import is_known
from .table import Context, axis_of, check_count, op


def _flat(ctx: Context, e: RelayExpr) -> RelayExpr:
    return e if ctx.rank(e) == 1 else relay.reshape(e, (-1,))


def from_start(ctx: Context, x: RelayExpr, index: RelayExpr, axis: int) -> RelayExpr:
    """Make negative indices, which count from the end, non-negative."""
    size = run_time.scalar(ctx, run_time.size_of(ctx, x, axis), ctx.dtype(index))
    return ctx.made(relay.where(relay.less(index, ctx.like(0, index)), relay.add(index, size), index))


@op("gather")
def gather(ctx):
    """Gather along an axis. A scalar index removes the axis."""
    x, index = ctx.get("X"), ctx.get("Index")
    axis = axis_of(ctx.number("axis", "Axis"), ctx.rank(x))
    index = _flat(ctx, index) if ctx.rank(index) > 1 else index
    return relay.take(x, from_start(ctx, x, index, axis), axis)


def _points(ctx: Context, x: RelayExpr, index: RelayExpr) -> RelayExpr:
    """Return non-negative coordinates with the coordinate axis first."""
    count, rank = ctx.known_size(index, -1), ctx.rank(index)
    if count > ctx.rank(x):
        raise TVMError(f"indices of {count} coordinates do not match {ctx.rank(x)} dimensions")
    sizes = relay.cast(relay.strided_slice(run_time.shape_of(ctx, x), [0], [count], [1], [0]), ctx.dtype(index))
    index = relay.where(relay.less(index, ctx.like(0, index)), relay.add(index, sizes), index)
    return ctx.made(relay.transpose(index, [rank - 1, *range(rank - 1)]))


@op("gather_nd")
def gather_nd(ctx):
    x, index = ctx.get("X"), ctx.get("Index")
    if ctx.shape(index)[-1] == 0:
        raise TVMError("indices without coordinates are not supported")
    return relay.gather_nd(x, _points(ctx, x, index))


@op("scatter_nd_add")
def scatter_nd_add(ctx):
    x, index = ctx.get("X"), ctx.get("Index")
    return relay.scatter_nd(x, _points(ctx, x, index), ctx.get("Updates"), "add")


@op("scatter")
def scatter(ctx):
    """Replace rows; with ``overwrite=False``, sum the updates of each row instead."""
    x, ids, updates = ctx.get("X"), _flat(ctx, ctx.get("Ids")), ctx.get("Updates")
    places = ctx.made(relay.expand_dims(from_start(ctx, x, ctx.made(ids), 0), 0))
    if ctx.attr("overwrite", True):
        return relay.scatter_nd(x, places, updates, "update")
    none = relay.scatter_nd(x, places, relay.zeros_like(updates), "update")
    return relay.scatter_nd(none, places, updates, "add")


@op("index_select")
def index_select(ctx):
    x = ctx.get("X")
    axis = ctx.axis("dim", x, 0)
    return relay.take(x, from_start(ctx, x, ctx.get("Index"), axis), axis)


@op("index_sample")
def index_sample(ctx):
    return relay.gather(ctx.get("X"), 1, ctx.get("Index"))


@op("index_add")
def index_add(ctx):
    x = ctx.get("X")
    axis, rank = ctx.axis("axis", x, 0), ctx.rank(x)
    order = [axis, *(i for i in range(rank) if i != axis)]
    places = ctx.made(relay.expand_dims(from_start(ctx, x, ctx.get("Index"), axis), 0))
    moved, added = (ctx.made(relay.transpose(e, order)) for e in (x, ctx.get("AddValue")))
    return relay.transpose(relay.scatter_nd(moved, places, added, "add"), [order.index(i) for i in range(rank)])


def _crop_to_indices(ctx: Context, x: RelayExpr, index: RelayExpr, axis: int) -> RelayExpr:
    """Crop the other axes of the data to the shape of the indices."""
    if not (is_known(ctx, x) and is_known(ctx, index)):
        return x
    have, want = ctx.known_shape(x), ctx.known_shape(index)
    cut = [i for i in range(len(have)) if i != axis and have[i] != want[i]]
    if any(want[i] > have[i] for i in cut):
        raise TVMError(f"indices of shape {want} exceed the data of shape {have}")
    return relay.strided_slice(x, [0] * len(cut), [want[i] for i in cut], [1] * len(cut), cut) if cut else x


@op("take_along_axis")
def take_along_axis(ctx):
    x, index = ctx.get("Input"), ctx.get("Index")
    axis = ctx.axis("Axis", x, 0)
    return relay.gather(_crop_to_indices(ctx, x, index, axis), axis, from_start(ctx, x, index, axis))


_REDUCTIONS = {"assign": "update", "add": "add", "mul": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@op("put_along_axis")
def put_along_axis(ctx):
    x, index, value = ctx.get("Input"), ctx.get("Index"), ctx.get("Value")
    ctx.refuse(Include_self=True)
    axis, mode = ctx.axis("Axis", x, 0), ctx.attr("Reduce", "assign")
    if mode not in _REDUCTIONS:
        raise TVMError(f"the attribute 'Reduce' must be one of {', '.join(_REDUCTIONS)}, got {mode!r}")
    if ctx.shape(value) != ctx.shape(index):
        value = run_time.expanded(ctx, value, run_time.shape_of(ctx, index))
    return relay.scatter_elements(x, from_start(ctx, x, index, axis), value, axis, _REDUCTIONS[mode])


@op("index_put")
def index_put(ctx):
    x, value = ctx.get("x"), ctx.get("value")
    indices = ctx.tensors("indices")
    if any(ctx.dtype(i) == "bool" for i in indices):
        raise TVMError("boolean indices are not supported")
    shape = np.broadcast_shapes(*(ctx.known_shape(i) for i in indices))
    rows = [from_start(ctx, x, relay.broadcast_to(i, shape), axis) for axis, i in enumerate(indices)]
    wanted = (*shape, *ctx.known_shape(x)[len(indices) :])
    value = relay.broadcast_to(value, wanted) if ctx.known_shape(value) != wanted else value
    mode = "add" if ctx.attr("accumulate", False) else "update"
    return {"out": relay.scatter_nd(x, relay.stack(rows, 0), value, mode)}


@op("masked_fill")
def masked_fill(ctx):
    x = ctx.get("x")
    return {"out": relay.where(ctx.get("mask"), ctx.get("value"), x)}


@op("lookup_table", "lookup_table_v2")
def lookup_table(ctx):
    """Look up rows of a table. The padding index yields zeros."""
    table, ids = ctx.get("W"), ctx.get("Ids")
    if ctx.operator.type == "lookup_table":
        ids = ctx.made(relay.squeeze(ids, [ctx.rank(ids) - 1]))
    out, padding = relay.take(table, ids, 0), ctx.attr("padding_idx", -1)
    if padding == -1:
        return out
    hit = relay.expand_dims(relay.equal(ids, ctx.like(padding, ids)), ctx.rank(ids))
    return relay.where(hit, ctx.like(0, table), out)


@op("one_hot_v2", "one_hot")
def one_hot(ctx):
    ids, depth = ctx.get("X"), ctx.number("depth", "depth_tensor", -1)
    check_count("the depth", [depth])
    if ctx.operator.type == "one_hot":
        ids = ctx.made(relay.squeeze(ids, [ctx.rank(ids) - 1]))
    rank = ctx.rank(ids)
    places = const(np.arange(depth).reshape([1] * rank + [depth]).astype(ctx.dtype(ids)))
    return relay.cast(relay.equal(relay.expand_dims(ids, rank), places), ctx.dtype_attr("dtype"))


@op("sequence_mask")
def sequence_mask(ctx):
    x, most = ctx.get("X"), ctx.maybe("MaxLenTensor")
    rank, given = ctx.rank(x), ctx.attr("maxlen", -1)
    if most is not None:
        count = run_time.scalar(ctx, most)
    else:
        count = run_time.number(given) if given >= 0 else ctx.made(relay.cast(relay.max(x), "int64"))
    places = run_time.along(ctx, run_time.counted(ctx, count), rank, rank + 1)
    hit = relay.less(relay.cast(places, ctx.dtype(x)), relay.expand_dims(x, rank))
    return {"Y": relay.cast(hit, ctx.dtype_attr("out_dtype", "int64"))}


# -- sorting ----------------------------------------------------------------------------------------------------------


def _arg(name: str):
    def convert(ctx, x):
        kind, keep = ctx.dtype_attr("dtype", "int64"), bool(ctx.attr("keepdims", False))
        rank = ctx.rank(x)
        if ctx.attr("flatten", False) or not rank:
            out = getattr(relay, name)(relay.reshape(x, (-1,)), axis=0)
            return relay.cast(relay.reshape(out, [1] * rank) if keep else out, kind)
        return relay.cast(getattr(relay, name)(x, axis=ctx.axis("axis", x), keepdims=keep), kind)

    return convert


unary("arg_max")(_arg("argmax"))
unary("arg_min")(_arg("argmin"))


@op("argsort")
def argsort(ctx):
    x = ctx.get("X")
    if not ctx.rank(x):
        return {"Out": x, "Indices": const(0, "int64")}
    axis = ctx.axis("axis", x)
    places = ctx.made(relay.argsort(x, axis, not ctx.attr("descending", False), "int64"))
    return {"Out": relay.gather(x, axis, places), "Indices": places}


@op("top_k", "top_k_v2")
def top_k(ctx):
    x, given = ctx.get("X"), ctx.maybe("K")
    axis, ascending = ctx.axis("axis", x), not ctx.attr("largest", True)
    if given is not None and ctx.is_run_time_value(given):
        values, places = run_time.largest(ctx, x, given, axis, ascending)
        return {"Out": values, "Indices": places}
    k, size = ctx.number("k", "K", 1), ctx.shape(x)[axis]
    if k < 1 or isinstance(size, int) and k > size:
        raise TVMError(f"k {k} is out of range for axis {axis} of size {size}")
    values, places = relay.topk(x, k, axis, "both", ascending, "int64")
    return {"Out": values, "Indices": places}


def _running(name: str, axis_name: str):
    def convert(ctx, x):
        if ctx.attr("flatten", False):
            x, axis = ctx.made(relay.reshape(x, (-1,))), 0
        else:
            axis = ctx.axis(axis_name, x)
        backwards = ctx.attr("reverse", False)
        x = relay.reverse(x, axis) if backwards else x
        out = getattr(relay, name)(x, axis, ctx.dtype(ctx.made(x)), bool(ctx.attr("exclusive", False)))
        return relay.reverse(out, axis) if backwards else out

    return convert


unary("cumsum")(_running("cumsum", "axis"))
unary("cumprod")(_running("cumprod", "dim"))


@op("searchsorted")
def searchsorted(ctx):
    kind = "int32" if ctx.attr("out_int32", False) else "int64"
    return relay.searchsorted(ctx.get("SortedSequence"), ctx.get("Values"), bool(ctx.attr("right", False)), kind)


# -- outputs with a size known only at run time -----------------------------------------------------------------------


def _true_indices(ctx: Context, e: RelayExpr) -> RelayExpr:
    hit = e if ctx.dtype(e) == "bool" else relay.not_equal(e, ctx.like(0, e))
    return ctx.made(relay.cast(relay.argwhere(hit), "int64"))


@op("where_index")
def where_index(ctx):
    return _true_indices(ctx, ctx.get("Condition"))


@op("masked_select")
def masked_select(ctx):
    x, mask = ctx.get("X"), ctx.get("Mask")
    places = _true_indices(ctx, mask)
    return {"Y": relay.gather_nd(x, relay.transpose(places, (1, 0)))}


@op("unique")
def unique(ctx):
    x = ctx.get("X")
    if ctx.attr("axis", []) or not ctx.attr("is_sorted", False):
        raise TVMError("unique supports only the sorted elements of the flattened tensor (is_sorted=True, no axis)")
    kind = ctx.dtype_attr("dtype", "int64")
    values, first, inverse, count, counts = relay.unique(relay.reshape(x, (-1,)), True, True)
    count = ctx.made(count)
    ends = [run_time.number([0]), run_time.vector(ctx, count), run_time.number([1])]

    def kept(e):
        return relay.strided_slice(e, *ends, axes=[0])

    return {"Out": kept(values), "Indices": relay.cast(kept(first), kind), "Index": relay.cast(inverse, kind),
            "Counts": relay.cast(kept(counts), kind)}  # fmt: skip


# -- diagonals --------------------------------------------------------------------------------------------------------


@unary("diag_v2")
def diag(ctx, x):
    """Return a matrix with the input as diagonal, or the diagonal of a matrix."""
    offset, shape = ctx.attr("offset", 0), ctx.known_shape(x)
    if len(shape) == 1:
        n = shape[0] + abs(offset)
        check_count("a matrix", [n, n])
        mask = np.eye(n, k=offset, dtype=bool)
        source = np.where(mask, np.clip(np.arange(n)[:, None] + min(offset, 0), 0, max(shape[0] - 1, 0)), 0)
        taken = relay.take(x, const(source.astype("int64")), 0)
        return relay.where(const(mask), taken, ctx.like(ctx.attr("padding_value", 0.0), x))
    if len(shape) != 2:
        raise TVMError(f"expected a vector or a matrix, got {len(shape)} dimensions")
    return _diagonal(ctx, x, offset, 0, 1)


def _diagonal(ctx: Context, x: RelayExpr, offset: int, a: int, b: int) -> RelayExpr:
    rank = ctx.rank(x)
    order = [i for i in range(rank) if i not in (a, b)] + [a, b]
    moved = ctx.made(relay.transpose(x, order))
    rows, columns = ctx.known_size(moved, -2), ctx.known_size(moved, -1)
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset).astype("int64")
    flat = relay.reshape(moved, [*[0] * (rank - 2), -3])
    return relay.take(flat, const(places), rank - 2)


@op("diagonal")
def diagonal(ctx):
    x = ctx.get("Input")
    return _diagonal(ctx, x, ctx.attr("offset", 0), ctx.axis("axis1", x, 0), ctx.axis("axis2", x, 1))


__all__ = ["from_start"]
