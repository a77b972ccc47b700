"""Converters of gather, scatter and sequence operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .elementwise import converted
from .shape_ops import checked_dims
from .table import Context, axis_of, check_count, op


def places(ctx: Context, x: RelayExpr, size: int, mode: str) -> RelayExpr:
    """Return indices with those out of range wrapped around (mode 'wrap') or clipped."""
    at = ctx.made(ctx.cast(x, "int64"))
    if mode == "wrap":
        return relay.floor_mod(at, const(max(size, 1), "int64"))
    return relay.clip(at, 0, max(size - 1, 0))


@op("take", "axis:int=0 mode:clip|raise|wrap=clip")
def take(ctx, inputs, attrs):
    """Gather along an axis. A compiled model cannot raise an error, so mode 'raise' assumes valid indices."""
    x = inputs[0]
    axis = axis_of(attrs.axis, ctx.rank(x))
    return relay.take(x, places(ctx, inputs[1], ctx.known_size(x, axis), attrs.mode), axis=axis)


@op("pick", "axis:int?=-1 keepdims:bool=False mode:clip|wrap=clip")
def pick(ctx, inputs, attrs):
    x, at = inputs
    if attrs.axis is None:
        x, at = ctx.made(relay.reshape(x, (-1,))), ctx.made(relay.reshape(at, (-1,)))
    axis = axis_of(0 if attrs.axis is None else attrs.axis, ctx.rank(x))
    if ctx.rank(at) < ctx.rank(x):
        at = ctx.made(relay.expand_dims(at, axis))
    out = relay.gather(x, axis, places(ctx, at, ctx.known_size(x, axis), attrs.mode))
    out = ctx.made(out)
    if attrs.keepdims:
        return out
    return relay.squeeze(out, [axis]) if ctx.rank(x) > 1 or ctx.importer.scalars else out


@op("batch_take")
def batch_take(ctx, inputs, attrs):
    """Return one element of each row."""
    x, at = inputs
    flat = ctx.made(relay.reshape(at, (-1, 1)))
    out = relay.gather(x, 1, places(ctx, flat, ctx.known_size(x, 1), "clip"))
    return relay.reshape(out, ctx.known_shape(at))


@op("gather_nd")
def gather_nd(ctx, inputs, attrs):
    """Gather elements.

    The first axis of the indices enumerates axes of the data; negative indices count from the end.
    """
    x, at = inputs
    dims = ctx.known_shape(x)
    count = ctx.known_size(at, 0)
    if count > len(dims):
        raise TVMError(f"indices of {count} axes do not match data of {len(dims)} dimensions")
    sizes = np.array(dims[:count], "int64").reshape(count, *[1] * (ctx.rank(at) - 1))
    wide = ctx.made(ctx.cast(at, "int64"))
    inside = relay.where(relay.less(wide, const(0, "int64")), relay.add(wide, Constant(sizes)), wide)
    return relay.gather_nd(x, relay.maximum(relay.minimum(inside, Constant(sizes - 1)), const(0, "int64")))


@op("scatter_nd", "shape:dims")
def scatter_nd(ctx, inputs, attrs):
    zeros = relay.zeros(checked_dims(attrs.shape, "shape"), ctx.dtype(inputs[0]))
    return relay.scatter_nd(zeros, ctx.cast(inputs[1], "int64"), inputs[0], "update")


@op("_scatter_set_nd", "shape:dims=()")
def scatter_set_nd(ctx, inputs, attrs):
    return relay.scatter_nd(inputs[0], ctx.cast(inputs[2], "int64"), inputs[1], "update")


@op("_contrib_index_copy")
def index_copy(ctx, inputs, attrs):
    """Replace rows of a tensor."""
    old, at, new = inputs
    return relay.scatter_nd(old, relay.expand_dims(ctx.cast(at, "int64"), 0), new, "update")


@op("one_hot", "depth:int on_value:float=1 off_value:float=0 dtype:dtype=float32")
def one_hot(ctx, inputs, attrs):
    if not 0 < attrs.depth < 1 << 31:
        raise TVMError(f"the attribute depth={attrs.depth} is not supported")
    on, off = (const(attrs.on_value, attrs.dtype), const(attrs.off_value, attrs.dtype))
    return relay.one_hot(ctx.cast(inputs[0], "int32"), on, off, attrs.depth, -1, attrs.dtype)


@op("where _npi_where")
def where(ctx, inputs, attrs):
    """Select elements. A vector condition selects rows in ``where``; otherwise the condition broadcasts."""
    test, x, y = inputs
    test = ctx.made(converted(ctx, test, "bool"))
    if ctx.node.op == "where" and ctx.rank(test) == 1 and ctx.rank(x) > 1:
        test = relay.reshape(test, (-1, *[1] * (ctx.rank(x) - 1)))
    if ctx.dtype(x) != ctx.dtype(y):
        raise TVMError(f"the values have the different element types {ctx.dtype(x)} and {ctx.dtype(y)}")
    return relay.where(test, x, y)


@op("_npi_where_lscalar", "scalar:float=0")
def where_left(ctx, inputs, attrs):
    return relay.where(converted(ctx, inputs[0], "bool"), ctx.like(attrs.scalar, inputs[1]), inputs[1])


@op("_npi_where_rscalar", "scalar:float=0")
def where_right(ctx, inputs, attrs):
    return relay.where(converted(ctx, inputs[0], "bool"), inputs[1], ctx.like(attrs.scalar, inputs[1]))


@op("_npi_where_scalar2", "x:float=0 y:float=0")
def where_numbers(ctx, inputs, attrs):
    return relay.where(converted(ctx, inputs[0], "bool"), const(attrs.x, "float32"), const(attrs.y, "float32"))


@op("_contrib_boolean_mask", "axis:int=0")
def boolean_mask(ctx, inputs, attrs):
    """Return the rows selected by a mask. Their number is known only at run time."""
    x, mask = inputs
    axis = axis_of(attrs.axis, ctx.rank(x))
    chosen = relay.argwhere(converted(ctx, mask, "bool"))
    return relay.take(x, relay.squeeze(chosen, [1]), axis=axis)


@op("_npx_nonzero")
def nonzero(ctx, inputs, attrs):
    return relay.cast(relay.argwhere(converted(ctx, inputs[0], "bool")), "int64")


@op("_npi_boolean_mask_assign_scalar", "value:float=0 start_axis:int=0")
def mask_assign_scalar(ctx, inputs, attrs):
    return _masked(ctx, inputs[0], inputs[1], ctx.like(attrs.value, inputs[0]), attrs.start_axis)


@op("_npi_boolean_mask_assign_tensor", "start_axis:int=0")
def mask_assign_tensor(ctx, inputs, attrs):
    value = inputs[2]
    if math.prod(ctx.known_shape(value)) != 1:
        raise TVMError("a masked assignment of more than one value is not supported")
    return _masked(ctx, inputs[0], inputs[1], relay.reshape(value, ()), attrs.start_axis)


def _masked(ctx: Context, x: RelayExpr, mask: RelayExpr, value: RelayExpr, start: int) -> RelayExpr:
    dims = ctx.known_shape(mask)
    after = ctx.rank(x) - start - len(dims)
    if start < 0 or after < 0:
        raise TVMError(f"a mask of {len(dims)} axes from axis {start} does not match data of {ctx.rank(x)} dimensions")
    shaped = relay.reshape(converted(ctx, mask, "bool"), (*[1] * start, *dims, *[1] * after))
    return relay.where(shaped, value, x)


@op("_unravel_index", "shape:dims")
def unravel_index(ctx, inputs, attrs):
    """Convert flat indices to multi-dimensional indices, coordinate axis first."""
    return _unraveled(ctx, inputs[0], checked_dims(attrs.shape, "shape"))


def _unraveled(ctx: Context, x: RelayExpr, dims: tuple[int, ...]) -> RelayExpr:
    at = ctx.made(ctx.cast(x, "int64"))
    rows = []
    for i, size in enumerate(dims):
        step = math.prod(dims[i + 1 :])
        row = relay.floor_divide(at, const(max(step, 1), "int64"))
        rows.append(row if i == 0 else relay.floor_mod(row, const(max(size, 1), "int64")))
    return relay.cast(relay.stack(rows, 0), ctx.dtype(x))


@op("_ravel_multi_index", "shape:dims")
def ravel_multi_index(ctx, inputs, attrs):
    dims = checked_dims(attrs.shape, "shape")
    steps = np.array([math.prod(dims[i + 1 :]) for i in range(len(dims))], "int64")
    x = inputs[0]
    if ctx.known_size(x, 0) != len(dims):
        raise TVMError(f"indices of {ctx.known_size(x, 0)} axes do not match a shape of {len(dims)} dimensions")
    wide = relay.cast(x, "int64")
    total = relay.sum(relay.multiply(wide, Constant(steps.reshape(-1, *[1] * (ctx.rank(x) - 1)))), [0])
    return relay.cast(total, ctx.dtype(x))


# -- sequences --------------------------------------------------------------------------------------------------------

_SEQUENCE = "use_sequence_length:bool=False axis:int=0"


def _lengths(ctx: Context, inputs: list, attrs) -> RelayExpr | None:
    if not attrs.use_sequence_length:
        return None
    if len(inputs) < 2:
        raise TVMError("use_sequence_length is set, but the input with the lengths is missing")
    return ctx.made(ctx.cast(inputs[1], "int32"))


@op("SequenceMask", _SEQUENCE + " value:float=0")
def sequence_mask(ctx, inputs, attrs):
    lengths, axis = _lengths(ctx, inputs, attrs), axis_of(attrs.axis, ctx.rank(inputs[0]))
    if axis > 1:
        raise TVMError(f"the attribute axis={attrs.axis} must be 0 or 1")
    return inputs[0] if lengths is None else relay.sequence_mask(inputs[0], lengths, attrs.value, axis)


@op("SequenceReverse", _SEQUENCE)
def sequence_reverse(ctx, inputs, attrs):
    lengths = _lengths(ctx, inputs, attrs)
    if attrs.axis != 0:
        raise TVMError(f"the attribute axis={attrs.axis} is not supported; it must be 0")
    return relay.reverse(inputs[0], 0) if lengths is None else relay.reverse_sequence(inputs[0], lengths, 0, 1)


@op("SequenceLast", _SEQUENCE)
def sequence_last(ctx, inputs, attrs):
    x, lengths, axis = inputs[0], _lengths(ctx, inputs, attrs), axis_of(attrs.axis, ctx.rank(inputs[0]))
    if axis > 1:
        raise TVMError(f"the attribute axis={attrs.axis} must be 0 or 1")
    size = ctx.known_size(x, axis)
    if lengths is None:
        return relay.take(x, const(size - 1, "int32"), axis=axis)
    batch = ctx.known_size(x, 1 - axis)
    check_count("the index tensor", [batch])
    last = relay.clip(relay.subtract(lengths, const(1, "int32")), 0, size - 1)
    row = Constant(np.arange(batch, dtype="int32"))
    return relay.gather_nd(x, relay.stack([last, row] if axis == 0 else [row, last], 0))


__all__ = ["places"]
