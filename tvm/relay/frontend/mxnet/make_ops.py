"""Converters of operators that create tensors: constants, ranges, shapes, diagonals."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .shape_ops import checked_dims
from .table import Context, axis_of, check_count, op

_MADE = "shape:dims=() dtype:dtype=float32"


def array_of(value, dtype: str) -> Constant:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return Constant(np.asarray(value).astype(kind))


def _filled(ctx: Context, dims, value: float, dtype: str) -> RelayExpr:
    """Return a filled tensor.

    In ``mx.nd`` a dimension of 0 is inferred from uses, such as the batch of initial states; it becomes 1, which
    broadcasts.
    """
    dims = checked_dims(dims, "shape")
    if not ctx.importer.scalars and not ctx.node.op.startswith("_np"):
        if not dims:
            raise TVMError("the attribute shape is empty")
        dims = tuple(d or 1 for d in dims)
    return relay.full(array_of(value, dtype), dims, dtype)


op("_zeros _npi_zeros", _MADE)(lambda ctx, inputs, attrs: _filled(ctx, attrs.shape, 0, attrs.dtype))
op("_ones _npi_ones", _MADE)(lambda ctx, inputs, attrs: _filled(ctx, attrs.shape, 1, attrs.dtype))


@op("_full", _MADE + " value:float")
def full(ctx, inputs, attrs):
    return _filled(ctx, attrs.shape, attrs.value, attrs.dtype)


@op("_zeros_without_dtype", "shape:dims=() dtype:int=-1")
def zeros_without_dtype(ctx, inputs, attrs):
    if attrs.dtype not in (-1, 0):
        raise TVMError(f"the attribute dtype={attrs.dtype} is not supported")
    return _filled(ctx, attrs.shape, 0, "float32")


@op("zeros_like")
def zeros_like(ctx, inputs, attrs):
    return relay.zeros_like(inputs[0])


@op("ones_like")
def ones_like(ctx, inputs, attrs):
    return relay.ones_like(inputs[0])


@op("_npi_full_like", "fill_value:float dtype:dtype?=None")
def full_like(ctx, inputs, attrs):
    x = inputs[0]
    return relay.full(array_of(attrs.fill_value, attrs.dtype or ctx.dtype(x)), ctx.known_shape(x))


def _range(start: float, stop: float, step: float, repeats: int, dtype: str) -> RelayExpr:
    if not step or not all(map(math.isfinite, (start, stop, step))) or repeats < 1:
        raise TVMError(f"start={start}, stop={stop}, step={step}, repeat={repeats} is not a valid range")
    count = max(math.ceil((stop - start) / step), 0)
    check_count("a range", [count, repeats])
    return array_of(np.repeat(start + step * np.arange(count), repeats), dtype)


@op(
    "_arange _npi_arange",
    "start:float stop:float?=None step:float=1 repeat:int=1 infer_range:bool=False dtype:dtype=float32",
)
def arange(ctx, inputs, attrs):
    if attrs.infer_range:
        raise TVMError("infer_range=True, which infers the size from uses, is not supported")
    start, stop = (0.0, attrs.start) if attrs.stop is None else (attrs.start, attrs.stop)
    return _range(start, stop, attrs.step, attrs.repeat, attrs.dtype)


@op("_contrib_arange_like", "start:float=0 step:float=1 repeat:int=1 axis:int?=None")
def arange_like(ctx, inputs, attrs):
    x = inputs[0]
    dims = ctx.known_shape(x) if attrs.axis is None else (ctx.known_size(x, axis_of(attrs.axis, ctx.rank(x))),)
    count = math.prod(dims)
    if attrs.repeat < 1 or not all(map(math.isfinite, (attrs.start, attrs.step))):
        raise TVMError(f"start={attrs.start}, step={attrs.step}, repeat={attrs.repeat} is not a valid range")
    check_count("a range", dims)
    values = attrs.start + attrs.step * (np.arange(count) // attrs.repeat)
    return array_of(values.reshape(dims), ctx.dtype(x))


@op(
    "_linspace",
    "start:float stop:float?=None step:float=1 repeat:int=1 infer_range:bool=False dtype:dtype=float32"
    " num:int=-1 endpoint:bool=True",
)
def linspace(ctx, inputs, attrs):
    if attrs.stop is None or attrs.num < 0:
        raise TVMError("the attributes stop and num are required")
    check_count("a range", [attrs.num])
    return array_of(np.linspace(attrs.start, attrs.stop, attrs.num, endpoint=attrs.endpoint), attrs.dtype)


@op("_npi_logspace", "start:float stop:float num:int endpoint:bool=True base:float=10 dtype:dtype=float32")
def logspace(ctx, inputs, attrs):
    check_count("a range", [attrs.num])
    return array_of(np.logspace(attrs.start, attrs.stop, attrs.num, attrs.endpoint, attrs.base), attrs.dtype)


def _eye(rows: int, columns: int | None, k: int, dtype: str) -> RelayExpr:
    columns = rows if not columns else columns
    check_count("a matrix", [rows, columns])
    return array_of(np.eye(rows, columns, max(min(k, columns), -rows)), dtype)


@op("_eye", "N:int M:int=0 k:int=0 dtype:dtype=float32")
def eye(ctx, inputs, attrs):
    return _eye(attrs.N, attrs.M, attrs.k, attrs.dtype)


@op("_npi_eye", "N:int M:int?=None k:int=0 dtype:dtype=float32")
def np_eye(ctx, inputs, attrs):
    return _eye(attrs.N, attrs.M, attrs.k, attrs.dtype)


@op("_npi_identity", _MADE)
def np_identity(ctx, inputs, attrs):
    if not attrs.shape:
        raise TVMError("the attribute shape is empty")
    return _eye(attrs.shape[0], attrs.shape[0], 0, attrs.dtype)


@op("_npi_indices", "dimensions:dims dtype:dtype=int32")
def np_indices(ctx, inputs, attrs):
    check_count("the index tensor", [len(attrs.dimensions), *attrs.dimensions])
    return array_of(np.indices(attrs.dimensions), attrs.dtype)


def _window(name: str, function):
    @op(name, "M:int dtype:dtype=float32")
    def convert(ctx, inputs, attrs):
        check_count("a window", [attrs.M])
        return array_of(function(attrs.M), attrs.dtype)


_window("_npi_hanning", np.hanning)
_window("_npi_hamming", np.hamming)
_window("_npi_blackman", np.blackman)


# -- shapes and indices -----------------------------------------------------------------------------------------------


@op("shape_array")
def shape_array(ctx, inputs, attrs):
    return array_of(ctx.known_shape(inputs[0]), "int64")


@op("size_array")
def size_array(ctx, inputs, attrs):
    return array_of([math.prod(ctx.known_shape(inputs[0]))], "int64")


@op("_contrib_index_array", "axes:dims?=None")
def index_array(ctx, inputs, attrs):
    """Return the indices of each position."""
    dims = ctx.known_shape(inputs[0])
    axes = range(len(dims)) if attrs.axes is None else [axis_of(a, len(dims)) for a in attrs.axes]
    check_count("the index tensor", [*dims, len(axes)])
    grid = np.indices(dims)
    return array_of(np.stack([grid[a] for a in axes], -1), "int64")


# -- diagonals --------------------------------------------------------------------------------------------------------


def diagonal(ctx: Context, x: RelayExpr, k: int, axis1: int, axis2: int) -> RelayExpr:
    """Return a diagonal of matrices as the last axis."""
    rank = ctx.rank(x)
    a, b = axis_of(axis1, rank), axis_of(axis2, rank)
    if a == b:
        raise TVMError(f"the axes {axis1} and {axis2} must differ")
    moved = ctx.made(relay.transpose(x, [*(i for i in range(rank) if i not in (a, b)), a, b]))
    dims = ctx.known_shape(moved)
    rows, columns = dims[-2:]
    count = min(rows + min(k, 0), columns - max(k, 0))
    if count <= 0:
        raise TVMError(f"matrices of {rows} x {columns} have no diagonal {k}")
    places = np.arange(count) * (columns + 1) + (k if k > 0 else -k * columns)
    return relay.take(relay.reshape(moved, (*dims[:-2], rows * columns)), Constant(places), axis=rank - 2)


def on_diagonal(ctx: Context, x: RelayExpr, k: int) -> RelayExpr:
    """Return matrices with the last axis of ``x`` on diagonal ``k`` and zeros elsewhere."""
    dims = ctx.known_shape(x)
    size = dims[-1] + abs(k)
    check_count("the matrices", [*dims[:-1], size, size])
    places = np.full((size, size), dims[-1])
    at = np.arange(dims[-1])
    places[at + max(-k, 0), at + max(k, 0)] = at
    zero = relay.zeros((*dims[:-1], 1), ctx.dtype(x))
    return relay.take(relay.concatenate([x, zero], len(dims) - 1), Constant(places), axis=len(dims) - 1)


@op("diag", "k:int=0 axis1:int=0 axis2:int=1")
def diag(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) == 1:
        return on_diagonal(ctx, inputs[0], attrs.k)
    return diagonal(ctx, inputs[0], attrs.k, attrs.axis1, attrs.axis2)


@op("_np_diag", "k:int=0")
def np_diag(ctx, inputs, attrs):
    return on_diagonal(ctx, inputs[0], attrs.k) if ctx.rank(inputs[0]) == 1 else diagonal(ctx, inputs[0], attrs.k, 0, 1)


@op("_np_diagflat", "k:int=0")
def np_diagflat(ctx, inputs, attrs):
    return on_diagonal(ctx, ctx.made(relay.reshape(inputs[0], (-1,))), attrs.k)


@op("_np_diagonal", "offset:int=0 axis1:int=0 axis2:int=1")
def np_diagonal(ctx, inputs, attrs):
    return diagonal(ctx, inputs[0], attrs.offset, attrs.axis1, attrs.axis2)


@op("_np_trace", "offset:int=0 axis1:int=0 axis2:int=1")
def np_trace(ctx, inputs, attrs):
    return relay.sum(diagonal(ctx, inputs[0], attrs.offset, attrs.axis1, attrs.axis2), -1)


@op("_npi_tril", "k:int=0")
def np_tril(ctx, inputs, attrs):
    return relay.trilu(inputs[0], Constant(np.array(attrs.k, "int32")), upper=False)


__all__ = ["array_of", "diagonal", "on_diagonal"]
