"""Operators that move elements: reshapes, slices, concatenations, gathers. Their types follow from their
computations."""

from __future__ import annotations

import math

from ... import te, tir, topi
from ...dtype import canonical
from ...ir.prim import Any_, convert
from ...ir.tensor_type import TensorType
from ...topi.assumptions import assume
from ...topi.broadcast import becomes
from ..expr import Constant, RelayExpr, TupleWrapper, const
from .dynamic import is_dynamic
from .dynamic_shapes import SHAPES
from .record import BROADCAST, COMM_REDUCE, ELEMWISE, INJECTIVE, OPAQUE, as_expr, call, op
from .reshape import ints, new_shape, reshape, reshape_like, reverse_reshape
from .rules import broadcast_dims, dims, normalize_axis, same_as_first, tensor


@op(
    "expand_dims",
    1,
    pattern=BROADCAST,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.expand_dims(inputs[0], attrs.axis, attrs.num_newaxis),
)
def expand_dims(data, axis, num_newaxis=1):
    """Insert dimensions of size 1 before ``axis``."""
    if is_dynamic(axis):
        return call("dyn.expand_dims", data, axis, num_newaxis=int(num_newaxis))
    return call("expand_dims", data, axis=ints(axis)[0], num_newaxis=int(num_newaxis))


@op(
    "squeeze",
    1,
    pattern=INJECTIVE,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.squeeze(inputs[0], attrs.axis),
)
def squeeze(data, axis=None):
    """Remove dimensions of size 1."""
    if is_dynamic(axis):
        return call("dyn.squeeze", data, axis)
    return call("squeeze", data, axis=None if axis is None else ints(axis))


@op(
    "transpose",
    1,
    pattern=INJECTIVE,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.transpose(inputs[0], attrs.axes),
)
def transpose(data, axes=None):
    """Permute the dimensions."""
    return call("transpose", data, axes=None if axes is None else ints(axes))


@op("concatenate", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.concatenate(inputs, attrs.axis))
def concatenate(data, axis):
    """Concatenate tensors along an axis."""
    return call("concatenate", as_expr(list(data) if isinstance(data, (list, tuple)) else data), axis=int(axis))


@op("stack", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.stack(inputs, attrs.axis))
def stack(data, axis):
    """Stack tensors along a new axis."""
    return call("stack", as_expr(list(data) if isinstance(data, (list, tuple)) else data), axis=int(axis))


@op(
    "split",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.split(inputs[0], attrs.indices_or_sections, attrs.axis),
)
def split(data, indices_or_sections, axis=0):
    """Split a tensor along an axis, into equal parts or at indices."""
    at = int(indices_or_sections) if isinstance(indices_or_sections, int) else ints(indices_or_sections)
    made = call("split", data, indices_or_sections=at, axis=int(axis))
    return TupleWrapper(made, at if isinstance(at, int) else len(at) + 1)


@op(
    "strided_slice",
    1,
    pattern=INJECTIVE,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.strided_slice(
        inputs[0], attrs.begin, attrs.end, attrs.strides, attrs.axes, attrs.slice_mode
    ),
)
def strided_slice(data, begin, end, strides=None, axes=None, slice_mode="end"):
    """Return a slice with begin, end and stride for each axis."""
    if is_dynamic(begin, end, strides):
        strides = strides if strides is not None else const([1] * _length(begin), "int64")
        bounds = [v if isinstance(v, RelayExpr) else const(list(v), "int64") for v in (begin, end, strides)]
        return call(
            "dyn.strided_slice", data, *bounds, axes=None if axes is None else ints(axes), slice_mode=slice_mode
        )
    strides = (1,) if strides is None else ints(strides)
    return call(
        "strided_slice",
        data,
        begin=ints(begin),
        end=ints(end),
        strides=strides,
        axes=None if axes is None else ints(axes),
        slice_mode=slice_mode,
    )


@op(
    "take",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.take(inputs[0], inputs[1], attrs.axis, attrs.batch_dims, attrs.mode),
)
def take(data, indices, axis=None, batch_dims=0, mode="clip"):
    """Gather elements, or slices along an axis, at indices."""
    return call("take", data, indices, axis=None if axis is None else int(axis), batch_dims=int(batch_dims), mode=mode)


@op("gather", 2, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.gather(inputs[0], attrs.axis, inputs[1]))
def gather(data, axis, indices):
    """Gather one element along an axis for each element of ``indices``."""
    return call("gather", data, indices, axis=int(axis))


