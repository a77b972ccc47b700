"""Converters of gather, scatter and search operations."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from .table import Context, axis_of, check_steps, const, constant, half, op


def counted_from_start(ctx: Context, indices, size):
    """Make negative indices, which count from the end, non-negative.

    ``size`` is an integer, an expression or a column.
    """
    indices = ctx.indices(indices)
    known = ctx.value(indices)
    if known is not None and (known.size == 0 or known.min() >= 0):
        return indices
    dtype = ctx.dtype(indices)
    size = const(size, dtype) if isinstance(size, int) else relay.cast(size, dtype)
    return ctx.made(relay.where(relay.less(indices, ctx.like(0, indices)), relay.add(indices, size), indices))


def _along(ctx: Context, x, indices, axis: int):
    size = ctx.shape(x)[axis]
    return counted_from_start(ctx, indices, size if isinstance(size, int) else run_time.size_of(ctx, x, axis))


@op("gather")
def gather(ctx, x, indices, axis: int = 0, batch_dims: int = 0, validate_indices: bool = False):
    axis = axis_of(axis, ctx.rank(x))
    if not 0 <= batch_dims <= min(axis, ctx.rank(indices)):
        raise TVMError(f"batch_dims {batch_dims} and axis {axis} are out of range")
    return relay.take(x, _along(ctx, x, indices, axis), axis, batch_dims)


@op("gather_along_axis")
def gather_along_axis(ctx, x, indices, axis: int = 0, validate_indices: bool = False):
    axis = axis_of(axis, ctx.rank(x))
    if ctx.rank(indices) != ctx.rank(x):
        raise TVMError(f"indices of {ctx.rank(indices)} dimensions do not match a tensor of {ctx.rank(x)} dimensions")
    return relay.gather(x, axis, _along(ctx, x, indices, axis))


def _points(ctx: Context, x, indices, first: int = 0):
    """Return non-negative coordinates with the coordinate axis first."""
    rank = ctx.rank(indices)
    if not rank:
        raise TVMError("the indices must have at least one axis")
    depth = ctx.known_size(indices, rank - 1)
    if first + depth > ctx.rank(x):
        raise TVMError(f"indices of {depth} coordinates do not match a tensor of {ctx.rank(x)} dimensions")
    sizes = constant(np.array(ctx.known_shape(x)[first : first + depth], "int32"))
    places = counted_from_start(ctx, indices, sizes)
    return ctx.made(relay.transpose(places, (rank - 1, *range(rank - 1))) if rank > 1 else places)


@op("gather_nd")
def gather_nd(ctx, x, indices, batch_dims: int = 0, validate_indices: bool = False):
    depth = ctx.known_size(indices, ctx.rank(indices) - 1)
    return relay.gather_nd(x, _points(ctx, x, indices, batch_dims), batch_dims, depth)


# -- scatter ----------------------------------------------------------------------------------------------------------

_MODES = {"update": "update", "add": "add", "sub": "add", "mul": "mul", "div": "mul", "max": "max", "min": "min"}


def _mode(ctx: Context, mode: str, updates) -> tuple:
    """Return the reduction mode of a scatter, and the updates converted for it."""
    if mode not in _MODES:
        raise TVMError(f"the mode '{mode}' is not supported")
    if mode == "sub":
        updates = relay.negative(updates)
    if mode == "div":
        if not ctx.is_float(updates):
            raise TVMError("mode 'div' is not supported for integers")
        updates = relay.divide(ctx.like(1, updates), updates)
    return _MODES[mode], updates


@op("scatter_along_axis")
@half
def scatter_along_axis(ctx, data, indices, updates, axis: int = 0, mode: str = "add", validate_indices: bool = False):
    axis = axis_of(axis, ctx.rank(data))
    joined, updates = _mode(ctx, mode, updates)
    return relay.scatter_elements(data, _along(ctx, data, indices, axis), updates, axis, joined)


@op("scatter")
@half
def scatter(ctx, data, indices, updates, axis: int = 0, mode: str = "add", validate_indices: bool = False):
    """Scatter slices along an axis. ``indices`` is a vector with one index for each slice."""
    axis, rank = axis_of(axis, ctx.rank(data)), ctx.rank(data)
    joined, updates = _mode(ctx, mode, updates)
    places = _along(ctx, data, indices, axis)
    if ctx.rank(places) != 1:
        raise TVMError(f"expected a vector of indices, got {ctx.rank(places)} dimensions")
    column = relay.reshape(places, [-1 if a == axis else 1 for a in range(rank)])
    spread = relay.broadcast_to(column, ctx.known_shape(updates))
    return relay.scatter_elements(data, ctx.made(spread), updates, axis, joined)


@op("scatter_nd")
@half
def scatter_nd(ctx, data, indices, updates, mode: str = "add", validate_indices: bool = False):
    joined, updates = _mode(ctx, mode, updates)
    return relay.scatter_nd(data, _points(ctx, data, indices), updates, joined)


# -- search -----------------------------------------------------------------------------------------------------------


@op("non_zero")
def non_zero(ctx, x):
    """Return the indices of the non-zero elements. Their number is known only at run time."""
    known = ctx.value(x)
    if known is not None:
        return constant(np.argwhere(known), "int32")
    mask = x if ctx.dtype(x) == "bool" else relay.not_equal(x, ctx.like(0, x))
    return relay.cast(relay.argwhere(mask), "int32")


@op("non_maximum_suppression")
@half
def non_maximum_suppression(ctx, boxes, scores, iou_threshold: float, max_boxes: int, score_threshold: float = -np.inf,
                            per_class_suppression: bool = False):  # fmt: skip
    """Apply non-maximum suppression to boxes given as centers and sizes.

    The score of a box is that of its best class. Missing outputs are 0, their indices -1.
    """
    n, count, classes = ctx.known_shape(scores)
    if ctx.known_shape(boxes) != (n, count, 4) or max_boxes < 1 or not classes or not count:
        raise TVMError(f"boxes of shape {ctx.known_shape(boxes)} and scores of shape {ctx.known_shape(scores)} with "
                       f"max_boxes {max_boxes} are not supported")  # fmt: skip
    check_steps("the output", max_boxes)
    centre = relay.strided_slice(boxes, [0], [2], [1], [2])
    reach = relay.multiply(relay.strided_slice(boxes, [2], [4], [1], [2]), const(0.5, "float32"))
    best = relay.max(scores, 2, True)
    kind = relay.cast(relay.argmax(scores, 2, True), "float32")
    rows = relay.concatenate([kind, best, relay.subtract(centre, reach), relay.add(centre, reach)], 2)
    # Boxes with a score equal to the threshold are kept.
    least = max(float(np.nextafter(np.float32(score_threshold), np.float32(-np.inf))), float(np.finfo("float32").min))
    valid, data, where = relay.vision.get_valid_counts(rows, least, 0, 1)
    found = relay.vision.non_max_suppression(data, valid, where, max_boxes, iou_threshold, not per_class_suppression,
                                             -1, 2, 1, 0, True, False)  # fmt: skip
    places, number = found[0], ctx.made(relay.reshape(found[1], (n,)))
    if count < max_boxes:
        places = relay.nn.pad(places, [(0, 0), (0, max_boxes - count)], const(-1, "int32"))
    places = ctx.made(relay.strided_slice(places, [0], [max_boxes], [1], [1]))
    number = relay.minimum(number, const(max_boxes, "int32"))
    is_there = relay.less(constant(np.arange(max_boxes)[None], "int32"), relay.expand_dims(number, 1))
    places = ctx.made(relay.where(is_there, places, const(-1, "int32")))
    shown = relay.expand_dims(is_there, 2)
    taken = [relay.where(shown, relay.take(v, relay.maximum(places, const(0, "int32")), 1, 1), const(0.0, "float32"))
             for v in (boxes, scores)]  # fmt: skip
    return [*taken, places, number]


__all__ = ["counted_from_start", "gather", "gather_along_axis", "gather_nd", "non_maximum_suppression", "non_zero",
           "scatter", "scatter_along_axis", "scatter_nd"]  # fmt: skip
