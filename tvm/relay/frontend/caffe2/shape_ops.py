"""Converters of operators that change the shape or the order of elements."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from .table import axis_of, check_count, numbers, op


@op("Reshape")
def reshape(ctx, inputs, args):
    """Reshape. A dimension of 0 is copied from the input, -1 is inferred. The second output is the old shape."""
    x = inputs[0]
    wanted = ctx.ints(inputs[1], "the shape") if len(inputs) > 1 else numbers(args, "shape", [])
    wanted = list(wanted or [])
    own = ctx.shape(x)
    if any(v < -1 for v in wanted) or wanted.count(-1) > 1:
        raise TVMError(f"Reshape: the shape {wanted} is not supported")
    for i, v in enumerate(wanted):
        if v == 0:
            if i >= len(own):
                raise TVMError(
                    f"Reshape: the shape {wanted} copies a dimension that the input shape {list(own)} does not have"
                )
            wanted[i] = own[i] if isinstance(own[i], int) else 0
    out = relay.reshape(x, wanted)
    return [out, Constant(np.array(ctx.known_shape(x), "int64"))] if ctx.wants(1) else out


@op("ResizeLike")
def resize_like(ctx, inputs, args):
    return relay.reshape(inputs[0], ctx.known_shape(inputs[1]))


@op("Flatten")
def flatten(ctx, inputs, args):
    """Flatten to a matrix: the axes before ``axis`` become rows, the others columns."""
    x = inputs[0]
    axis = axis_of(args.get("axis", 1), ctx.rank(x) + 1)
    shape = ctx.shape(x)
    if axis == 1 and all(isinstance(d, int) for d in shape[1:]):
        return relay.reshape(x, (-1, math.prod(shape[1:])))
    shape = ctx.known_shape(x)
    return relay.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@op("FlattenToVec")
def flatten_to_vector(ctx, inputs, args):
    return relay.reshape(inputs[0], (-1,))


@op("Transpose")
def transpose(ctx, inputs, args):
    rank = ctx.rank(inputs[0])
    axes = numbers(args, "axes", []) or list(reversed(range(rank)))
    if sorted(axes) != list(range(rank)):
        raise TVMError(f"the axes {axes} are not a permutation of {rank} dimensions")
    return relay.transpose(inputs[0], axes)


@op("NCHW2NHWC")
def channels_to_last(ctx, inputs, args):
    return relay.transpose(inputs[0], (0, *range(2, ctx.rank(inputs[0])), 1))


@op("NHWC2NCHW")
def channels_to_first(ctx, inputs, args):
    rank = ctx.rank(inputs[0])
    return relay.transpose(inputs[0], (0, rank - 1, *range(1, rank - 1)))


@op("Squeeze")
def squeeze(ctx, inputs, args):
    dims = [axis_of(d, ctx.rank(inputs[0])) for d in numbers(args, "dims", [])]
    return relay.squeeze(inputs[0], sorted(set(dims))) if dims else inputs[0]


@op("ExpandDims")
def expand_dims(ctx, inputs, args):
    """Insert axes of size 1. ``dims`` are positions in the output shape."""
    x = inputs[0]
    dims = sorted(set(numbers(args, "dims", [])))
    for d in dims:
        if not 0 <= d <= ctx.rank(x):
            raise TVMError(f"cannot insert axis {d} into a tensor of {ctx.rank(x)} dimensions")
        x = ctx.made(relay.expand_dims(x, d))
    return x


@op("MergeDim")
def merge_dim(ctx, inputs, args):
    shape = ctx.known_shape(inputs[0])
    return relay.reshape(inputs[0], (shape[0] * shape[1], *shape[2:]))


@op("PrependDim")
def prepend_dim(ctx, inputs, args):
    size, shape = args.get("dim_size", 0), ctx.known_shape(inputs[0])
    if size < 1 or shape[0] % size:
        raise TVMError(f"an axis of {shape[0]} elements is not divisible by dim_size {size}")
    return relay.reshape(inputs[0], (size, shape[0] // size, *shape[1:]))


@op("Slice")
def slice_(ctx, inputs, args):
    """Slice. A negative bound counts from the position after the last element, so that -1 is the end of the axis."""
    x = inputs[0]
    if len(inputs) == 3:
        starts, ends = (ctx.ints(e, "the bounds of a slice") or [] for e in inputs[1:])
    else:
        starts, ends = numbers(args, "starts", []), numbers(args, "ends", [])
    if len(starts) != len(ends) or len(starts) > ctx.rank(x):
        raise TVMError(f"starts {starts} and ends {ends} do not match {ctx.rank(x)} dimensions")
    shape = ctx.shape(x)
    axes, begin, end = [], [], []
    for axis, (low, high) in enumerate(zip(starts, ends)):
        if low == 0 and high == -1:
            continue
        size = ctx.known_size(x, axis)
        low, high = (min(v if v >= 0 else size + 1 + v, size) for v in (low, high))
        if low < 0 or high < low:
            raise TVMError(f"a slice from {low} to {high} of {shape[axis]} elements is not supported")
        axes.append(axis)
        begin.append(low)
        end.append(high)
    return relay.strided_slice(x, begin, end, [1] * len(axes), axes) if axes else x


def _axis_of_parts(ctx, x, args) -> int:
    if "axis" in args:
        return axis_of(args["axis"], ctx.rank(x) + bool(args.get("add_axis", 0)))
    return ctx.rank(x) - 1 if ctx.channels_last(args) else 1


@op("Concat", "DepthConcat")
def concat(ctx, inputs, args):
    """Concatenate. The second output is the size of each part along the axis."""
    axis, added = _axis_of_parts(ctx, inputs[0], args), bool(args.get("add_axis", 0))
    parts = [relay.expand_dims(x, axis) for x in inputs] if added else list(inputs)
    out = relay.concatenate(parts, axis) if len(parts) > 1 else parts[0]
    if not ctx.wants(1):
        return out
    return [out, Constant(np.array([1 if added else ctx.known_size(x, axis) for x in inputs], "int32"))]


@op("Split", "DepthSplit")
def split(ctx, inputs, args):
    """Split into parts whose sizes are an argument or a second input, or into equal parts."""
    x, count = inputs[0], len(ctx.operator.outputs)
    axis = _axis_of_parts(ctx, x, {k: v for k, v in args.items() if k != "add_axis"})
    size = ctx.known_size(x, axis)
    sizes = ctx.ints(inputs[1], "the sizes of parts") if len(inputs) > 1 else numbers(args, "split", [])
    if not sizes:
        if size % count:
            raise TVMError(f"{size} elements cannot be split into {count} equal parts")
        sizes = [size // count] * count
    if len(sizes) != count or sum(sizes) != size or min(sizes) < 0:
        raise TVMError(f"{count} parts of sizes {sizes} do not add up to {size}")
    ends = np.cumsum(sizes).tolist()
    parts = [relay.strided_slice(x, [end - part], [end], [1], [axis]) for end, part in zip(ends, sizes)]
    return [relay.squeeze(p, [axis]) for p in parts] if args.get("add_axis", 0) else parts


@op("Tile")
def tile(ctx, inputs, args):
    x, tiles, axis = inputs[0], args.get("tiles", 1), args.get("axis", 0)
    if len(inputs) > 1:
        tiles = (ctx.ints(inputs[1], "the tiles") or [1])[0]
    if len(inputs) > 2:
        axis = (ctx.ints(inputs[2], "the axis") or [0])[0]
    rank = ctx.rank(x)
    axis = axis_of(axis, rank)
    if tiles < 1:
        raise TVMError(f"tiles {tiles} is not supported; it must be positive")
    check_count("the tiled tensor", [tiles, *(d for d in ctx.shape(x) if isinstance(d, int))])
    return relay.tile(x, [tiles if i == axis else 1 for i in range(rank)])


@op("Expand")
def expand(ctx, inputs, args):
    """Broadcast the input and the given shape against each other."""
    own = ctx.known_shape(inputs[0])
    wanted = ctx.ints(inputs[1], "the shape") if len(inputs) > 1 else numbers(args, "shape", [])
    wanted = list(wanted or [])
    rank = max(len(own), len(wanted))
    have, want = [1] * (rank - len(own)) + list(own), [1] * (rank - len(wanted)) + wanted
    check_count("the output", [max(h, w) for h, w in zip(have, want)])
    return relay.broadcast_to(inputs[0], [w if h == 1 else h for h, w in zip(have, want)])


@op("Shape")
def shape(ctx, inputs, args):
    found = np.array(ctx.known_shape(inputs[0]), "int64")
    axes = numbers(args, "axes", []) if "axes" in args else None
    return const(found if axes is None else found[[axis_of(a, len(found)) for a in axes]])


@op("Size")
def size(ctx, inputs, args):
    return const(math.prod(ctx.known_shape(inputs[0])), "int64")
