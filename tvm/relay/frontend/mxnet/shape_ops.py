"""Converters of operators that reshape, transpose, slice, concatenate, split or pad tensors."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .table import Context, axis_of, check_count, op

# -- reshape ----------------------------------------------------------------------------------------------------------


def reshaped_dims(dims: tuple[int, ...], codes: tuple[int, ...], reverse: bool) -> list[int]:
    """Return the new shape for MXNet's shape codes.

    0 copies a dimension, -1 is inferred, -2 copies all remaining dimensions, -3 merges two dimensions, and -4 splits a
    dimension into the next two codes. With ``reverse``, codes are matched from the last dimension.
    """
    if reverse:
        if -4 in codes:
            raise TVMError(f"the attribute shape={codes} uses -4 with reverse=True, which is not supported")
        return reshaped_dims(dims[::-1], codes[::-1], False)[::-1]
    out: list[int] = []
    at, i, open_at = 0, 0, -1
    while i < len(codes):
        code, i = codes[i], i + 1
        if code == -2:
            out, at = out + list(dims[at:]), len(dims)
        elif code == -3:
            out, at = [*out, dims[at] * dims[at + 1]], at + 2
        elif code == -4:
            first, second, i = codes[i], codes[i + 1], i + 2
            first, second = _split(dims[at], first, second)
            out, at = [*out, first, second], at + 1
        elif code == 0:
            out, at = [*out, dims[at]], at + 1
        elif code == -1:
            if open_at >= 0:
                raise TVMError(f"the attribute shape={codes} contains -1 twice")
            open_at, out, at = len(out), [*out, 1], at + 1
        elif code > 0:
            out, at = [*out, code], at + 1
        else:
            raise TVMError(f"the attribute shape={codes} contains the unknown code {code}")
    if open_at >= 0:
        rest = math.prod(out)
        if not rest or math.prod(dims) % rest:
            raise TVMError(f"the attribute shape={codes} does not match data of shape {dims}")
        out[open_at] = math.prod(dims) // rest
    return out


def _split(size: int, first: int, second: int) -> tuple[int, int]:
    if first == -1 and second > 0:
        first = size // second
    elif second == -1 and first > 0:
        second = size // first
    if first * second != size:
        raise TVMError(f"a dimension of {size} cannot be split into {first} x {second}")
    return first, second


def _to(ctx: Context, x: RelayExpr, dims: list[int], what) -> RelayExpr:
    if math.prod(dims) != math.prod(ctx.known_shape(x)):
        raise TVMError(f"the new shape {what} does not match data of shape {ctx.known_shape(x)}")
    return relay.reshape(x, dims, True)


@op("Reshape", "shape:dims=() reverse:bool=False target_shape:dims=() keep_highest:bool=False")
def reshape(ctx, inputs, attrs):
    x = inputs[0]
    codes = attrs.shape
    if not codes and attrs.target_shape:
        # In the first version of the operator, 0 is the inferred dimension.
        codes = tuple(-1 if c == 0 else c for c in attrs.target_shape)
        if attrs.keep_highest:
            codes = (0, *codes[1:])
    if codes and set(codes) <= {0, -1} and codes == (0, -1):
        return relay.nn.batch_flatten(x)
    return _to(ctx, x, reshaped_dims(ctx.known_shape(x), codes, attrs.reverse), codes)


@op("_npx_reshape", "newshape:dims reverse:bool=False order:str=C")
def npx_reshape(ctx, inputs, attrs):
    """Reshape: -2 copies a dimension, -3 drops one of size 1, -4 copies all remaining ones, -5 merges two, -6 splits
    one."""
    x = inputs[0]
    if attrs.order != "C":
        raise TVMError(f"the attribute order={attrs.order} is not supported; it must be C")
    dims = ctx.known_shape(x)
    codes = tuple({-2: 0, -4: -2, -5: -3, -6: -4}.get(c, -100 - c if c <= 0 and c != -1 else c) for c in attrs.newshape)
    if -97 in codes or -100 in codes:
        codes, dims = _without_ones(codes, dims, attrs.reverse)
    return _to(ctx, x, reshaped_dims(dims, codes, attrs.reverse), attrs.newshape)


def _without_ones(codes: tuple, dims: tuple, reverse: bool) -> tuple[tuple, tuple]:
    """Remove the dimensions of size 1 that code -3 drops. Their positions are counted from the front."""
    if reverse or any(c in (-2, -3, -4) for c in codes[: codes.index(-97) if -97 in codes else 0]) or -100 in codes:
        raise TVMError("this combination of npx.reshape codes is not supported")
    kept = [d for i, d in enumerate(dims) if i >= len(codes) or codes[i] != -97]
    gone = [d for i, d in enumerate(dims) if i < len(codes) and codes[i] == -97]
    if any(d != 1 for d in gone):
        raise TVMError("code -3 of npx.reshape needs a dimension of size 1")
    return tuple(c for c in codes if c != -97), tuple(kept)


@op("_np_reshape", "newshape:dims order:str=C")
def np_reshape(ctx, inputs, attrs):
    if attrs.order != "C":
        raise TVMError(f"the attribute order={attrs.order} is not supported; it must be C")
    dims, total = list(attrs.newshape), math.prod(ctx.known_shape(inputs[0]))
    if dims.count(-1) == 1:
        rest = -math.prod(dims)
        dims[dims.index(-1)] = total // rest if rest else 0
    return _to(ctx, inputs[0], dims, attrs.newshape)


@op("reshape_like", "lhs_begin:int?=None lhs_end:int?=None rhs_begin:int?=None rhs_end:int?=None")
def reshape_like(ctx, inputs, attrs):
    ranges = []
    for x, begin, end in ((inputs[0], attrs.lhs_begin, attrs.lhs_end), (inputs[1], attrs.rhs_begin, attrs.rhs_end)):
        rank = ctx.rank(x)
        ends = [0 if begin is None else begin, rank if end is None else end]
        ranges.append([e + rank if e < 0 else e for e in ends])
        if not 0 <= ranges[-1][0] <= ranges[-1][1] <= rank:
            raise TVMError(f"the axis range {ends} is not valid for data of {rank} dimensions")
    own, other = ctx.known_shape(inputs[0]), ctx.known_shape(inputs[1])
    dims = [*own[: ranges[0][0]], *other[ranges[1][0] : ranges[1][1]], *own[ranges[0][1] :]]
    return _to(ctx, inputs[0], dims, dims)


@op("Flatten")
def flatten(ctx, inputs, attrs):
    return relay.nn.batch_flatten(inputs[0])


# -- axes -------------------------------------------------------------------------------------------------------------


def _order(ctx: Context, x: RelayExpr, axes) -> list[int]:
    rank = ctx.rank(x)
    order = [axis_of(a, rank) for a in axes] if axes else list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise TVMError(f"the attribute axes={axes} is not a permutation of {rank} axes")
    return order


@op("transpose", "axes:dims=()")
def transpose(ctx, inputs, attrs):
    return relay.transpose(inputs[0], _order(ctx, inputs[0], attrs.axes))


@op("_np_transpose", "axes:dims?=None")
def np_transpose(ctx, inputs, attrs):
    return relay.transpose(inputs[0], _order(ctx, inputs[0], attrs.axes))


@op("SwapAxis", "dim1:int=0 dim2:int=0")
def swap_axis(ctx, inputs, attrs):
    order = list(range(ctx.rank(inputs[0])))
    a, b = (axis_of(d, len(order)) for d in (attrs.dim1, attrs.dim2))
    order[a], order[b] = order[b], order[a]
    return relay.transpose(inputs[0], order)


@op("_np_moveaxis", "source:dims destination:dims")
def moveaxis(ctx, inputs, attrs):
    rank = ctx.rank(inputs[0])
    source, target = ([axis_of(a, rank) for a in v] for v in (attrs.source, attrs.destination))
    if len(source) != len(target) or len(set(source)) != len(source) or len(set(target)) != len(target):
        raise TVMError(
            f"source={attrs.source} and destination={attrs.destination} must have equal length and no duplicates"
        )
    order = [i for i in range(rank) if i not in source]
    for to, at in sorted(zip(target, source)):
        order.insert(to, at)
    return relay.transpose(inputs[0], order)


@op("expand_dims", "axis:int")
def expand_dims(ctx, inputs, attrs):
    return relay.expand_dims(inputs[0], axis_of(attrs.axis, ctx.rank(inputs[0]) + 1))


@op("squeeze _np_squeeze", "axis:dims?=None")
def squeeze(ctx, inputs, attrs):
    x = inputs[0]
    dims = ctx.shape(x)
    axes = (
        [i for i, d in enumerate(dims) if d == 1] if attrs.axis is None else [axis_of(a, len(dims)) for a in attrs.axis]
    )
    if any(dims[a] != 1 for a in axes):
        raise TVMError(f"the axes {attrs.axis} of shape {dims} are not all of size 1")
    if not axes:
        return x
    if len(axes) == len(dims) and ctx.node.op == "squeeze" and not ctx.importer.scalars:
        return relay.reshape(x, (1,))
    return relay.squeeze(x, axes)


@op("reverse _npi_flip", "axis:dims")
def reverse(ctx, inputs, attrs):
    out = inputs[0]
    for a in attrs.axis:
        out = relay.reverse(out, axis_of(a, ctx.rank(inputs[0])))
    return out


# -- slicing ----------------------------------------------------------------------------------------------------------


def slices(ctx: Context, x: RelayExpr, attrs) -> list[range]:
    """Return the selected indices of each axis."""
    dims = ctx.known_shape(x)
    if len(attrs.begin) != len(attrs.end) or len(attrs.begin) > len(dims):
        raise TVMError(f"begin={attrs.begin} and end={attrs.end} do not match data of shape {dims}")
    steps = list(attrs.step) + [None] * (len(attrs.begin) - len(attrs.step))
    if any(s == 0 for s in steps):
        raise TVMError(f"the attribute step={attrs.step} contains a zero")
    rows = [range(*slice(b, e, s).indices(d)) for b, e, s, d in zip(attrs.begin, attrs.end, steps, dims)]
    return rows + [range(d) for d in dims[len(rows) :]]


def sliced(x: RelayExpr, rows: list[range]) -> RelayExpr:
    """Slice each axis by a range. A negative step becomes a forward slice that is reversed."""
    begin = [min(r) if r else 0 for r in rows]
    end = [max(r) + 1 if r else 0 for r in rows]
    out = relay.strided_slice(x, begin, end, [abs(r.step) for r in rows])
    for axis, r in enumerate(rows):
        out = relay.reverse(out, axis) if r.step < 0 else out
    return out


@op("slice", "begin:dims end:dims step:dims=()")
def slice_(ctx, inputs, attrs):
    return sliced(inputs[0], slices(ctx, inputs[0], attrs))


@op("slice_axis", "axis:int begin:int end:int?")
def slice_axis(ctx, inputs, attrs):
    x = inputs[0]
    axis = axis_of(attrs.axis, ctx.rank(x))
    row = range(*slice(attrs.begin, attrs.end).indices(ctx.known_size(x, axis)))
    if not row:
        raise TVMError(f"the slice of axis {attrs.axis} from {attrs.begin} to {attrs.end} is empty")
    return relay.strided_slice(x, [row.start], [row.stop], [1], [axis])


@op("slice_like", "axes:dims=()")
def slice_like(ctx, inputs, attrs):
    x, like = inputs
    axes = [axis_of(a, ctx.rank(x)) for a in attrs.axes] or list(range(ctx.rank(x)))
    if not attrs.axes and ctx.rank(x) != ctx.rank(like):
        raise TVMError(f"data of {ctx.rank(x)} and {ctx.rank(like)} dimensions needs the attribute axes")
    ends = [ctx.known_size(like, a) for a in axes]
    if any(e > ctx.known_size(x, a) for a, e in zip(axes, ends)):
        raise TVMError(f"the size {ctx.shape(like)} exceeds that of the data, {ctx.shape(x)}")
    return relay.strided_slice(x, [0] * len(axes), ends, [1] * len(axes), axes)


@op("_slice_assign", "begin:dims end:dims step:dims=()")
def slice_assign(ctx, inputs, attrs):
    return _assigned(ctx, inputs[0], inputs[1], attrs)


@op("_slice_assign_scalar", "scalar:float=0 begin:dims end:dims step:dims=()")
def slice_assign_scalar(ctx, inputs, attrs):
    from .elementwise import scalar

    return _assigned(ctx, inputs[0], scalar(ctx, attrs.scalar, inputs[0]), attrs)


def _assigned(ctx: Context, x: RelayExpr, value: RelayExpr, attrs) -> RelayExpr:
    """Return the data with a slice replaced, computed as a gather from data and new values with constant indices."""
    rows = slices(ctx, x, attrs)
    dims, part = ctx.known_shape(x), tuple(len(r) for r in rows)
    check_count("the index tensor", dims)
    if not math.prod(part):
        return x
    value = relay.broadcast_to(value, part)
    total = math.prod(dims)
    places = np.arange(total, dtype="int64").reshape(dims)
    places[np.ix_(*rows)] = total + np.arange(math.prod(part)).reshape(part)
    both = relay.concatenate([relay.reshape(x, (-1,)), relay.reshape(value, (-1,))], 0)
    return relay.take(both, Constant(places), axis=0)


@op("Crop", "offset:dims=(0,0) h_w:dims=(0,0) center_crop:bool=False num_args:int")
def crop(ctx, inputs, attrs):
    """Crop to the size of the second input or to the given size."""
    x = inputs[0]
    sizes = ctx.spatial(x)
    wanted = ctx.spatial(inputs[1]) if len(inputs) == 2 else tuple(attrs.h_w)
    if len(sizes) != 2 or len(wanted) != 2 or any(w < 1 or w > s for w, s in zip(wanted, sizes)):
        raise TVMError(f"cannot crop {wanted} from an image of size {sizes}")
    start = [(s - w) // 2 for s, w in zip(sizes, wanted)] if attrs.center_crop else list(attrs.offset)
    if len(start) != 2 or any(b < 0 or b + w > s for b, w, s in zip(start, wanted, sizes)):
        raise TVMError(f"the attribute offset={attrs.offset} is out of range for an image of size {sizes}")
    return relay.strided_slice(x, start, [b + w for b, w in zip(start, wanted)], [1, 1], [2, 3])


# -- concatenation and splitting --------------------------------------------------------------------------------------


@op("Concat _rnn_param_concat", "dim:int=1")
def concat(ctx, inputs, attrs):
    return joined(ctx, inputs, attrs.dim)


def joined(ctx: Context, inputs: list, axis: int) -> RelayExpr:
    if not inputs:
        raise TVMError("expected at least 1 input, got none")
    return inputs[0] if len(inputs) == 1 else relay.concatenate(inputs, axis_of(axis, ctx.rank(inputs[0])))


@op("_npi_concatenate", "axis:int?=0")
def np_concatenate(ctx, inputs, attrs):
    if attrs.axis is None:
        return joined(ctx, [ctx.made(relay.reshape(x, (-1,))) for x in inputs], 0)
    return joined(ctx, inputs, attrs.axis)


@op("stack _npi_stack", "axis:int=0")
def stack(ctx, inputs, attrs):
    axis = axis_of(attrs.axis, ctx.rank(inputs[0]) + 1)
    return relay.expand_dims(inputs[0], axis) if len(inputs) == 1 else relay.stack(inputs, axis)


@op("SliceChannel", "num_outputs:int axis:int=1 squeeze_axis:bool=False")
def slice_channel(ctx, inputs, attrs):
    x = inputs[0]
    axis = axis_of(attrs.axis, ctx.rank(x))
    size = ctx.known_size(x, axis)
    if not 0 < attrs.num_outputs <= size or size % attrs.num_outputs:
        raise TVMError(f"a dimension of {size} is not divisible into num_outputs={attrs.num_outputs} parts")
    return _parts(
        ctx, x, [size // attrs.num_outputs * i for i in range(1, attrs.num_outputs)], axis, attrs.squeeze_axis
    )


def _parts(ctx: Context, x: RelayExpr, cuts: list[int], axis: int, squeezed: bool) -> list:
    size = ctx.known_size(x, axis)
    ends = [min(max(c, 0), size) for c in cuts]
    parts = [relay.strided_slice(x, [b], [max(e, b)], [1], [axis]) for b, e in zip([0, *ends], [*ends, size])]
    if squeezed and any(e - b != 1 for b, e in zip([0, *ends], [*ends, size])):
        raise TVMError("squeeze_axis is set, but the parts do not have size 1")
    return [relay.squeeze(p, [axis]) if squeezed else p for p in parts]


@op("_split_v2 _npi_hsplit _npi_dsplit", "indices:dims axis:int=1 squeeze_axis:bool=False sections:int=0")
def split_v2(ctx, inputs, attrs):
    """Split at ``indices``, or into equal sections."""
    x = inputs[0]
    axis = axis_of(attrs.axis, ctx.rank(x))
    if attrs.sections:
        size = ctx.known_size(x, axis)
        if not 0 < attrs.sections <= size or size % attrs.sections:
            raise TVMError(f"a dimension of {size} is not divisible into sections={attrs.sections} parts")
        return _parts(ctx, x, [size // attrs.sections * i for i in range(1, attrs.sections)], axis, attrs.squeeze_axis)
    cuts = list(attrs.indices)[1:] if attrs.indices[:1] == (0,) else list(attrs.indices)
    if cuts != sorted(cuts):
        raise TVMError(f"the attribute indices={attrs.indices} is not sorted")
    return _parts(ctx, x, cuts, axis, attrs.squeeze_axis)


# -- repetition -------------------------------------------------------------------------------------------------------


def checked_dims(dims, what: str) -> tuple[int, ...]:
    if any(d is None or d < 0 for d in dims) or math.prod(dims) >= 1 << 47:
        raise TVMError(f"the attribute {what}={tuple(dims)} is not a valid shape")
    return tuple(dims)


@op("broadcast_to", "shape:dims=()")
def broadcast_to(ctx, inputs, attrs):
    dims = ctx.known_shape(inputs[0])
    if len(attrs.shape) != len(dims):
        raise TVMError(f"the attribute shape={attrs.shape} does not match data of shape {dims}")
    return relay.broadcast_to(inputs[0], checked_dims([w or d for w, d in zip(attrs.shape, dims)], "shape"))


@op("_npi_broadcast_to", "shape:dims=()")
def np_broadcast_to(ctx, inputs, attrs):
    return relay.broadcast_to(inputs[0], checked_dims(attrs.shape, "shape"))


@op("broadcast_axis", "axis:dims=() size:dims=()")
def broadcast_axis(ctx, inputs, attrs):
    dims = list(ctx.known_shape(inputs[0]))
    if len(attrs.axis) != len(attrs.size):
        raise TVMError(f"axis={attrs.axis} and size={attrs.size} must have the same length")
    for a, size in zip(attrs.axis, attrs.size):
        if dims[axis_of(a, len(dims))] != 1:
            raise TVMError(f"axis {a} of shape {tuple(dims)} must have size 1")
        dims[axis_of(a, len(dims))] = size
    return relay.broadcast_to(inputs[0], checked_dims(dims, "size"))


@op("broadcast_like", "lhs_axes:dims?=None rhs_axes:dims?=None")
def broadcast_like(ctx, inputs, attrs):
    dims, like = list(ctx.known_shape(inputs[0])), ctx.known_shape(inputs[1])
    if (attrs.lhs_axes is None) != (attrs.rhs_axes is None):
        raise TVMError("lhs_axes and rhs_axes must be given together")
    if attrs.lhs_axes is None:
        return relay.broadcast_to(inputs[0], like)
    if len(attrs.lhs_axes) != len(attrs.rhs_axes):
        raise TVMError(f"lhs_axes={attrs.lhs_axes} and rhs_axes={attrs.rhs_axes} must have the same length")
    for a, b in zip(attrs.lhs_axes, attrs.rhs_axes):
        dims[axis_of(a, len(dims))] = like[axis_of(b, len(like))]
    return relay.broadcast_to(inputs[0], dims)


@op("tile", "reps:dims")
def tile(ctx, inputs, attrs):
    x = inputs[0]
    dims = ctx.known_shape(x)
    count = max(len(dims), len(attrs.reps))
    dims, reps = (1,) * (count - len(dims)) + dims, (1,) * (count - len(attrs.reps)) + checked_dims(attrs.reps, "reps")
    checked_dims([d * r for d, r in zip(dims, reps)], "reps")
    return (
        relay.tile(relay.reshape(x, dims) if count > ctx.rank(x) else x, reps)
        if 0 not in reps
        else relay.zeros([d * r for d, r in zip(dims, reps)], ctx.dtype(x))
    )


@op("repeat", "repeats:int axis:int?=None")
def repeat(ctx, inputs, attrs):
    x = inputs[0]
    if not 0 < attrs.repeats < 1 << 31:
        raise TVMError(f"the attribute repeats={attrs.repeats} is not supported; it must be positive")
    if attrs.axis is None:
        return relay.repeat(relay.reshape(x, (-1,)), attrs.repeats, 0)
    return relay.repeat(x, attrs.repeats, axis_of(attrs.axis, ctx.rank(x)))


# -- padding and blocks -----------------------------------------------------------------------------------------------


def padded(ctx: Context, x: RelayExpr, widths: list[tuple[int, int]], mode: str, value: float) -> RelayExpr:
    if len(widths) != ctx.rank(x) or any(w < 0 or w >= 1 << 31 for pair in widths for w in pair):
        raise TVMError(f"the attribute pad_width={widths} does not match data of shape {ctx.shape(x)}")
    if mode == "reflect" and any(max(p) >= d for p, d in zip(widths, ctx.known_shape(x)) if max(p)):
        raise TVMError(f"the attribute pad_width={widths} is too large to reflect data of shape {ctx.shape(x)}")
    if mode == "symmetric":
        return relay.nn.mirror_pad(x, widths, "SYMMETRIC")
    return (
        relay.nn.pad(x, widths, value, pad_mode=mode) if mode == "constant" else relay.nn.pad(x, widths, pad_mode=mode)
    )


@op("Pad", "mode:constant|edge|reflect pad_width:dims constant_value:float=0")
def pad(ctx, inputs, attrs):
    rows = list(zip(attrs.pad_width[0::2], attrs.pad_width[1::2]))
    return padded(ctx, inputs[0], rows, attrs.mode, attrs.constant_value)


@op(
    "_npi_pad",
    "pad_width:pairs mode:constant|edge|maximum|minimum|reflect|symmetric=constant constant_value:float=0"
    " reflect_type:str=even",
)
def np_pad(ctx, inputs, attrs):
    if attrs.mode in ("maximum", "minimum") or attrs.reflect_type != "even":
        raise TVMError(f"mode={attrs.mode} with reflect_type={attrs.reflect_type} is not supported")
    if any(len(p) != 2 for p in attrs.pad_width):
        raise TVMError(f"the attribute pad_width={attrs.pad_width} is not a list of pairs")
    return padded(ctx, inputs[0], list(attrs.pad_width), attrs.mode, attrs.constant_value)


@op("depth_to_space", "block_size:int")
def depth_to_space(ctx, inputs, attrs):
    _check_blocks(ctx, inputs[0], attrs.block_size, True)
    return relay.nn.depth_to_space(inputs[0], attrs.block_size)


@op("space_to_depth", "block_size:int")
def space_to_depth(ctx, inputs, attrs):
    _check_blocks(ctx, inputs[0], attrs.block_size, False)
    return relay.nn.space_to_depth(inputs[0], attrs.block_size)


def _check_blocks(ctx: Context, x: RelayExpr, size: int, deep: bool) -> None:
    dims = ctx.known_shape(x)
    if len(dims) != 4 or size < 1 or (dims[1] % (size * size) if deep else dims[2] % size or dims[3] % size):
        raise TVMError(f"shape {dims} is not divisible by block_size={size}")


__all__ = ["checked_dims", "padded", "reshaped_dims", "sliced", "slices"]
