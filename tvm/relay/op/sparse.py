"""Operators on sparse tensors, represented as indices and values."""

from __future__ import annotations

from ... import te, tir
from ...ir.prim import Any_
from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ..expr import Constant, RelayExpr, Tuple, TupleWrapper, const
from . import indexing, reduce
from . import tensor as tensor_ops
from .algorithm import argsort
from .record import OPAQUE, as_expr, call, op
from .rules import dims, fixed, may_equal, tensor
from .transform import (
    arange,
    broadcast_to_like,
    concatenate,
    expand_dims,
    reshape,
    shape_of,
    strided_slice,
    take,
    zeros,
)


def _sparse_reshape_type(attrs, types):
    indices, old, new = (tensor(t) for t in types)
    if len(dims(indices)) != 2:
        raise TypeError(f"the indices must be a matrix (values, dimensions), got shape {dims(indices)}")
    fixed(old, (dims(indices)[1],), "the old shape")
    if len(dims(new)) != 1:
        raise TypeError(f"the new shape must be a vector, got shape {dims(new)}")
    return TupleType((TensorType((dims(indices)[0], dims(new)[0]), indices.dtype), TensorType(dims(new), new.dtype)))


def _sparse_reshape_compute(attrs, inputs, out):
    indices, old, new = inputs
    before, after = int(old.shape[0]), int(new.shape[0])
    total = tir.const(1, "int64")
    for i in range(before):
        total = total * old[i].astype("int64")
    known = tir.const(1, "int64")
    for j in range(after):
        known = known * tir.Select(new[j] < 0, tir.const(1, "int64"), new[j].astype("int64"))
    sizes = [
        tir.Select(new[j] < 0, te.indexdiv(total, te.max(known, tir.const(1, "int64"))), new[j].astype("int64"))
        for j in range(after)
    ]

    def place(i, j):
        flat = tir.const(0, "int64")
        for d in range(before):
            flat = flat * old[d].astype("int64") + indices[i, d].astype("int64")
        result = tir.const(0, "int64")
        for d in reversed(range(after)):
            size = te.max(sizes[d], tir.const(1, "int64"))
            result = tir.Select(j.equal(d), te.indexmod(flat, size), result)
            flat = te.indexdiv(flat, size)
        return result.astype(indices.dtype)

    def shape(j):
        result = sizes[0]
        for d in range(1, after):
            result = tir.Select(j.equal(d), sizes[d], result)
        return result.astype(new.dtype)

    return [
        te.compute((indices.shape[0], after), place, name="sparse_indices", tag="injective"),
        te.compute((after,), shape, name="new_shape", tag="injective"),
    ]


@op("sparse_reshape", 3, pattern=OPAQUE, type_rule=_sparse_reshape_type, compute=_sparse_reshape_compute)
def sparse_reshape(sparse_indices, prev_shape, new_shape):
    """Compute the indices and the shape of a sparse tensor after a reshape; a size of -1 is inferred."""
    return TupleWrapper(call("sparse_reshape", sparse_indices, prev_shape, new_shape), 2)


def _fill_empty_rows_type(attrs, types):
    names = ("the indices", "the values", "the dense shape", "the default value")
    indices, values, shape, default = (tensor(t, what) for t, what in zip(types, names))
    if len(dims(indices)) != 2:
        raise TypeError(f"the indices must be a matrix (values, dimensions), got shape {dims(indices)}")
    count, rank = dims(indices)
    if len(dims(values)) != 1 or not may_equal((count,), dims(values)):
        raise TypeError(
            f"the values must be a vector of length {count}, the number of indices, got shape {dims(values)}"
        )
    if len(dims(shape)) != 1 or not may_equal((rank,), dims(shape)):
        raise TypeError(f"the dense shape must be a vector of length {rank}, got shape {dims(shape)}")
    if dims(default) != () and not (len(dims(default)) == 1 and may_equal((1,), dims(default))):
        raise TypeError(f"the default value must be a scalar, got shape {dims(default)}")
    if default.dtype != values.dtype:
        raise TypeError(f"the values are {values.dtype}, but the default value is {default.dtype}")
    return TupleType((TensorType((Any_(), rank), indices.dtype), TensorType((Any_(),), values.dtype),
                      TensorType((Any_(),), "bool")))  # fmt: skip


