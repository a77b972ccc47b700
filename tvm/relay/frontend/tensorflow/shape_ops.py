"""Converters of operators that move elements: reshape, slice, concatenate, pad."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from ..common import tensorflow_ops as alike
from .table import Context, axis_of, check_count, check_steps, op


@op("Reshape")
def reshape(ctx, inputs, attrs):
    data, shape = inputs[:2]
    known = ctx.value(shape)
    if known is None:
        return run_time.reshaped(ctx, data, shape, 0 in [v for v in ctx.numbers(shape) if isinstance(v, int)])
    wanted = [int(v) for v in known.reshape(-1)]
    if any(d < -1 for d in wanted) or wanted.count(-1) > 1:
        raise TVMError(f"the new shape {wanted} has a negative dimension")
    if any(not isinstance(d, int) for d in ctx.shape(data)) and 0 not in wanted:
        return run_time.reshaped(ctx, data, run_time.number(wanted))
    return relay.reshape(data, wanted, True)


op("Transpose")(alike.transpose)


@op("Squeeze")
def squeeze(ctx, inputs, attrs):
    shape = ctx.shape(inputs[0])
    given = attrs.get("squeeze_dims") or attrs.get("axis") or []
    axes = sorted({axis_of(a, len(shape)) for a in given})
    if not axes:
        if any(not isinstance(d, int) for d in shape):
            raise TVMError("Squeeze without axes requires a static shape; pass the input shapes to from_tensorflow")
        axes = [i for i, d in enumerate(shape) if d == 1]
    return relay.squeeze(inputs[0], axes) if axes else inputs[0]


@op("ExpandDims")
def expand_dims(ctx, inputs, attrs):
    return relay.expand_dims(inputs[0], axis_of(ctx.single(inputs[1], "the axis"), ctx.rank(inputs[0]) + 1))


@op("Tile")
def tile(ctx, inputs, attrs):
    if ctx.is_run_time_value(inputs[1]) or any(not isinstance(d, int) for d in ctx.shape(inputs[0])):
        return run_time.tiled(ctx, inputs[0], inputs[1])
    reps = ctx.ints(inputs[1], "the repetitions")
    if len(reps) != ctx.rank(inputs[0]) or any(r < 0 for r in reps):
        raise TVMError(f"multiples {reps} must be {ctx.rank(inputs[0])} non-negative integers")
    return relay.tile(inputs[0], reps) if reps else inputs[0]


@op("BroadcastTo")
def broadcast_to(ctx, inputs, attrs):
    if ctx.is_run_time_value(inputs[1]) or any(not isinstance(d, int) for d in ctx.shape(inputs[0])):
        return run_time.expanded(ctx, *inputs[:2])
    return relay.broadcast_to(inputs[0], ctx.ints(inputs[1], "the shape"))


@op("BroadcastArgs")
def broadcast_args(ctx, inputs, attrs):
    if not ctx.is_run_time_value(*inputs[:2]):
        shapes = [tuple(ctx.ints(x, "the shapes")) for x in inputs[:2]]
        return Constant(np.array(np.broadcast_shapes(*shapes), ctx.dtype(inputs[0])))
    counts = [ctx.length(x, "the shape") for x in inputs[:2]]
    total = max(counts)
    rows = [run_time.vector(ctx, x) for x in inputs[:2]]
    a, b = (
        run_time.joined(ctx, [run_time.number([1] * (total - c)), r]) if c < total else r for r, c in zip(rows, counts)
    )
    return relay.cast(relay.where(relay.equal(a, run_time.number(1)), b, a), ctx.dtype(inputs[0]))


def _shape(ctx: Context, x: RelayExpr, kind: str) -> RelayExpr:
    shape = ctx.shape(x)
    if all(isinstance(d, int) for d in shape):
        return Constant(np.array(shape, kind))
    return relay.shape_of(x, kind)


@op("Shape")
def shape_of(ctx, inputs, attrs):
    return _shape(ctx, inputs[0], ctx.kind(attrs, "out_type", "int32"))


@op("ShapeN")
def shape_n(ctx, inputs, attrs):
    return [_shape(ctx, x, ctx.kind(attrs, "out_type", "int32")) for x in inputs]


@op("Size")
def size(ctx, inputs, attrs):
    kind, shape = ctx.kind(attrs, "out_type", "int32"), ctx.shape(inputs[0])
    if all(isinstance(d, int) for d in shape):
        return const(math.prod(shape), kind)
    return relay.prod(relay.shape_of(inputs[0], kind), axis=0)


@op("Rank")
def rank(ctx, inputs, attrs):
    return const(ctx.rank(inputs[0]), "int32")


# -- slices -----------------------------------------------------------------------------------------------------------


@op("Slice")
def slice_(ctx, inputs, attrs):
    data, shape = inputs[0], ctx.shape(inputs[0])
    if ctx.is_run_time_value(*inputs[1:3]):
        begin, count = (run_time.vector(ctx, v) for v in inputs[1:3])
        end = relay.where(relay.less(count, run_time.number(0)), run_time.number(run_time.FAR), relay.add(begin, count))
        known = [n if isinstance(n, int) and n >= 0 else None for n in ctx.numbers(inputs[2])]
        out = run_time.sliced(ctx, data, begin, ctx.made(end), None, None)
        return run_time.sharpened(ctx, out, known)
    begin, count = ctx.ints(inputs[1], "the begin"), ctx.ints(inputs[2], "the size")
    if not len(begin) == len(count) == len(shape):
        raise TVMError(f"begin {begin} and size {count} must have {len(shape)} elements each")
    end = [(d if isinstance(d, int) else run_time.FAR) if s == -1 else b + s for b, s, d in zip(begin, count, shape)]
    if any(b < 0 or b > e or isinstance(d, int) and e > d for b, e, d in zip(begin, end, shape)):
        raise TVMError(f"the slice from {begin} with size {count} exceeds the shape {list(shape)}")
    kept = [i for i, (b, e, d) in enumerate(zip(begin, end, shape)) if b or e not in (d, run_time.FAR)]
    return _cut(data, [begin[i] for i in kept], [end[i] for i in kept], [1] * len(kept), kept)


def _cut(data, begin, end, strides, axes):
    return relay.strided_slice(data, begin, end, strides, axes) if axes else data


@op("StridedSlice")
def strided_slice(ctx, inputs, attrs):
    data = inputs[0]
    if ctx.is_run_time_value(*inputs[1:4]):
        return _dynamic_slice(ctx, inputs, attrs)
    rows = [ctx.ints(x, w) for x, w in zip(inputs[1:4], ("the begin", "the end", "the strides"))]
    if len({len(r) for r in rows}) != 1:
        raise TVMError("begin, end and strides have different lengths")
    shape = ctx.shape(data)
    begin, end, strides, axes, gone, new, axis = [], [], [], [], [], [], 0
    place = 0
    for kind, i in _specs(attrs, len(rows[0]), len(shape)):
        if kind == "new":
            new.append(place)
            place += 1
            continue
        bounds = _bounds(kind, i, rows, attrs, shape[axis])
        if bounds is not None:
            for out, v in zip((begin, end, strides), bounds):
                out.append(v)
            axes.append(axis)
        if kind == "shrink":
            gone.append(axis)
        else:
            place += 1
        axis += 1
    return _reformed(_cut(data, begin, end, strides, axes), gone, new)


def _reformed(out: RelayExpr, gone: list[int], new: list[int]) -> RelayExpr:
    """Remove the axes that are indexed by one position, and insert new axes."""
    out = relay.squeeze(out, gone) if gone else out
    for place in new:
        out = relay.expand_dims(out, place)
    return out


def _specs(attrs, count: int, rank: int) -> list[tuple[str, int]]:
    """Return the function of each part of the slice: a range, an index, or a new axis; an ellipsis covers the other
    axes.
    """
    check_steps("a slice", count)
    ellipsis, new, shrink = (attrs.get(f"{k}_mask", 0) for k in ("ellipsis", "new_axis", "shrink_axis"))
    out: list[tuple[str, int]] = []
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            later = sum(1 for j in range(i + 1, count) if not new & 1 << j)
            used = sum(1 for kind, _ in out if kind != "new")
            out += [("all", i)] * max(rank - used - later, 0)
        elif new & bit:
            out.append(("new", i))
        else:
            out.append(("shrink" if shrink & bit else "range", i))
    used = sum(1 for kind, _ in out if kind != "new")
    if used > rank:
        raise TVMError(f"a slice of {used} axes exceeds the {rank} axes of the tensor")
    return out + [("all", -1)] * (rank - used)


def _bounds(kind: str, i: int, rows: list, attrs, size) -> tuple[int, int, int] | None:
    """Return begin, end (exclusive) and step along one axis; None for the whole axis."""
    if kind == "all":
        return None
    first, last, step = rows[0][i], rows[1][i], rows[2][i]
    if step == 0:
        raise TVMError("the strides of a slice must not be 0")
    known = isinstance(size, int)
    if kind == "shrink":
        if known and not -size <= first < size:
            raise TVMError(f"index {first} is out of range for an axis of size {size}")
        first = first + size if known and first < 0 else first
        return first, first + 1 if first != -1 else run_time.FAR, 1
    whole = attrs.get("begin_mask", 0) & 1 << i, attrs.get("end_mask", 0) & 1 << i
    if not known:
        if step < 0:
            raise TVMError(
                "a slice with a negative stride requires an axis of static size; pass the input shapes to "
                "from_tensorflow"
            )
        bounds = 0 if whole[0] else first, run_time.FAR if whole[1] else last, step
        return None if bounds == (0, run_time.FAR, 1) else bounds
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (min(max(v + size if v < 0 else v, low), high) for v in (first, last))
    first = (low if step > 0 else high) if whole[0] else first
    last = (high if step > 0 else low) if whole[1] else last
    if step > 0:
        last = max(first, last)
    elif first < 0:
        # No element precedes the first one.
        return 0, 0, 1
    # An end before the first element is represented by -1 - size.
    return None if (first, last, step) == (0, size, 1) else (first, last if last >= 0 else -1 - size, step)


def _dynamic_slice(ctx: Context, inputs: list, attrs) -> RelayExpr:
    """Convert a slice with run-time bounds."""
    data, shape = inputs[0], ctx.shape(inputs[0])
    count = ctx.length(inputs[1], "the begin")
    strides = ctx.ints(inputs[3], "the strides")
    rows = [run_time.vector(ctx, v) for v in inputs[1:3]]
    begin, end, step, axes, gone, new, axis, place = [], [], [], [], [], [], 0, 0
    for kind, i in _specs(attrs, count, len(shape)):
        if kind == "new":
            new.append(place)
            place += 1
            continue
        if kind != "all":
            first, last = (run_time.element(ctx, r, i) for r in rows)
            if kind == "shrink":
                last = relay.where(
                    relay.equal(first, run_time.number(-1)),
                    run_time.number(run_time.FAR),
                    relay.add(first, run_time.number(1)),
                )
            elif strides[i] < 0:
                raise TVMError("a slice with a negative stride and run-time bounds is not supported")
            else:
                first = run_time.number(0) if attrs.get("begin_mask", 0) & 1 << i else first
                last = run_time.number(run_time.FAR) if attrs.get("end_mask", 0) & 1 << i else last
            begin.append(first)
            end.append(ctx.made(last))
            step.append(1 if kind == "shrink" else strides[i])
            axes.append(axis)
        gone += [axis] if kind == "shrink" else []
        place += kind != "shrink"
        axis += 1
    if not axes:
        return _reformed(data, gone, new)
    ends = [run_time.joined(ctx, v) for v in (begin, end)]
    out = run_time.sliced(ctx, data, *ends, run_time.number(axes), run_time.number(step))
    sizes = [1 if i in gone else None if i in axes else d for i, d in enumerate(shape)]
    return _reformed(run_time.sharpened(ctx, out, sizes), gone, new)


@op("Split")
def split(ctx, inputs, attrs):
    axis = axis_of(ctx.single(inputs[0], "the axis"), ctx.rank(inputs[1]))
    count, size = attrs.get("num_split", 1), ctx.shape(inputs[1])[axis]
    check_steps("a split", count)
    if count < 1 or isinstance(size, int) and size % count:
        raise TVMError(f"cannot split an axis of size {size} into {count} equal parts")
    if not isinstance(size, int):
        raise TVMError("Split requires an axis of static size; pass the input shapes to from_tensorflow")
    return list(relay.split(inputs[1], count, axis)) if count > 1 else [inputs[1]]


@op("SplitV")
def split_v(ctx, inputs, attrs):
    axis = axis_of(ctx.single(inputs[2], "the axis"), ctx.rank(inputs[0]))
    sizes, total = ctx.ints(inputs[1], "the sizes"), ctx.known_size(inputs[0], axis)
    check_steps("a split", len(sizes))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = total - sum(sizes) - 1
    if any(s < 0 for s in sizes) or sum(sizes) != total:
        raise TVMError(f"split sizes {sizes} must be non-negative and add up to {total}")
    ends = [int(e) for e in np.cumsum(sizes)]
    return [_cut(inputs[0], [e - s], [e], [1], [axis]) for s, e in zip(sizes, ends)]


# -- concatenate and stack --------------------------------------------------------------------------------------------


def _joined(ctx: Context, parts: list, axis: int) -> RelayExpr:
    # Empty vectors can be concatenated with tensors of another rank in old files.
    kept = [p for p in parts if not (ctx.rank(p) == 1 and ctx.shape(p)[0] == 0 and ctx.rank(parts[-1]) > 1)] or parts
    at = axis_of(axis, ctx.rank(kept[0]))
    return relay.concatenate(kept, at) if len(kept) > 1 else kept[0]


@op("ConcatV2")
def concat_v2(ctx, inputs, attrs):
    return _joined(ctx, inputs[:-1], ctx.single(inputs[-1], "the axis"))


@op("Concat")
def concat(ctx, inputs, attrs):
    return _joined(ctx, inputs[1:], ctx.single(inputs[0], "the axis"))


@op("Pack", "ParallelConcat")
def pack(ctx, inputs, attrs):
    if ctx.node.op == "ParallelConcat":
        return relay.concatenate(inputs, 0)
    return relay.stack(inputs, axis_of(attrs.get("axis", 0), ctx.rank(inputs[0]) + 1))


@op("Unpack")
def unpack(ctx, inputs, attrs):
    axis = axis_of(attrs.get("axis", 0), ctx.rank(inputs[0]))
    count = ctx.shape(inputs[0])[axis]
    count = attrs.get("num", 0) if not isinstance(count, int) else count
    check_steps("a stack", count)
    if count != attrs.get("num", count):
        raise TVMError(f"attribute 'num' is {attrs.get('num')}, but the axis has size {count}")
    if count < 2:
        return [relay.squeeze(inputs[0], [axis])] * count
    return [relay.squeeze(part, [axis]) for part in relay.split(inputs[0], count, axis)]


# -- padding ----------------------------------------------------------------------------------------------------------


@op("Pad", "PadV2")
def pad(ctx, inputs, attrs):
    data = inputs[0]
    value = ctx.like(0, data) if len(inputs) < 3 else relay.reshape(inputs[2], ())
    if ctx.is_run_time_value(inputs[1]):
        amounts = ctx.made(relay.reshape(relay.transpose(inputs[1], (1, 0)), (-1,)))
        return run_time.padded(ctx, data, amounts, None, value, "constant")
    width = alike.pad_width(ctx, inputs)
    return relay.nn.pad(data, width, value) if width else data


@op("MirrorPad")
def mirror_pad(ctx, inputs, attrs):
    width, shape = alike.pad_width(ctx, inputs), ctx.known_shape(inputs[0])
    mode = attrs.get("mode", "REFLECT")
    most = 0 if mode == "SYMMETRIC" else 1
    if any(max(w) > d - most for w, d in zip(width, shape)):
        raise TVMError(f"mirror padding {width} is too large for the shape {shape}")
    return relay.nn.mirror_pad(inputs[0], width, mode)


op("ReverseV2")(alike.reverse)


@op("Reverse")
def reverse_by_flags(ctx, inputs, attrs):
    out = inputs[0]
    for axis, flag in enumerate(ctx.array(inputs[1], "the axes").reshape(-1)):
        out = relay.reverse(out, axis) if flag else out
    return out


@op("ReverseSequence")
def reverse_sequence(ctx, inputs, attrs):
    lengths = relay.cast(inputs[1], "int32")
    return relay.reverse_sequence(inputs[0], lengths, attrs.get("seq_dim", 0), attrs.get("batch_dim", 0))


@op("Roll")
def roll(ctx, inputs, attrs):
    out = inputs[0]
    for shift, axis in zip(*(ctx.ints(x, "the shift") for x in inputs[1:3])):
        axis = axis_of(axis, ctx.rank(out))
        count = ctx.known_size(out, axis)
        shift %= max(count, 1)
        if shift:
            parts = [_cut(out, [count - shift], [count], [1], [axis]), _cut(out, [0], [count - shift], [1], [axis])]
            out = ctx.made(relay.concatenate(parts, axis))
    return out


# -- blocks -----------------------------------------------------------------------------------------------------------


@op("SpaceToDepth", "DepthToSpace")
def blocks(ctx, inputs, attrs):
    form = {"SpaceToDepth": relay.nn.space_to_depth, "DepthToSpace": relay.nn.depth_to_space}[ctx.node.op]
    layout, size = attrs.get("data_format", "NHWC"), attrs.get("block_size", 1)
    if layout not in ("NHWC", "NCHW") or size < 1:
        raise TVMError(f"block_size {size} with data_format {layout} is not supported")
    return form(inputs[0], size, layout)


@op("SpaceToBatchND")
def space_to_batch(ctx, inputs, attrs):
    return relay.nn.space_to_batch_nd(inputs[0], *alike.blocks(ctx, inputs), 0)


@op("BatchToSpaceND")
def batch_to_space(ctx, inputs, attrs):
    return relay.nn.batch_to_space_nd(inputs[0], *alike.blocks(ctx, inputs))


# -- new tensors ------------------------------------------------------------------------------------------------------


@op("Fill")
def fill(ctx, inputs, attrs):
    value = relay.reshape(inputs[1], ()) if ctx.rank(inputs[1]) else inputs[1]
    if ctx.is_run_time_value(inputs[0]):
        return run_time.filled(ctx, ctx.made(value), inputs[0])
    shape = ctx.ints(inputs[0], "the shape")
    check_count("a filled tensor", shape)
    return relay.full(value, shape, ctx.dtype(inputs[1]))


@op("ZerosLike", "OnesLike")
def filled_like(ctx, inputs, attrs):
    return (relay.zeros_like if ctx.node.op == "ZerosLike" else relay.ones_like)(inputs[0])


@op("Range")
def range_(ctx, inputs, attrs):
    if ctx.is_run_time_value(*inputs[:3]):
        return run_time.ranged(ctx, *inputs[:3])
    return alike.known_range(ctx, inputs)


@op("LinSpace")
def linspace(ctx, inputs, attrs):
    start, stop = (ctx.array(x, "an end").reshape(-1)[0] for x in inputs[:2])
    count = ctx.single(inputs[2], "the count")
    check_count("a range", [count])
    return Constant(np.linspace(start, stop, count).astype(start.dtype))
