"""Converters of operators that gather and scatter elements by index."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import tensorflow_ops as alike
from ..common.context import check_count
from .quantization import real_array
from .table import Context, axis_of, moving, op


def _integers(ctx: Context, x: RelayExpr) -> RelayExpr:
    return x if ctx.dtype(x) in ("int32", "int64") else relay.cast(x, "int32")


@moving("GATHER")
def gather(ctx, inputs, options):
    axis = axis_of(options.axis, ctx.rank(inputs[0]))
    batch = options.batch_dims
    if not 0 <= batch <= min(axis, ctx.rank(inputs[1])):
        raise TVMError(f"batch_dims {batch} is not valid for the shapes of the inputs")
    return relay.take(inputs[0], _integers(ctx, inputs[1]), axis=axis, batch_dims=batch, mode="clip")


@moving("GATHER_ND")
def gather_nd(ctx, inputs, options):
    indices = _integers(ctx, inputs[1])
    rank = ctx.rank(indices)
    if not rank:
        raise TVMError("indices must have at least 1 dimension")
    return relay.gather_nd(inputs[0], relay.transpose(indices, (rank - 1, *range(rank - 1))))


@op("EMBEDDING_LOOKUP")
def embedding_lookup(ctx, inputs, options):
    table, tensor = inputs[1], ctx.tensor(1)
    if tensor.quantization is not None and ctx.dtype(table) != ctx.result().dtype:
        array = ctx.array(table, "the table")
        table = const(real_array(array, tensor.quantization))
    return relay.take(table, _integers(ctx, inputs[0]), axis=0, mode="clip")


@op("ONE_HOT")
def one_hot(ctx, inputs, options):
    depth = ctx.ints(inputs[1], "the depth")
    rank = ctx.rank(inputs[0])
    if len(depth) != 1:
        raise TVMError(f"the depth must be a scalar, got {depth}")
    check_count("an axis", depth)
    axis = axis_of(options.axis, rank + 1)
    on, off = (relay.reshape(v, ()) for v in inputs[2:4])
    places = np.arange(depth[0]).reshape([-1 if i == axis else 1 for i in range(rank + 1)])
    hit = relay.equal(relay.expand_dims(inputs[0], axis), const(places.astype(ctx.dtype(inputs[0]))))
    return relay.where(hit, on, off)


# Unwritten elements are the integer 0, regardless of the zero point, as in LiteRT's kernels.
@moving("SCATTER_ND")
def scatter_nd(ctx, inputs, options):
    indices, updates = inputs[:2]
    shape = ctx.ints(inputs[2], "the shape")
    check_count("a tensor", shape)
    rank = ctx.rank(indices)
    if not rank:
        raise TVMError("indices must have at least 1 dimension")
    empty = relay.full(ctx.like(0, updates), shape, ctx.dtype(updates))
    return relay.scatter_nd(empty, relay.transpose(indices, (rank - 1, *range(rank - 1))), updates, "add")


op("SPARSE_TO_DENSE")(alike.sparse_to_dense)


@op("WHERE")
def where(ctx, inputs, options):
    """Return the coordinates of non-zero elements; their number is known at run time."""
    x = inputs[0]
    mask = x if ctx.dtype(x) == "bool" else relay.not_equal(x, ctx.like(0, x))
    return relay.cast(relay.argwhere(mask), "int64")


@moving("MATRIX_DIAG")
def matrix_diag(ctx, inputs, options):
    size = ctx.known_size(inputs[0], -1)
    check_count("an axis", [size])
    places = np.arange(size, dtype="int32")
    diagonal = relay.equal(const(places[:, None]), const(places[None, :]))
    return relay.where(diagonal, relay.expand_dims(inputs[0], ctx.rank(inputs[0])), ctx.like(0, inputs[0]))


@moving("MATRIX_SET_DIAG")
def matrix_set_diag(ctx, inputs, options):
    return relay.matrix_set_diag(inputs[0], inputs[1])


@moving("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(ctx, inputs, options):
    """Write the update at its start position, which is clamped so that the update fits."""
    data, update, start = inputs[:3]
    shape, part = ctx.known_shape(data), ctx.known_shape(update)
    if len(shape) != len(part) or any(p > s for p, s in zip(part, shape)):
        raise TVMError(f"an update of shape {part} does not fit into data of shape {shape}")
    check_count("an update", part)
    most = const(np.array([s - p for s, p in zip(shape, part)], "int32"))
    first = relay.maximum(relay.minimum(relay.cast(start, "int32"), most), const(np.zeros(len(shape), "int32")))
    places = np.indices(part, dtype="int32")
    first = relay.reshape(first, (len(shape), *[1] * len(part)))
    return relay.scatter_nd(data, relay.add(const(places), first), update, "update")