def _fill_empty_rows(attrs, args, types):
    """Append the indices of the empty rows, and sort stably by row."""
    indices, values, shape, default = args
    kind, rank = types[0].dtype, dims(types[0])[1]
    given = reshape(strided_slice(indices, [0], [1], axes=[1]), (-1,))
    rows = arange(const(0, kind), tensor_ops.cast(take(shape, const(0), 0), kind), const(1, kind), kind)
    filled = indexing.scatter_elements(tensor_ops.zeros_like(rows), given, tensor_ops.ones_like(given), 0)
    empty = tensor_ops.equal(filled, const(0, kind))
    missing = tensor_ops.cast(reshape(indexing.argwhere(empty), (-1,)), kind)
    # The index of an empty row is (row, 0, ..., 0): a unit vector times the row number.
    columns = const(rank, "int32") if isinstance(rank, int) else take(shape_of(indices), const(1), 0)
    column = arange(const(0, "int32"), columns, const(1, "int32"), "int32")
    first = tensor_ops.cast(tensor_ops.equal(column, const(0, "int32")), kind)
    added = tensor_ops.multiply(expand_dims(missing, 1), first)
    defaults = take(reshape(default, (1,)), tensor_ops.zeros_like(missing), 0)
    order = argsort(concatenate((given, missing), 0), 0, dtype="int32")
    return Tuple((take(concatenate((indices, added), 0), order, 0),
                  take(concatenate((values, defaults), 0), order, 0), empty))  # fmt: skip


@op("sparse_fill_empty_rows", 4, pattern=OPAQUE, type_rule=_fill_empty_rows_type, expand=_fill_empty_rows)
def sparse_fill_empty_rows(sparse_indices, sparse_values, dense_shape, default_value):
    """Fill empty rows of a sparse tensor with a default value.

    The indices and values are returned in row order. Each row without a value gets the default value in its first
    column. The third output contains which rows were empty.

    Parameters
    ----------
    sparse_indices : RelayExpr
        The indices of the values, of shape (N, rank).
    sparse_values : RelayExpr
        The values, of shape (N,).
    dense_shape : RelayExpr
        The shape of the dense tensor, of length rank.
    default_value : RelayExpr
        The value for empty rows, of shape (1,).

    Returns
    -------
    Tuple
        The indices, the values, and a bool for each row that is true if the row was empty.
    """
    made = call("sparse_fill_empty_rows", sparse_indices, sparse_values, dense_shape, default_value)
    return Tuple(tuple(TupleWrapper(made, 3)))


def segment_sum(data, segment_ids, num_segments=None):
    """Sum the slices that have the same segment id.

    The number of segments is an integer or a tensor; by default it is the largest id plus one.
    """
    from ..infer import infer_type

    data, ids = infer_type(as_expr(data)), infer_type(as_expr(segment_ids))
    shape, rank, kind = dims(data.checked_type_), len(dims(ids.checked_type_)), ids.checked_type_.dtype
    if num_segments is None and isinstance(ids, Constant):
        num_segments = int(ids.data.numpy().max()) + 1
    elif num_segments is None:
        num_segments = tensor_ops.add(reduce.max(ids), const(1, kind))
    spread = broadcast_to_like(expand_dims(ids, rank, len(shape) - rank), data) if rank < len(shape) else ids
    known = not isinstance(num_segments, RelayExpr) and all(isinstance(n, int) for n in shape[1:])
    sizes = (int(num_segments), *shape[1:]) if known else _with_first(num_segments, data)
    return indexing.scatter_elements(zeros(sizes, data.checked_type_.dtype), spread, data, 0, "add")


def _with_first(size, data):
    """Return the shape of a tensor with another size of the first dimension."""
    size = size if isinstance(size, RelayExpr) else const(int(size), "int64")
    rest = strided_slice(shape_of(data, "int64"), [1], [len(dims(data.checked_type_))])
    return concatenate((tensor_ops.cast(reshape(size, (1,)), "int64"), rest), 0)


__all__ = ["segment_sum", "sparse_fill_empty_rows", "sparse_reshape"]
