"""Converters of operators that gather, scatter, find and sort elements by index."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from ..common import tensorflow_ops as alike
from .state_ops import variable_value
from .table import Context, axis_of, check_count, host, op


def _places(ctx: Context, x: RelayExpr) -> RelayExpr:
    return x if ctx.dtype(x) in ("int32", "int64") else relay.cast(x, "int32")


@op("Gather", "GatherV2")
def gather(ctx, inputs, attrs):
    axis = 0 if len(inputs) < 3 else axis_of(ctx.single(inputs[2], "the axis"), ctx.rank(inputs[0]))
    batch = attrs.get("batch_dims", 0)
    batch = batch + ctx.rank(inputs[1]) if batch < 0 else batch
    return relay.take(inputs[0], _places(ctx, inputs[1]), axis=axis, batch_dims=batch)


@host("ResourceGather")
def resource_gather(ctx, inputs, attrs):
    if attrs.get("batch_dims", 0):
        raise TVMError("batch_dims is not supported for a variable")
    return relay.take(variable_value(ctx, inputs[0]), _places(ctx, inputs[1]), axis=0)


def _points(indices: RelayExpr, rank: int) -> RelayExpr:
    """Move the axis of the coordinates to the front."""
    return relay.transpose(indices, (rank - 1, *range(rank - 1))) if rank > 1 else indices


@op("GatherNd")
def gather_nd(ctx, inputs, attrs):
    rank = ctx.rank(inputs[1])
    if not rank:
        raise TVMError("indices must have at least 1 dimension")
    batch = attrs.get("batch_dims", 0)
    return relay.gather_nd(inputs[0], _points(inputs[1], rank), batch, ctx.known_size(inputs[1], rank - 1))


@op("ScatterNd")
def scatter_nd(ctx, inputs, attrs):
    indices, updates = inputs[:2]
    shape, rank = ctx.ints(inputs[2], "the shape"), ctx.rank(indices)
    check_count("a tensor", shape)
    if not rank:
        raise TVMError("indices must have at least 1 dimension")
    empty = relay.full(ctx.like(0, updates), shape, ctx.dtype(updates))
    return relay.scatter_nd(empty, _points(indices, rank), updates, "add")


_UPDATES = {"Update": "update", "Add": "add", "Max": "max", "Min": "min"}


@op("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin", "TensorScatterSub")
def tensor_scatter(ctx, inputs, attrs):
    data, indices, updates = inputs[:3]
    kind = ctx.node.op.removeprefix("TensorScatter")
    updates = relay.negative(updates) if kind == "Sub" else updates
    rank = ctx.rank(indices)
    return relay.scatter_nd(data, _points(indices, rank), updates, _UPDATES.get(kind, "add"))


@op("OneHot")
def one_hot(ctx, inputs, attrs):
    indices, depth = inputs[0], ctx.single(inputs[1], "the depth")
    rank = ctx.rank(indices)
    check_count("an axis", [depth])
    axis = axis_of(attrs.get("axis", -1), rank + 1)
    on, off = (relay.reshape(v, ()) if ctx.rank(v) else v for v in inputs[2:4])
    places = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(rank + 1)])
    hit = relay.equal(relay.expand_dims(indices, axis), const(places.astype(ctx.dtype(indices))))
    return relay.where(hit, on, off)


@op("Where")
def where(ctx, inputs, attrs):
    """Return the coordinates of non-zero elements; their number is known at run time."""
    x = inputs[0]
    known = ctx.value(x)
    if known is not None:
        return Constant(np.argwhere(known).astype("int64"))
    as_bool = x if ctx.dtype(x) == "bool" else relay.not_equal(x, ctx.like(0, x))
    return relay.cast(relay.argwhere(as_bool), "int64")


op("SparseToDense")(alike.sparse_to_dense)


@op("InvertPermutation")
def invert_permutation(ctx, inputs, attrs):
    known = ctx.value(inputs[0])
    if known is None:
        return relay.invert_permutation(inputs[0])
    if sorted(known.tolist()) != list(range(known.size)):
        raise TVMError(f"{known.tolist()[:8]} is not a permutation")
    return Constant(np.argsort(known).astype(known.dtype))


@op("UnravelIndex")
def unravel_index(ctx, inputs, attrs):
    return relay.unravel_index(*inputs[:2])


@op("LowerBound", "UpperBound")
def bound(ctx, inputs, attrs):
    return relay.searchsorted(inputs[0], inputs[1], ctx.node.op == "UpperBound", ctx.kind(attrs, "out_type", "int32"))


@op("Bucketize")
def bucketize(ctx, inputs, attrs):
    edges = np.array(attrs.get("boundaries", []), "float32")
    x = relay.cast(inputs[0], "float32")
    above = relay.greater_equal(relay.expand_dims(x, ctx.rank(inputs[0])), const(edges))
    return relay.sum(relay.cast(above, "int32"), axis=-1)


# -- data-dependent shapes --------------------------------------------------------------------------------------------


def first_rows(ctx: Context, data: RelayExpr, count: RelayExpr) -> RelayExpr:
    """Return the first ``count`` rows of a tensor."""
    ends = (run_time.number([0]), run_time.joined(ctx, [run_time.scalar(ctx, ctx.made(count))]), run_time.number([1]))
    rest = ctx.shape(ctx.made(data))[1:]
    return run_time.sharpened(ctx, relay.strided_slice(data, *ends, axes=[0]), [None, *rest])


@op("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2")
def unique(ctx, inputs, attrs):
    """Return the unique elements in the order of their first occurrence."""
    if ctx.rank(inputs[0]) != 1:
        raise TVMError(f"Unique is supported only for vectors, got a tensor with {ctx.rank(inputs[0])} dimensions")
    kind = ctx.kind(attrs, "out_idx", "int32")
    values, _, inverse, count, counts = relay.unique(inputs[0], False, True)
    out = [first_rows(ctx, values, count), relay.cast(inverse, kind)]
    return [*out, relay.cast(first_rows(ctx, counts, count), kind)] if "Counts" in ctx.node.op else out


@op("ListDiff")
def list_diff(ctx, inputs, attrs):
    x, y = inputs[:2]
    same = relay.equal(relay.expand_dims(x, 1), relay.expand_dims(y, 0))
    places = ctx.made(relay.reshape(relay.argwhere(relay.logical_not(relay.any(same, axis=1))), (-1,)))
    return [relay.take(x, places, 0), relay.cast(places, ctx.kind(attrs, "out_idx", "int32"))]


# -- diagonals --------------------------------------------------------------------------------------------------------


def _main_only(ctx: Context, inputs: list, at: int) -> None:
    if len(inputs) > at and any(ctx.ints(inputs[at], "k")):
        raise TVMError("diagonals other than the main one are not supported")


@op("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(ctx, inputs, attrs):
    _main_only(ctx, inputs, 1)
    size = ctx.known_size(inputs[0], -1)
    if len(inputs) > 3 and any(n not in (-1, size) for i in (2, 3) for n in ctx.ints(inputs[i], "the size")):
        raise TVMError("non-square matrices are not supported")
    check_count("a matrix", [size, size])
    rest = ctx.like(0, inputs[0]) if len(inputs) < 5 else relay.reshape(inputs[4], ())
    return relay.where(const(np.eye(size, dtype=bool)), relay.expand_dims(inputs[0], ctx.rank(inputs[0])), rest)


@op("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(ctx, inputs, attrs):
    _main_only(ctx, inputs, 1)
    rows, columns = ctx.known_size(inputs[0], -2), ctx.known_size(inputs[0], -1)
    size = min(rows, columns)
    check_count("a matrix", [rows, columns])
    kept = relay.where(const(np.eye(rows, columns, dtype=bool)), inputs[0], ctx.like(0, inputs[0]))
    return relay.strided_slice(relay.sum(kept, axis=-1), [0], [size], [1], [ctx.rank(inputs[0]) - 2])


@op("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(ctx, inputs, attrs):
    _main_only(ctx, inputs, 2)
    return relay.matrix_set_diag(inputs[0], inputs[1])


@op("MatrixBandPart")
def matrix_band_part(ctx, inputs, attrs):
    """Keep the given numbers of diagonals below and above the main one; a negative number keeps all."""
    rows, columns = ctx.known_size(inputs[0], -2), ctx.known_size(inputs[0], -1)
    check_count("a matrix", [rows, columns])
    low, high = (ctx.single(x, "the number of diagonals") for x in inputs[1:3])
    apart = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = (apart >= -low if low >= 0 else True) & (apart <= high if high >= 0 else np.ones_like(apart, bool))
    return relay.where(const(kept), inputs[0], ctx.like(0, inputs[0]))


@op("Diag")
def diag(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) != 1:
        raise TVMError(f"a diagonal tensor with {2 * ctx.rank(inputs[0])} dimensions is not supported")
    return matrix_diag(ctx, inputs, attrs)


@op("DiagPart")
def diag_part(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) != 2:
        raise TVMError(f"the diagonal of a tensor with {ctx.rank(inputs[0])} dimensions is not supported")
    return matrix_diag_part(ctx, inputs, attrs)


__all__ = ["first_rows"]