@op(
    "gather_nd",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.gather_nd(inputs[0], inputs[1], attrs.batch_dims),
)
def gather_nd(data, indices, batch_dims=0, index_rank=None):
    """Gather slices at points; the first dimension of ``indices`` contains the coordinates."""
    return call("gather_nd", data, indices, batch_dims=int(batch_dims), index_rank=index_rank)


def _where_type(attrs, types):
    c, x, y = (tensor(t) for t in types)
    if x.dtype != y.dtype:
        raise TypeError(f"x and y must have the same element type, got {x.dtype} and {y.dtype}")
    return TensorType(broadcast_dims(broadcast_dims(dims(c), dims(x)), dims(y)), x.dtype)


@op(
    "where",
    3,
    pattern=BROADCAST,
    type_rule=_where_type,
    compute=lambda attrs, inputs, out: topi.where(
        *[topi.broadcast_to(i, out.shape) if len(out.shape) else i for i in inputs]
    ),
)
def where(condition, x, y):
    """Select x where the condition is true, y elsewhere."""
    return call("where", condition, x, y)


def _broadcast_to_type(attrs, types):
    have, want = dims(tensor(types[0])), tuple(attrs.shape)
    if len(have) > len(want) or not all(map(becomes, have[::-1], want[::-1])):
        raise TypeError(f"a tensor of shape {have} cannot be broadcast to {want}")
    return TensorType(attrs.shape, tensor(types[0]).dtype)


@op(
    "broadcast_to",
    1,
    pattern=BROADCAST,
    type_rule=_broadcast_to_type,
    compute=lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape),
)
def broadcast_to(data, shape):
    """Broadcast a tensor to a shape."""
    if is_dynamic(shape):
        return call("dyn.broadcast_to", data, shape)
    return call("broadcast_to", data, shape=ints(shape))


@op("tile", 1, pattern=BROADCAST, compute=lambda attrs, inputs, out: topi.tile(inputs[0], attrs.reps))
def tile(data, reps):
    """Repeat a whole tensor along its dimensions."""
    if is_dynamic(reps):
        return call("dyn.tile", data, reps)
    return call("tile", data, reps=ints(reps))


@op(
    "repeat", 1, pattern=BROADCAST, compute=lambda attrs, inputs, out: topi.repeat(inputs[0], attrs.repeats, attrs.axis)
)
def repeat(data, repeats, axis):
    """Repeat each element along an axis."""
    return call("repeat", data, repeats=int(repeats), axis=int(axis))


@op("reverse", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.flip(inputs[0], attrs.axis))
def reverse(data, axis):
    """Reverse the elements along an axis."""
    return call("reverse", data, axis=int(axis))


def _full_type(attrs, types):
    return TensorType(attrs.shape, attrs.dtype or tensor(types[0]).dtype)


def _full_compute(attrs, inputs, out):
    return te.compute(out.shape, lambda *i: inputs[0]().astype(out.dtype), name="T_full", tag="broadcast")


@op("full", 1, pattern=ELEMWISE, type_rule=_full_type, compute=_full_compute)
def full(fill_value, shape=(), dtype=""):
    """Create a tensor filled with one value."""
    fill = fill_value if isinstance(fill_value, RelayExpr) else const(fill_value, dtype or None)
    if is_dynamic(shape):
        return call("dyn.full", fill, shape, dtype=canonical(dtype) if dtype else "")
    return call("full", fill, shape=ints(shape), dtype=canonical(dtype) if dtype else "")


def zeros(shape, dtype):
    """Create a tensor of zeros.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    dtype : str
        The element type.
    """
    return full(const(0, dtype), shape, dtype)


def ones(shape, dtype):
    """Create a tensor of ones.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    dtype : str
        The element type.
    """
    return full(const(1, dtype), shape, dtype)


@op(
    "layout_transform",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.layout_transform(inputs[0], attrs.src_layout, attrs.dst_layout),
)
def layout_transform(data, src_layout, dst_layout):
    """Convert a tensor to another layout, such as NCHW to NCHW16c."""
    return call("layout_transform", data, src_layout=src_layout, dst_layout=dst_layout)


@op(
    "shape_of",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((len(tensor(types[0]).shape),), attrs.dtype),
    compute=lambda attrs, inputs, out: topi.shape(inputs[0], attrs.dtype),
)
def shape_of(data, dtype="int32"):
    """Return the shape of a tensor, as a tensor."""
    return call("shape_of", data, dtype=dtype)


