"""Sparse tensors as indices and values."""

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
        raise TypeError(f"the indices are a matrix (values, dimensions), got {dims(indices)}")
    fixed(old, (dims(indices)[1],), "the old shape")
    if len(dims(new)) != 1:
        raise TypeError(f"the new shape is a vector, got {dims(new)}")
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
    """The indices of a sparse tensor after a reshape (-1 is found), and the new shape."""
    return TupleWrapper(call("sparse_reshape", sparse_indices, prev_shape, new_shape), 2)


def _fill_empty_rows_type(attrs, types):
    names = ("the indices", "the values", "the dense shape", "the default value")
    indices, values, shape, default = (tensor(t, what) for t, what in zip(types, names))
    if len(dims(indices)) != 2:
        raise TypeError(f"the indices are a matrix (values, dimensions), got {dims(indices)}")
    count, rank = dims(indices)
    if len(dims(values)) != 1 or not may_equal((count,), dims(values)):
        raise TypeError(f"the values are a vector with one for each of {count} indices, got {dims(values)}")
    if len(dims(shape)) != 1 or not may_equal((rank,), dims(shape)):
        raise TypeError(f"the dense shape has the sizes of {rank} dimensions, got {dims(shape)}")
    if dims(default) != () and not (len(dims(default)) == 1 and may_equal((1,), dims(default))):
        raise TypeError(f"the default value is one number, got shape {dims(default)}")
    if default.dtype != values.dtype:
        raise TypeError(f"the values are {values.dtype}, the default value is {default.dtype}")
    return TupleType((TensorType((Any_(), rank), indices.dtype), TensorType((Any_(),), values.dtype),
                      TensorType((Any_(),), "bool")))  # fmt: skip


def _fill_empty_rows(attrs, args, types):
    """The indices of the empty rows follow the given ones, and a stable sort by rows puts them in their places."""
    indices, values, shape, default = args
    kind, rank = types[0].dtype, dims(types[0])[1]
    given = reshape(strided_slice(indices, [0], [1], axes=[1]), (-1,))
    rows = arange(const(0, kind), tensor_ops.cast(take(shape, const(0), 0), kind), const(1, kind), kind)
    filled = indexing.scatter_elements(tensor_ops.zeros_like(rows), given, tensor_ops.ones_like(given), 0)
    empty = tensor_ops.equal(filled, const(0, kind))
    missing = tensor_ops.cast(reshape(indexing.argwhere(empty), (-1,)), kind)
    # A missing row has one index, in its first column; 1 there and 0 elsewhere, times the row, is that index.
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
    """The indices and values of a sparse tensor in the order of its rows, where each row without a value has the
    default value in its first column, and which rows had none.

    Parameters
    ----------
    sparse_indices : RelayExpr
        The indices of the values, (N, rank).
    sparse_values : RelayExpr
        The N values.
    dense_shape : RelayExpr
        The rank sizes of the whole tensor.
    default_value : RelayExpr
        The value of a row without one, of shape (1,).

    Returns
    -------
    Tuple
        The indices, the values, and a bool for each row that is true where the row had no value.
    """
    made = call("sparse_fill_empty_rows", sparse_indices, sparse_values, dense_shape, default_value)
    return Tuple(tuple(TupleWrapper(made, 3)))


def segment_sum(data, segment_ids, num_segments=None):
    """The sums of slices that have the same id. The number of segments is a number or a tensor; without it, it is one
    more than the largest id."""
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
    """The shape of a tensor with another first size."""
    size = size if isinstance(size, RelayExpr) else const(int(size), "int64")
    rest = strided_slice(shape_of(data, "int64"), [1], [len(dims(data.checked_type_))])
    return concatenate((tensor_ops.cast(reshape(size, (1,)), "int64"), rest), 0)


__all__ = ["segment_sum", "sparse_fill_empty_rows", "sparse_reshape"]
