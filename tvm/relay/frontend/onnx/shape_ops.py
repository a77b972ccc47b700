"""Converters of operators that move elements or use shapes: reshape, slice, concatenate, pad, expand, range."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from ...op.rules import broadcast_dims
from ..common import run_time
from . import declared
from .load import check_count, onnx_dtype
from .table import argument, axis_of, op
from .values import Choice

# A Squeeze without axes is converted for each combination of squeezed dynamic dimensions, up to this number of them.
MOST_DYNAMIC = 3


@op("Reshape")
def reshape_1(ctx, inputs, attrs):
    return relay.reshape(inputs[0], _new_sizes(attrs["shape"]))


def _new_sizes(sizes: list[int]) -> list[int]:
    """Check the sizes of a Reshape: values below -1 have a special meaning in Relay and must not be passed on."""
    if any(size < -1 for size in sizes):
        raise TVMError(f"the shape {sizes} contains {min(sizes)}; dimensions must be at least 0, or -1 once")
    return sizes


@op("Reshape", since=5)
def reshape(ctx, inputs, attrs):
    zero = bool(attrs.get("allowzero", 0))
    if ctx.is_run_time_value(inputs[1]):
        if declared.decides(ctx, inputs[0]):
            return declared.reshaped(ctx, inputs[0], "the shape")
        return run_time.reshaped(ctx, inputs[0], inputs[1], zero)
    wanted = _new_sizes(ctx.ints(inputs[1], "the shape"))
    if 0 in ctx.shape(inputs[0]):
        have = ctx.known_shape(inputs[0])
        wanted = [have[i] if d == 0 and not zero else d for i, d in enumerate(wanted)]
        rest = int(np.prod([d for d in wanted if d != -1]))
        wanted = [(0 if not rest else int(np.prod(have)) // rest) if d == -1 else d for d in wanted]
        zero = True
    return relay.reshape(inputs[0], wanted, zero)


@op("Flatten")
def flatten(ctx, inputs, attrs):
    rank = ctx.rank(inputs[0])
    axis = attrs.get("axis", 1)
    axis = rank if axis == rank else axis_of(axis, rank)
    if axis == 1 and rank > 1:
        return relay.nn.batch_flatten(inputs[0])
    shape = ctx.shape(inputs[0])
    if all(isinstance(d, int) for d in shape):
        return relay.reshape(inputs[0], (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))), True)
    sides = [
        ctx.made(relay.prod(part, axis=0)) for part in _split_vector(run_time.shape_of(ctx, inputs[0]), axis, rank)
    ]
    return run_time.reshaped(ctx, inputs[0], run_time.joined(ctx, sides), True)


def _split_vector(vector, at: int, count: int) -> list:
    return [relay.strided_slice(vector, [low], [high], [1], [0]) for low, high in ((0, at), (at, count))]


@op("Transpose")
def transpose(ctx, inputs, attrs):
    return relay.transpose(inputs[0], attrs.get("perm")) if ctx.rank(inputs[0]) else inputs[0]


@op("Concat")
def concat(ctx, inputs, attrs):
    return inputs[0] if len(inputs) == 1 else relay.concatenate(inputs, attrs.get("axis", 1))


@op("Shape")
def shape(ctx, inputs, attrs):
    dims = ctx.shape(inputs[0])
    part = slice(attrs.get("start", 0), attrs.get("end", len(dims)))
    if all(isinstance(d, int) for d in dims[part]):
        return Constant(np.array(dims[part], "int64"))
    begin, end, _ = part.indices(len(dims))
    whole = relay.shape_of(inputs[0], "int64")
    return whole if (begin, end) == (0, len(dims)) else relay.strided_slice(whole, [begin], [end], [1], [0])


@op("Size")
def size(ctx, inputs, attrs):
    dims = ctx.shape(inputs[0])
    if all(isinstance(d, int) for d in dims):
        return const(int(np.prod(dims, dtype="int64")), "int64")
    return relay.ndarray_size(inputs[0], "int64")


def axes_of(ctx, inputs, attrs, since_input: int):
    """Return the axes, which are an attribute in early operator sets and an input since version ``since_input``."""
    if "axes" in attrs:
        return attrs["axes"]
    return ctx.ints(argument(inputs, 1), "the axes") if ctx.version >= since_input else None


def has_run_time_axes(ctx, inputs) -> bool:
    """Return whether the axes are known at run time."""
    return len(inputs) > 1 and inputs[1] is not None and ctx.value(inputs[1]) is None


@op("Squeeze")
def squeeze(ctx, inputs, attrs):
    if has_run_time_axes(ctx, inputs):
        if declared.decides(ctx, inputs[0]):
            return declared.reshaped(ctx, inputs[0], "the axes")
        ctx.length(inputs[1], "the axes")
        return relay.squeeze(inputs[0], run_time.vector(ctx, inputs[1]))
    axes = axes_of(ctx, inputs, attrs, 13)
    dims = ctx.shape(inputs[0])
    if axes is None:
        return _squeezed_ones(ctx, inputs[0])
    bad = [a for a in axes if isinstance(dims[a], int) and dims[a] != 1]
    if bad:
        raise TVMError(f"cannot squeeze axis {bad[0]} of size {dims[bad[0]]}; the size must be 1")
    return relay.squeeze(inputs[0], axes) if axes else inputs[0]


def _squeezed_ones(ctx, data):
    """Squeeze all axes of size 1. The sizes of dynamic axes determine the output rank at run time."""
    ones = [i for i, d in enumerate(ctx.shape(data)) if isinstance(d, int) and d == 1]
    data = ctx.made(relay.squeeze(data, ones)) if ones else data
    dynamic = [i for i, d in enumerate(ctx.shape(data)) if not isinstance(d, int)]
    if len(dynamic) > MOST_DYNAMIC:
        raise TVMError(f"without axes, {len(dynamic)} dynamic dimensions determine the rank of the output; at most "
                       f"{MOST_DYNAMIC} are supported: set the axes in the model, or fix the input shapes")  # fmt: skip
    return _by_sizes(ctx, data, dynamic, [])


def _by_sizes(ctx, data, dynamic: list[int], ones: list[int]):
    """Squeeze the axes in ``ones``, and each dynamic axis that has size 1 at run time."""
    if not dynamic:
        return ctx.made(relay.squeeze(data, ones)) if ones else data
    axis, rest = dynamic[0], dynamic[1:]
    is_one = ctx.made(relay.equal(run_time.size_of(ctx, data, axis), run_time.number(1)))
    return Choice(is_one, _by_sizes(ctx, data, rest, [*ones, axis]), _by_sizes(ctx, data, rest, ones))


@op("Unsqueeze")
def unsqueeze(ctx, inputs, attrs):
    if has_run_time_axes(ctx, inputs):
        if declared.decides(ctx, inputs[0]):
            return declared.reshaped(ctx, inputs[0], "the axes")
        return run_time.unsqueezed(ctx, inputs[0], inputs[1])
    axes = axes_of(ctx, inputs, attrs, 13)
    rank = ctx.rank(inputs[0]) + len(axes)
    out = inputs[0]
    for axis in sorted(axis_of(a, rank) for a in axes):
        out = relay.expand_dims(out, axis)
    return out


@op("Slice")
def slice_1(ctx, inputs, attrs):
    return _slice(ctx, inputs[0], attrs["starts"], attrs["ends"], attrs.get("axes"), None)


@op("Slice", since=10)
def slice_(ctx, inputs, attrs):
    data, starts, ends = inputs[:3]
    axes, steps = argument(inputs, 3), argument(inputs, 4)
    if ctx.is_run_time_value(starts, ends, axes, steps):
        if declared.decides(ctx, data):
            return declared.sliced(ctx, data, starts, axes, steps)
        return run_time.sliced(ctx, data, starts, ends, axes, steps)
    return _slice(
        ctx,
        data,
        ctx.ints(starts, "starts"),
        ctx.ints(ends, "ends"),
        ctx.ints(axes, "axes"),
        ctx.ints(steps, "steps"),
    )


def _slice(ctx, data, starts, ends, axes, steps):
    dims = ctx.shape(data)
    axes = list(range(len(starts))) if axes is None else [axis_of(a, len(dims)) for a in axes]
    steps = steps or [1] * len(starts)
    if any(not isinstance(dims[a], int) and step < 0 and s < -1 for s, a, step in zip(starts, axes, steps)):
        return run_time.sliced(ctx, data, *(run_time.number(v) for v in (starts, ends, axes, steps)))
    begin, end, stride, kept = [], [], [], []
    for s, e, axis, step in zip(starts, ends, axes, steps):
        size = dims[axis]
        if isinstance(size, int):
            # Clamp as NumPy does, except that a start before the first element is clamped to it for negative steps too.
            # An end of -1 - size then means "before the first element".
            s, e, _ = slice(max(s, -size), e, step).indices(size)
            if step > 0:
                e = max(e, s)
            elif e < 0:
                e = -size - 1
            if (s, e, step) == (0, size, 1):
                continue
        begin.append(s)
        end.append(e)
        stride.append(step)
        kept.append(axis)
    return relay.strided_slice(data, begin, end, stride, kept) if kept else data


@op("Split")
def split(ctx, inputs, attrs):
    data = inputs[0]
    axis = axis_of(attrs.get("axis", 0), ctx.rank(data))
    count = len(ctx.node.output)
    if "split" not in attrs and has_run_time_axes(ctx, inputs):
        if all(ctx.declared(i) is not None for i in range(count)):
            return split_sizes(data, [declared.shape_of_output(ctx, "the sizes", i)[axis] for i in range(count)], axis)
        if ctx.length(inputs[1], "the sizes") != count:
            raise TVMError(f"there are {ctx.length(inputs[1], 'the sizes')} sizes for {count} outputs")
        return run_time.split(ctx, data, inputs[1], axis, count)
    sizes = attrs.get("split") or (ctx.ints(argument(inputs, 1), "the sizes") if ctx.version >= 13 else None)
    if sizes is None:
        wanted = attrs.get("num_outputs", count)
        if wanted < 1 or wanted != count:
            raise TVMError(f"num_outputs is {wanted}, but the node has {count} outputs")
        total = ctx.shape(data)[axis]
        if not isinstance(total, int):
            return _equal_parts(ctx, data, axis, count)
        each = -(-total // count)
        sizes = [each] * (count - 1) + [total - each * (count - 1)]
    if len(sizes) == 1:
        return data
    return split_sizes(data, sizes, axis)


def _equal_parts(ctx, data, axis: int, count: int) -> list:
    """Split a dynamic axis into equal parts; the last part contains the remainder."""
    total = run_time.size_of(ctx, data, axis)
    each = relay.floor_divide(relay.add(total, run_time.number(count - 1)), run_time.number(count))
    last = relay.subtract(total, relay.multiply(each, run_time.number(count - 1)))
    sizes = run_time.joined(ctx, [ctx.made(s) for s in [each] * (count - 1) + [last]])
    return run_time.split(ctx, data, sizes, axis, count)


def split_sizes(data, sizes: list[int], axis: int) -> list:
    if len(set(sizes)) == 1 and sizes[0]:
        return list(relay.split(data, len(sizes), axis))
    ends = [int(e) for e in np.cumsum(sizes)]
    return [relay.strided_slice(data, [e - s], [e], [1], [axis]) for s, e in zip(sizes, ends)]


@op("Expand")
def expand(ctx, inputs, attrs):
    data, shape = inputs
    if ctx.is_run_time_value(shape) and declared.decides(ctx, data):
        return relay.broadcast_to(data, declared.shape_of_output(ctx, "the shape"))
    if ctx.is_run_time_value(shape) or not all(isinstance(d, int) for d in ctx.shape(data)):
        return run_time.expanded(ctx, data, shape)
    return relay.broadcast_to(data, broadcast_dims(ctx.shape(data), tuple(ctx.ints(shape, "the shape"))))


@op("Tile")
def tile_1(ctx, inputs, attrs):
    reps = [1] * ctx.rank(inputs[0])
    reps[ctx.ints(inputs[2], "the axis")[0]] = ctx.ints(inputs[1], "the count")[0]
    return relay.tile(inputs[0], reps)


@op("Tile", since=6)
def tile(ctx, inputs, attrs):
    if ctx.is_run_time_value(inputs[1]):
        if declared.decides(ctx, inputs[0]):
            return relay.tile(inputs[0], declared.repeats(ctx, inputs[0]))
        return run_time.tiled(ctx, inputs[0], inputs[1])
    return relay.tile(inputs[0], ctx.ints(inputs[1], "the repeats"))


@op("ConstantOfShape")
def constant_of_shape(ctx, inputs, attrs):
    value = ctx.tensor(attrs["value"]).reshape(-1) if "value" in attrs else np.zeros(1, "float32")
    late = ctx.is_run_time_value(inputs[0])
    if late and ctx.declared() is None:
        return run_time.filled(ctx, const(value[0], str(value.dtype)), inputs[0])
    dims = list(declared.shape_of_output(ctx, "the shape")) if late else ctx.ints(inputs[0], "the shape")
    if min(dims, default=0) < 0:
        raise TVMError(f"the shape {dims} has a negative dimension")
    if math.prod(dims) <= 1 << 16:
        return Constant(np.full(dims, value[0], value.dtype))
    return relay.full(const(value[0], str(value.dtype)), dims, str(value.dtype))


@op("Range")
def range_(ctx, inputs, attrs):
    if ctx.is_run_time_value(*inputs[:3]):
        if ctx.declared() is None:
            return run_time.ranged(ctx, *inputs[:3])
        return declared.counted(ctx, inputs[0], inputs[2])
    start, limit, delta = (ctx.array(i, "the range").reshape(-1)[0] for i in inputs[:3])
    if delta == 0:
        raise TVMError("delta must not be 0")
    with np.errstate(all="ignore"):
        count = np.ceil((float(limit) - float(start)) / float(delta))
    if not np.isfinite(count):
        raise TVMError(f"cannot count from {start} to {limit} in steps of {delta}")
    count = max(int(count), 0)
    check_count("the range", [count])
    return Constant((start + np.arange(count) * delta).astype(start.dtype))


@op("EyeLike")
def eye_like(ctx, inputs, attrs):
    dtype = onnx_dtype(attrs["dtype"]) if "dtype" in attrs else ctx.dtype(inputs[0])
    if not all(isinstance(d, int) for d in ctx.shape(inputs[0])):
        return relay.cast(relay.equal(_diagonal_offset(ctx, inputs[0]), const(attrs.get("k", 0), "int64")), dtype)
    rows, columns = ctx.known_shape(inputs[0])
    check_count("the matrix", [rows, columns])
    return relay.cast(const(np.eye(rows, columns, attrs.get("k", 0), "float32")), dtype)


def _diagonal_offset(ctx, data):
    """Return the column index minus the row index of each element of a matrix."""
    rows, columns = (run_time.counted(ctx, run_time.size_of(ctx, data, axis)) for axis in (-2, -1))
    return relay.subtract(relay.expand_dims(columns, 0), relay.expand_dims(rows, 1))


def _block(attrs) -> int:
    if attrs["blocksize"] < 1:
        raise TVMError(f"blocksize must be positive, got {attrs['blocksize']}")
    return attrs["blocksize"]


@op("DepthToSpace")
def depth_to_space(ctx, inputs, attrs):
    b = _block(attrs)
    if not all(isinstance(d, int) for d in ctx.shape(inputs[0])) and ctx.rank(inputs[0]) == 4:
        return relay.nn.depth_to_space(inputs[0], b, "NCHW", attrs.get("mode", "DCR"))
    n, c, *space = ctx.known_shape(inputs[0])
    k = len(space)
    cells = [b] * k
    inner = c // b**k
    if attrs.get("mode", "DCR") == "DCR":
        out = relay.reshape(inputs[0], (n, *cells, inner, *space))
        order = [0, k + 1] + [a for i in range(k) for a in (k + 2 + i, 1 + i)]
    else:
        out = relay.reshape(inputs[0], (n, inner, *cells, *space))
        order = [0, 1] + [a for i in range(k) for a in (k + 2 + i, 2 + i)]
    return relay.reshape(relay.transpose(out, order), (n, inner, *(s * b for s in space)))


@op("SpaceToDepth")
def space_to_depth(ctx, inputs, attrs):
    b, is_plain = _block(attrs), attrs.get("mode", "DCR") == "DCR"
    if not all(isinstance(d, int) for d in ctx.shape(inputs[0])) and ctx.rank(inputs[0]) == 4 and is_plain:
        return relay.nn.space_to_depth(inputs[0], b, "NCHW")
    n, c, *space = ctx.known_shape(inputs[0])
    k = len(space)
    parts = [d for s in space for d in (s // b, b)]
    out = relay.reshape(inputs[0], (n, c, *parts))
    cells, places = [3 + 2 * i for i in range(k)], [2 + 2 * i for i in range(k)]
    order = [0, 1, *cells, *places] if attrs.get("mode", "DCR") == "CRD" else [0, *cells, 1, *places]
    return relay.reshape(relay.transpose(out, order), (n, c * b**k, *(s // b for s in space)))


@op("ReverseSequence")
def reverse_sequence(ctx, inputs, attrs):
    return relay.reverse_sequence(
        inputs[0], relay.cast(inputs[1], "int32"), attrs.get("time_axis", 0), attrs.get("batch_axis", 1)
    )


@op("Trilu")
def trilu(ctx, inputs, attrs):
    """Return the upper or lower triangle. The diagonal can be an input, so element positions are compared at
    run time.
    """
    data, k = inputs[0], argument(inputs, 1)
    if ctx.rank(data) < 2:
        raise TVMError("the input must have at least 2 dimensions")
    rows, columns = ctx.shape(data)[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        check_count("the triangle", [rows, columns])
        apart = const(np.arange(columns, dtype="int64")[None, :] - np.arange(rows, dtype="int64")[:, None])
    else:
        apart = _diagonal_offset(ctx, data)
    k = const(0, "int64") if k is None else relay.cast(relay.reshape(k, ()) if ctx.rank(k) else k, "int64")
    keep = relay.greater_equal(apart, k) if attrs.get("upper", 1) else relay.less_equal(apart, k)
    return relay.where(keep, data, relay.zeros_like(data))


@op("CenterCropPad")
def center_crop_pad(ctx, inputs, attrs):
    data = inputs[0]
    shape = ctx.shape(data)
    axes = [axis_of(a, len(shape)) for a in attrs.get("axes", range(len(shape)))]
    known = all(isinstance(d, int) for d in shape)
    if not known or ctx.is_run_time_value(inputs[1]) and not declared.decides(ctx, data):
        return _dynamic_center(ctx, data, run_time.vector(ctx, inputs[1]), axes)
    if ctx.value(inputs[1]) is None:
        wanted = [declared.shape_of_output(ctx, "the shape")[a] for a in axes]
    else:
        wanted = ctx.ints(inputs[1], "the shape")
    begin, end, pads = [0] * len(shape), list(shape), [(0, 0)] * len(shape)
    for axis, size in zip(axes, wanted):
        have = shape[axis]
        if size < have:
            begin[axis] = (have - size) // 2
            end[axis] = begin[axis] + size
        elif size > have:
            low = (size - have) // 2
            pads[axis] = (low, size - have - low)
    out = relay.strided_slice(data, begin, end, [1] * len(shape), list(range(len(shape))))
    return relay.nn.pad(out, pads, ctx.like(0, data))


def _dynamic_center(ctx, data, wanted, axes: list[int]):
    """Crop or pad the data to a run-time shape, with the data in the center."""
    if ctx.length(wanted, "the shape") != len(axes):
        raise TVMError(f"there are {ctx.length(wanted, 'the shape')} sizes for {len(axes)} axes")
    zero, two = run_time.number(0), run_time.number(2)
    have = run_time.joined(ctx, [run_time.size_of(ctx, data, a) for a in axes])
    more = relay.subtract(wanted, have)
    cut = relay.maximum(relay.subtract(zero, more), zero)
    begin = relay.floor_divide(cut, two)
    end = relay.subtract(have, relay.subtract(cut, begin))
    out = relay.strided_slice(data, ctx.made(begin), ctx.made(end), run_time.number([1] * len(axes)), axes)
    added = relay.maximum(more, zero)
    low = relay.floor_divide(added, two)
    amounts = run_time.joined(ctx, [ctx.made(low), ctx.made(relay.subtract(added, low))])
    shown = run_time.sharpened(ctx, out, [None if i in axes else d for i, d in enumerate(ctx.shape(data))])
    return run_time.padded(ctx, shown, amounts, run_time.number(axes), ctx.like(0, data), "constant")


# -- padding ----------------------------------------------------------------------------------------------------------


@op("Pad")
def pad_2(ctx, inputs, attrs):
    amounts = attrs.get("pads", attrs.get("paddings"))
    return padded(
        ctx, inputs[0], amounts, const(attrs.get("value", 0.0), ctx.dtype(inputs[0])), attrs.get("mode", "constant")
    )


@op("Pad", since=11)
def pad(ctx, inputs, attrs):
    data, value, axes = inputs[0], argument(inputs, 2), argument(inputs, 3)
    mode = attrs.get("mode", "constant")
    if value is None:
        value = ctx.like(0, data)
    elif ctx.rank(value):
        value = relay.reshape(value, ())
    if ctx.is_run_time_value(inputs[1], axes):
        if declared.decides(ctx, data):
            return declared.padded(ctx, data, inputs[1], axes, value, mode)
        return run_time.padded(ctx, data, inputs[1], axes, value, mode)
    amounts = ctx.ints(inputs[1], "the padding")
    rank = ctx.rank(data)
    if axes is not None:
        chosen = ctx.ints(axes, "the axes")
        full = [0] * 2 * rank
        for i, axis in enumerate(axis_of(a, rank) for a in chosen):
            full[axis], full[axis + rank] = amounts[i], amounts[i + len(chosen)]
        amounts = full
    return padded(ctx, data, amounts, value, mode)


def padded(ctx, data, amounts: list[int], value, mode: str):
    """Pad or, for negative amounts, crop. The modes other than constant gather by index, so amounts can exceed the
    size.
    """
    n = len(amounts) // 2
    before, after = amounts[:n], amounts[n:]
    shape = ctx.shape(data)
    left = [d + min(b, 0) + min(a, 0) if isinstance(d, int) else None for d, b, a in zip(shape, before, after)]
    for axis, (size, rest, b, a) in enumerate(zip(shape, left, before, after)):
        if rest is not None and (size + b + a < 0 or mode != "constant" and rest < 1 and (b or a)):
            raise TVMError(f"negative pads remove {size - rest} elements of axis {axis}, which has only {size}")
    if mode == "constant":
        if any(min(b, a) < 0 if rest is None else rest < 0 for rest, b, a in zip(left, before, after)):
            # The crop can exceed the data; the output then contains only the padding value.
            return relay.nn.pad(data, list(zip(before, after)), value)
        if min(amounts, default=0) < 0:
            data = relay.strided_slice(
                data,
                [max(-b, 0) for b in before],
                [d - max(-a, 0) if isinstance(d, int) else run_time.FAR for d, a in zip(shape, after)],
                [1] * n,
                list(range(n)),
            )
        return relay.nn.pad(data, [(max(b, 0), max(a, 0)) for b, a in zip(before, after)], value)
    if not all(isinstance(d, int) for d in shape):
        return run_time.padded(ctx, data, run_time.number(amounts), None, value, mode)
    if (
        mode in ("reflect", "edge")
        and min(amounts) >= 0
        and all(max(b, a) < d for b, a, d in zip(before, after, ctx.known_shape(data)))
    ):
        return relay.nn.pad(data, list(zip(before, after)), value, mode)
    modes = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    if mode not in modes:
        raise TVMError(f"padding mode '{mode}' is not supported")
    for axis, size in enumerate(ctx.known_shape(data)):
        b, a = before[axis], after[axis]
        if b or a:
            check_count("a padded axis", [size + max(b, 0) + max(a, 0)])
            places = np.arange(size, dtype="int64")[max(-b, 0) : size - max(-a, 0)]
            places = np.pad(places, (max(b, 0), max(a, 0)), modes[mode])
            data = relay.take(data, const(places), axis)
    return data