@op(
    "ndarray_size",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((), attrs.dtype),
    compute=lambda attrs, inputs, out: topi.ndarray_size(inputs[0], attrs.dtype),
)
def ndarray_size(data, dtype="int32"):
    """Return the number of elements, as a tensor."""
    return call("ndarray_size", data, dtype=canonical(dtype))


def _like_second(attrs, types):
    return TensorType(dims(tensor(types[1])), tensor(types[0]).dtype)


@op(
    "cast_like",
    2,
    pattern=ELEMWISE,
    type_rule=lambda attrs, types: TensorType(tensor(types[0]).shape, tensor(types[1]).dtype),
    compute=lambda attrs, inputs, out: topi.cast(inputs[0], out.dtype),
)
def cast_like(data, dtype_like):
    """Convert the elements to the type of another tensor."""
    return call("cast_like", data, dtype_like)


@op("reinterpret", 1, pattern=ELEMWISE, compute=lambda attrs, inputs, out: topi.reinterpret(inputs[0], attrs.dtype))
def reinterpret(data, dtype):
    """Reinterpret the bits of the elements as another type of equal width."""
    return call("reinterpret", data, dtype=canonical(dtype))


def _full_like_type(attrs, types):
    if dims(tensor(types[1], "the value")) != ():
        raise TypeError(f"the fill value must be a scalar, got shape {dims(types[1])}")
    return tensor(types[0])


@op(
    "full_like",
    2,
    pattern=ELEMWISE,
    type_rule=_full_like_type,
    compute=lambda attrs, inputs, out: te.compute(
        out.shape, lambda *i: inputs[1]().astype(out.dtype), name="T_full_like", tag="broadcast"
    ),
)
def full_like(data, fill_value):
    """Create a tensor filled with one value, with the shape and type of another tensor."""
    fill = fill_value if isinstance(fill_value, RelayExpr) else const(fill_value)
    return call("full_like", data, fill)


def _number(value):
    """Return a Python number from a number or a constant; None if it is known only at run time."""
    if isinstance(value, Constant):
        value = value.data.numpy().item()
    return None if isinstance(value, RelayExpr) else value


def _arange_type(attrs, types):
    if types:
        return TensorType((Any_(),), attrs.dtype)
    if attrs.step == 0:
        raise ValueError("arange: step must not be 0")
    count = max(0, math.ceil((attrs.stop - attrs.start) / attrs.step))
    return TensorType((count,), attrs.dtype)


def _arange_compute(attrs, inputs, out):
    start, step = (inputs[0](), inputs[2]()) if inputs else (attrs.start, attrs.step)
    floats = isinstance(start, float) or isinstance(step, float)
    # The elements are computed in a type that represents the step exactly, before the conversion to the output type.
    kind = out.dtype if inputs or not floats or out.dtype.startswith("float") else "float64"

    def element(i):
        first, each = (x.astype(kind) if inputs else tir.const(x, kind) for x in (start, step))
        return (first + i.astype(kind) * each).astype(out.dtype)

    return te.compute(out.shape, element, name="T_arange", tag="injective")


@op("arange", -1, pattern=INJECTIVE, type_rule=_arange_type, compute=_arange_compute, dynamic_shape=SHAPES["arange"])
def arange(start, stop=None, step=None, dtype="float32"):
    """Return numbers from start to stop (exclusive) with distance ``step``."""
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    numbers = [_number(v) for v in (start, stop, step)]
    dtype = canonical(dtype)
    if None in numbers:
        parts = [v if isinstance(v, RelayExpr) else const(v, dtype) for v in (start, stop, step)]
        return call("arange", *parts, dtype=dtype)
    return call("arange", start=numbers[0], stop=numbers[1], step=numbers[2], dtype=dtype)


@op(
    "broadcast_to_like",
    2,
    pattern=BROADCAST,
    type_rule=_like_second,
    compute=lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape),
)
def broadcast_to_like(data, broadcast_type):
    """Broadcast a tensor to the shape of another tensor."""
    return call("broadcast_to_like", data, broadcast_type)


@op(
    "collapse_sum_like",
    2,
    pattern=COMM_REDUCE,
    type_rule=_like_second,
    compute=lambda attrs, inputs, out: topi.collapse_sum(inputs[0], out.shape),
)
def collapse_sum_like(data, collapse_type):
    """Sum over the axes along which the other tensor would be broadcast to the data."""
    return call("collapse_sum_like", data, collapse_type)


