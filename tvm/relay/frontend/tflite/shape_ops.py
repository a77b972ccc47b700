"""Converters of operators that move elements: reshape, slice, concatenate, pad."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from ..common import tensorflow_ops as alike
from ..common.context import check_count, check_steps
from .elementwise import activated
from .load import Quantization, Tensor
from .quantization import RANGES, looked_up, round_away
from .run_time import run_time_slice, run_time_strided_slice
from .table import Context, argument, axis_of, moving, op, quantized


@moving("RESHAPE")
def reshape(ctx, inputs, options):
    shape = argument(inputs, 1)
    known = ctx.value(shape)
    if known is not None and known.ndim == 1:
        wanted = [int(v) for v in known]
    elif options.new_shape is not None:
        wanted = [] if options.new_shape == [0] else list(options.new_shape)
    elif shape is not None and known is None:
        return relay.reshape(inputs[0], shape)
    else:
        raise TVMError("the new shape is missing")
    if any(d < -1 for d in wanted):
        raise TVMError(f"the new shape {wanted} has a negative dimension")
    return relay.reshape(inputs[0], wanted, True)


moving("TRANSPOSE")(alike.transpose)


@moving("SQUEEZE")
def squeeze(ctx, inputs, options):
    shape = ctx.shape(inputs[0])
    axes = sorted({axis_of(a, len(shape)) for a in options.squeeze_dims or []})
    if not axes:
        axes = [i for i, d in enumerate(shape) if isinstance(d, int) and d == 1]
    return relay.squeeze(inputs[0], axes) if axes else inputs[0]


@moving("EXPAND_DIMS")
def expand_dims(ctx, inputs, options):
    axis = ctx.ints(inputs[1], "the axis")
    if len(axis) != 1:
        raise TVMError(f"the axis must be a scalar, got {axis}")
    return relay.expand_dims(inputs[0], axis_of(axis[0], ctx.rank(inputs[0]) + 1))


@moving("DENSIFY")
def densify(ctx, inputs, options):
    """Return a sparse constant, which is already read in its dense form."""
    return inputs[0]


@moving("TILE")
def tile(ctx, inputs, options):
    if ctx.is_run_time_value(inputs[1]):
        return relay.tile(inputs[0], relay.cast(inputs[1], "int64"))
    reps = ctx.ints(inputs[1], "the repetitions")
    if len(reps) != ctx.rank(inputs[0]) or any(r < 0 for r in reps):
        raise TVMError(f"multiples {reps} must be {ctx.rank(inputs[0])} non-negative integers")
    return relay.tile(inputs[0], reps) if reps else inputs[0]


@moving("BROADCAST_TO")
def broadcast_to(ctx, inputs, options):
    return relay.broadcast_to(inputs[0], ctx.ints(inputs[1], "the shape"))


@op("BROADCAST_ARGS")
def broadcast_args(ctx, inputs, options):
    shapes = [ctx.ints(x, "the shapes") for x in inputs[:2]]
    return Constant(np.array(np.broadcast_shapes(*map(tuple, shapes)), ctx.result().dtype))


@op("SHAPE")
def shape_of(ctx, inputs, options):
    shape, kind = ctx.shape(inputs[0]), ctx.result().dtype
    if all(isinstance(d, int) for d in shape):
        return Constant(np.array(shape, kind))
    return relay.shape_of(inputs[0], kind)


quantized("SHAPE")(shape_of)


@op("RANK")
def rank(ctx, inputs, options):
    return const(ctx.rank(inputs[0]), "int32")


quantized("RANK")(rank)


# -- slices -----------------------------------------------------------------------------------------------------------


@moving("SLICE")
def slice_(ctx, inputs, options):
    if ctx.is_run_time_value(*inputs[1:3]):
        return run_time_slice(ctx, *inputs[:3])
    shape = ctx.known_shape(inputs[0])
    begin, size = ctx.ints(inputs[1], "the begin"), ctx.ints(inputs[2], "the size")
    if not len(begin) == len(size) == len(shape):
        raise TVMError(f"begin {begin} and size {size} must have {len(shape)} elements each")
    end = [d if s == -1 else b + s for b, s, d in zip(begin, size, shape)]
    if any(not 0 <= b <= e <= d for b, e, d in zip(begin, end, shape)):
        raise TVMError(f"the slice from {begin} with size {size} exceeds the shape {list(shape)}")
    return relay.strided_slice(inputs[0], begin, end) if shape else inputs[0]


@moving("STRIDED_SLICE")
def strided_slice(ctx, inputs, options):
    if ctx.is_run_time_value(*inputs[1:3]):
        return run_time_strided_slice(ctx, inputs, options)
    rows = [ctx.ints(x, w) for x, w in zip(inputs[1:4], ("the begin", "the end", "the strides"))]
    if len({len(r) for r in rows}) != 1:
        raise TVMError("begin, end and strides have different lengths")
    if options.offset:
        rows[1] = [b + e for b, e in zip(rows[0], rows[1])]
    specs = _specs(options, len(rows[0]), ctx.rank(inputs[0]))
    shape = ctx.known_shape(inputs[0])
    begin, end, strides, kept, axis = [], [], [], [], 0
    for kind, i in specs:
        if kind == "new":
            kept.append(1)
            continue
        first, last, step = _bounds(kind, i, rows, options, shape[axis])
        begin.append(first)
        end.append(last)
        strides.append(step)
        if kind != "shrink":
            kept.append(max(-(-(last - first) // step), 0))
        axis += 1
    if not shape:
        return relay.reshape(inputs[0], kept, True)
    # An end before the first element is represented by -1 - size.
    end = [e if e >= 0 else -1 - d for e, d in zip(end, shape)]
    return relay.reshape(relay.strided_slice(inputs[0], begin, end, strides), kept, True)


def _specs(options, count: int, rank: int) -> list[tuple[str, int]]:
    """Return the function of each part of the slice: a range, an index, or a new axis; an ellipsis covers the other
    axes.
    """
    check_steps("a slice", count)
    out: list[tuple[str, int]] = []
    for i in range(count):
        bit = 1 << i
        if options.ellipsis_mask & bit:
            later = sum(1 for j in range(i + 1, count) if not options.new_axis_mask & 1 << j)
            used = sum(1 for kind, _ in out if kind != "new")
            out += [("all", i)] * max(rank - used - later, 0)
        elif options.new_axis_mask & bit:
            out.append(("new", i))
        else:
            out.append(("shrink" if options.shrink_axis_mask & bit else "range", i))
    used = sum(1 for kind, _ in out if kind != "new")
    if used > rank:
        raise TVMError(f"a slice of {used} axes exceeds the {rank} axes of the tensor")
    return out + [("all", -1)] * (rank - used)


def _bounds(kind: str, i: int, rows: list, options, size: int) -> tuple[int, int, int]:
    """Return begin, end (exclusive) and step along one axis; -1 is the end before the first element for a negative
    step.
    """
    if kind == "all":
        return 0, size, 1
    first, last, step = rows[0][i], rows[1][i], rows[2][i]
    if step == 0:
        raise TVMError("the strides of a slice must not be 0")
    if kind == "shrink":
        first = first + size if first < 0 else first
        if not 0 <= first < size:
            raise TVMError(f"index {rows[0][i]} is out of range for an axis of size {size}")
        return first, first + 1, 1
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = first + size if first < 0 else first
    last = last + size if last < 0 else last
    first = min(max(first, low), high)
    last = min(max(last, low), high)
    if options.begin_mask & 1 << i:
        first = low if step > 0 else high
    if options.end_mask & 1 << i:
        last = high if step > 0 else low
    return first, last, step


@moving("SPLIT")
def split(ctx, inputs, options):
    axis = axis_of(_single(ctx, inputs[0], "the axis"), ctx.rank(inputs[1]))
    count, size = options.num_splits, ctx.known_size(inputs[1], axis)
    check_steps("a split", count)
    if count < 1 or size % count:
        raise TVMError(f"cannot split an axis of size {size} into {count} equal parts")
    return list(relay.split(inputs[1], count, axis)) if count > 1 else [inputs[1]]


@moving("SPLIT_V")
def split_v(ctx, inputs, options):
    axis = axis_of(_single(ctx, inputs[2], "the axis"), ctx.rank(inputs[0]))
    sizes, size = ctx.ints(inputs[1], "the sizes"), ctx.known_size(inputs[0], axis)
    check_steps("a split", len(sizes))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = size - sum(sizes) - 1
    if any(s < 0 for s in sizes) or sum(sizes) != size:
        raise TVMError(f"split sizes {sizes} must be non-negative and add up to {size}")
    if len(sizes) == 1:
        return [inputs[0]]
    return list(relay.split(inputs[0], [int(v) for v in np.cumsum(sizes[:-1])], axis))


def _single(ctx: Context, x, what: str) -> int:
    values = ctx.ints(x, what)
    if values is None or len(values) != 1:
        raise TVMError(f"{what} must be a scalar, got {values}")
    return values[0]


# -- concatenate and stack --------------------------------------------------------------------------------------------


@op("CONCATENATION")
def concatenation(ctx, inputs, options):
    axis = axis_of(options.axis, ctx.rank(inputs[0]))
    return activated(ctx, relay.concatenate(inputs, axis) if len(inputs) > 1 else inputs[0], options)


@quantized("CONCATENATION")
def integer_concatenation(ctx, inputs, options):
    result = ctx.result()
    y = ctx.quantization(result)
    parts = []
    for i, x in enumerate(inputs):
        found = ctx.quantization(ctx.tensor(i))
        if found.scale[0] != y.scale[0] or found.zero_point[0] != y.zero_point[0]:
            x = _rescaled_part(x, found, result)
        parts.append(x)
    return relay.concatenate(parts, axis_of(options.axis, ctx.rank(inputs[0]))) if len(parts) > 1 else parts[0]


def _rescaled_part(x, found: Quantization, result: Tensor):
    """Requantize a part of a concatenation by a table; the product and the sum are rounded once, as by a fused
    multiply-add.
    """
    y = result.quantization
    assert y is not None
    factor = np.float32(found.scale[0]) * (np.float32(1) / np.float32(y.scale[0]))
    low, high = RANGES[result.dtype]
    exact = np.arange(low, high + 1) * np.float64(factor) + np.float64(np.float32(-found.zero_point[0]) * factor)
    entries = np.clip(round_away(exact.astype("float32")) + y.zero_point[0], low, high)
    return looked_up(x, entries.astype(result.dtype), result.dtype)


@moving("PACK")
def pack(ctx, inputs, options):
    axis = axis_of(options.axis, ctx.rank(inputs[0]) + 1)
    return relay.stack(inputs, axis)


@moving("UNPACK")
def unpack(ctx, inputs, options):
    axis = axis_of(options.axis, ctx.rank(inputs[0]))
    count = ctx.known_size(inputs[0], axis)
    check_steps("a stack", count)
    if count != options.num:
        raise TVMError(f"num is {options.num}, but the axis has size {count}")
    if count == 1:
        return [relay.squeeze(inputs[0], [axis])]
    return [relay.squeeze(part, [axis]) for part in relay.split(inputs[0], count, axis)]


# -- padding ----------------------------------------------------------------------------------------------------------


@op("PAD", "PADV2")
def pad(ctx, inputs, options):
    value = argument(inputs, 2)
    width = alike.pad_width(ctx, inputs)
    return relay.nn.pad(inputs[0], width, ctx.like(0, inputs[0]) if value is None else relay.reshape(value, ()))


@quantized("PAD", "PADV2")
def integer_pad(ctx, inputs, options):
    zero = ctx.like(int(ctx.quantization(ctx.tensor(0)).zero_point[0]), inputs[0])
    return pad(ctx, [*inputs[:2], zero if argument(inputs, 2) is None else inputs[2]], options)


@moving("MIRROR_PAD")
def mirror_pad(ctx, inputs, options):
    if options.mode not in (0, 1):
        raise TVMError(f"unknown padding mode {options.mode}")
    return relay.nn.mirror_pad(inputs[0], alike.pad_width(ctx, inputs), ("REFLECT", "SYMMETRIC")[options.mode])


moving("REVERSE_V2")(alike.reverse)


@moving("REVERSE_SEQUENCE")
def reverse_sequence(ctx, inputs, options):
    return relay.reverse_sequence(inputs[0], inputs[1], options.seq_dim, options.batch_dim)


# -- blocks -----------------------------------------------------------------------------------------------------------


@moving("SPACE_TO_DEPTH")
def space_to_depth(ctx, inputs, options):
    n, h, w, c = ctx.known_shape(inputs[0])
    b = options.block_size
    if b < 1 or h % b or w % b:
        raise TVMError(f"block_size {b} does not divide the image size {h} x {w}")
    out = relay.reshape(inputs[0], (n, h // b, b, w // b, b, c))
    return relay.reshape(relay.transpose(out, (0, 1, 3, 2, 4, 5)), (n, h // b, w // b, b * b * c))


@moving("DEPTH_TO_SPACE")
def depth_to_space(ctx, inputs, options):
    n, h, w, c = ctx.known_shape(inputs[0])
    b = options.block_size
    if b < 1 or c % (b * b):
        raise TVMError(f"the number of channels, {c}, must be divisible by the block size {b} x {b}")
    out = relay.reshape(inputs[0], (n, h, w, b, b, c // (b * b)))
    return relay.reshape(relay.transpose(out, (0, 1, 3, 2, 4, 5)), (n, h * b, w * b, c // (b * b)))


@moving("SPACE_TO_BATCH_ND")
def space_to_batch(ctx, inputs, options):
    block, paddings = alike.blocks(ctx, inputs)
    zero = 0
    if ctx.tensor(0).quantization is not None and not ctx.is_float(inputs[0]):
        zero = int(ctx.quantization(ctx.tensor(0)).zero_point[0])
    return relay.nn.space_to_batch_nd(inputs[0], block, paddings, zero)


@moving("BATCH_TO_SPACE_ND")
def batch_to_space(ctx, inputs, options):
    block, crops = alike.blocks(ctx, inputs)
    return relay.nn.batch_to_space_nd(inputs[0], block, crops)


# -- new tensors ------------------------------------------------------------------------------------------------------


@moving("FILL")
def fill(ctx, inputs, options):
    shape = ctx.ints(inputs[0], "the shape")
    check_count("a filled tensor", shape)
    return relay.full(relay.reshape(inputs[1], ()), shape, ctx.dtype(inputs[1]))


@op("ZEROS_LIKE")
def zeros_like(ctx, inputs, options):
    shape = ctx.known_shape(inputs[0])
    return relay.full(ctx.like(0, inputs[0]), shape, ctx.dtype(inputs[0]))


@op("RANGE")
def range_(ctx, inputs, options):
    if ctx.is_run_time_value(*inputs[:3]):
        return relay.arange(*(relay.reshape(x, ()) for x in inputs[:3]), dtype=ctx.dtype(inputs[0]))
    return alike.known_range(ctx, inputs)