@op(
    "collapse_sum_to",
    1,
    pattern=COMM_REDUCE,
    compute=lambda attrs, inputs, out: topi.collapse_sum(inputs[0], attrs.shape),
)
def collapse_sum_to(data, shape):
    """Sum over the axes along which ``shape`` would be broadcast to the data."""
    return call("collapse_sum_to", data, shape=ints(shape))


def _slice_like_type(attrs, types):
    data, like = tensor(types[0]), tensor(types[1])
    x, y = list(dims(data)), dims(like)
    axes = attrs.axes if attrs.axes is not None else tuple(range(len(y)))
    if attrs.axes is None and len(y) > len(x):
        raise TypeError(f"the other tensor has {len(y)} dimensions, but the data only {len(x)}")
    for axis in axes:
        axis = normalize_axis(axis, len(x))
        if axis >= len(y):
            raise TypeError(f"axis {axis} is out of range for the {len(y)} dimensions of the other tensor")
        if isinstance(x[axis], int) and isinstance(y[axis], int) and y[axis] > x[axis]:
            raise TypeError(f"cannot slice {y[axis]} elements along axis {axis} of size {x[axis]}")
        words = f"axis {axis} of the other tensor must not be longer than that of the data"
        assume(convert(y[axis]) <= convert(x[axis]), words)
        x[axis] = y[axis]
    return TensorType(x, data.dtype)


@op(
    "slice_like",
    2,
    pattern=INJECTIVE,
    type_rule=_slice_like_type,
    compute=lambda attrs, inputs, out: te.compute(
        out.shape, lambda *i: inputs[0](*i), name="T_slice_like", tag="injective"
    ),
)
def slice_like(data, shape_like, axes=None):
    """Slice a tensor along axes to the sizes of another tensor."""
    return call("slice_like", data, shape_like, axes=ints(axes) if axes else None)


@op(
    "strided_set",
    5,
    pattern=INJECTIVE,
    type_rule=same_as_first,
    compute=lambda attrs, inputs, out: topi.strided_set(*inputs),
)
def strided_set(data, v, begin, end, strides=None):
    """Replace a strided slice of a tensor by ``v``."""
    begin, end = (x if isinstance(x, RelayExpr) else const(list(x), "int64") for x in (begin, end))
    if strides is None:
        strides = const([1] * _length(begin), "int64")
    strides = strides if isinstance(strides, RelayExpr) else const(list(strides), "int64")
    return call("strided_set", data, v, begin, end, strides)


def _length(values) -> int:
    """Return the number of elements of a list or of a vector."""
    if not isinstance(values, RelayExpr):
        return len(values)
    from ..infer import infer_type

    return int(infer_type(values).checked_type_.shape[0])


@op(
    "reverse_sequence",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.reverse_sequence(inputs[0], inputs[1], attrs.seq_axis, attrs.batch_axis),
)
def reverse_sequence(data, seq_lengths, seq_axis=1, batch_axis=0):
    """Reverse the first ``seq_lengths`` elements of each row."""
    return call("reverse_sequence", data, seq_lengths, seq_axis=int(seq_axis), batch_axis=int(batch_axis))


@op("meshgrid", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.meshgrid(inputs, attrs.indexing))
def meshgrid(data, indexing="ij"):
    """Broadcast vectors to a grid of all their combinations."""
    data = list(data) if isinstance(data, (list, tuple)) else data
    count = len(data) if isinstance(data, list) else len(data.fields)
    return TupleWrapper(call("meshgrid", as_expr(data), indexing=indexing), count)


@op(
    "sliding_window",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.sliding_window(inputs[0], attrs.axis, attrs.window_shape, attrs.strides),
)
def sliding_window(data, axis, window_shape, strides):
    """Return all windows of a shape over the dimensions from ``axis`` on."""
    return call("sliding_window", data, axis=int(axis), window_shape=ints(window_shape), strides=ints(strides))


__all__ = [
    "arange",
    "broadcast_to",
    "broadcast_to_like",
    "cast_like",
    "collapse_sum_like",
    "collapse_sum_to",
    "concatenate",
    "expand_dims",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "layout_transform",
    "meshgrid",
    "ndarray_size",
    "new_shape",
    "ones",
    "reinterpret",
    "repeat",
    "reshape",
    "reshape_like",
    "reverse",
    "reverse_reshape",
    "reverse_sequence",
    "shape_of",
    "slice_like",
    "sliding_window",
    "split",
    "squeeze",
    "stack",
    "strided_set",
    "strided_slice",
    "take",
    "tile",
    "transpose",
    "where",
    "zeros",
]
