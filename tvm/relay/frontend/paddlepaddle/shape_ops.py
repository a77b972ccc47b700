"""Converters of operators that reshape, transpose, concatenate, split or tile tensors."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common import run_time
from .elementwise import unary
from .table import Context, axis_of, check_count, check_steps, op


def is_known(ctx: Context, e: RelayExpr) -> bool:
    """Return whether all dimensions are static."""
    return all(isinstance(d, int) for d in ctx.shape(e))


@op("reshape2", "reshape")
def reshape(ctx):
    x, shape = ctx.get("X"), ctx.vector("shape", "Shape", "ShapeTensor")
    known = ctx.value(shape)
    if known is None or not is_known(ctx, x):
        return run_time.reshaped(ctx, x, shape)
    wanted = [int(v) for v in known]
    if any(d < -1 for d in wanted) or wanted.count(-1) > 1:
        raise TVMError(f"the new shape {wanted} is not valid")
    have = ctx.known_shape(x)
    if any(d == 0 and i >= len(have) for i, d in enumerate(wanted)):
        raise TVMError(f"the new shape {wanted} copies a dimension that the input shape {list(have)} does not have")
    wanted = [have[i] if d == 0 else d for i, d in enumerate(wanted)]
    return relay.reshape(x, wanted, True)


@op("transpose2", "transpose")
def transpose(ctx):
    x = ctx.get("X")
    rank = ctx.rank(x)
    axes = [axis_of(a, rank) for a in ctx.attr("axis", [])]
    if sorted(axes) != list(range(rank)):
        raise TVMError(f"{axes} is not a permutation of {rank} axes")
    return relay.transpose(x, axes) if rank else x


def merged(ctx: Context, x: RelayExpr, first: int, last: int) -> RelayExpr:
    """Merge the axes from ``first`` to ``last`` (inclusive)."""
    if is_known(ctx, x):
        shape = ctx.known_shape(x)
        return relay.reshape(x, [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]], True)
    for k in range(last - first):
        rest = last - k + 1 < ctx.rank(x) or last - k > first + 1
        x = ctx.made(relay.reshape(x, [*[0] * first, -3, *([-2] if rest else [])]))
    return x


@op("flatten_contiguous_range")
def flatten_contiguous_range(ctx):
    x = ctx.get("X")
    rank = ctx.rank(x)
    if not rank:
        return relay.reshape(x, (1,))
    first, last = axis_of(ctx.attr("start_axis", 1), rank), axis_of(ctx.attr("stop_axis", -1), rank)
    if first > last:
        raise TVMError(f"start_axis {first} is after stop_axis {last}")
    return merged(ctx, x, first, last)


@op("flatten2", "flatten")
def flatten(ctx):
    """Flatten to a matrix at an axis."""
    x, axis = ctx.get("X"), ctx.attr("axis", 1)
    return matrix(ctx, x, axis)


def matrix(ctx: Context, x: RelayExpr, axis: int) -> RelayExpr:
    """Reshape to a matrix: the axes before ``axis`` become rows, the others columns."""
    rank = ctx.rank(x)
    if not 0 <= axis <= rank:
        raise TVMError(f"axis {axis} is out of range for a tensor of {rank} dimensions")
    if is_known(ctx, x):
        shape = ctx.known_shape(x)
        return relay.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])), True)
    if axis == 0:
        return relay.reshape(x, (1, -1))
    if axis == rank:
        return relay.reshape(x, (-1, 1))
    return ctx.made(merged(ctx, ctx.made(merged(ctx, x, axis, rank - 1)), 0, axis - 1))


@op("squeeze2", "squeeze")
def squeeze(ctx):
    x, given = ctx.get("X"), ctx.attr("axes", [])
    shape = ctx.shape(x)
    if not given and not is_known(ctx, x):
        raise TVMError("squeeze without axes needs static dimensions; pass static input shapes for the model")
    axes = {axis_of(a, len(shape)) for a in given} if given and shape else set(range(len(shape)))
    # Axes of other sizes are kept.
    gone = sorted(a for a in axes if not isinstance(shape[a], int) or shape[a] == 1)
    return relay.squeeze(x, gone) if gone else x


@op("unsqueeze2", "unsqueeze")
def unsqueeze(ctx):
    x = ctx.get("X")
    axes = ctx.ints(ctx.vector("axes", "AxesTensor", "AxesTensorList"), "the axes")
    check_steps("a list of axes", len(axes))
    rank = ctx.rank(x)
    for axis in axes:
        x = relay.expand_dims(x, axis_of(axis, rank + 1))
        rank += 1
    return x


# -- concatenation and splitting --------------------------------------------------------------------------------------


@op("concat")
def concat(ctx):
    parts = ctx.tensors("X")
    axis = axis_of(ctx.number("axis", "AxisTensor"), max(ctx.rank(parts[0]), 1))
    parts = [p if ctx.rank(p) else relay.reshape(p, (1,)) for p in parts]
    return relay.concatenate(parts, axis) if len(parts) > 1 else parts[0]


@op("stack")
def stack(ctx):
    parts = ctx.tensors("X")
    return {"Y": relay.stack(parts, axis_of(ctx.attr("axis", 0), ctx.rank(parts[0]) + 1))}


def _unstack(ctx: Context, x: RelayExpr, axis: int, count: int) -> list[RelayExpr]:
    check_steps("a stack", count)
    return [relay.take(x, const(i, "int64"), axis) for i in range(count)]


@op("unstack")
def unstack(ctx):
    x = ctx.get("X")
    axis = ctx.axis("axis", x, 0)
    size = ctx.shape(x)[axis]
    count = size if isinstance(size, int) else ctx.attr("num", 0)
    return {"Y": _unstack(ctx, x, axis, count)}


@op("unbind")
def unbind(ctx):
    x = ctx.get("X")
    axis = ctx.axis("axis", x, 0)
    return {"Out": _unstack(ctx, x, axis, ctx.known_size(x, axis))}


@op("split")
def split(ctx):
    x = ctx.get("X")
    axis, outs = axis_of(ctx.number("axis", "AxisTensor"), ctx.rank(x)), len(ctx.operator.outputs.get("Out", ()))
    sizes, many = ctx.vector("sections", "", "SectionsTensorList"), ctx.attr("num", 0)
    check_steps("a split", max(many, outs))
    if not ctx.length(sizes, "the sizes"):
        size = ctx.shape(x)[axis]
        if not isinstance(size, int) or many < 1 or size % many:
            raise TVMError(f"{size} elements cannot be split into {many} equal parts")
        return {"Out": list(relay.split(x, many, axis)) if many > 1 else [x]}
    if ctx.is_run_time_value(sizes):
        return {"Out": run_time.split(ctx, x, sizes, axis, outs)}
    parts = ctx.ints(sizes, "the sizes") or []
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = ctx.known_size(x, axis) - sum(parts) - 1
    size = ctx.shape(x)[axis]
    if any(s < 0 for s in parts) or isinstance(size, int) and sum(parts) != size:
        raise TVMError(f"parts of sizes {parts} do not add up to {size}")
    ends = np.cumsum(parts)
    return {"Out": [relay.strided_slice(x, [int(e - s)], [int(e)], [1], [axis]) for s, e in zip(parts, ends)]}


# -- repetition -------------------------------------------------------------------------------------------------------


@op("expand_v2")
def expand_v2(ctx):
    return expanded(ctx, ctx.get("X"), ctx.vector("shape", "Shape", "expand_shapes_tensor"))


def expanded(ctx: Context, x: RelayExpr, shape: RelayExpr) -> RelayExpr:
    """Broadcast to a shape, in which -1 copies a dimension."""
    known = ctx.value(shape)
    if known is not None:
        wanted = [int(v) for v in known]
        if len(wanted) < ctx.rank(x) or any(d < -1 for d in wanted):
            raise TVMError(f"a tensor of {ctx.rank(x)} dimensions cannot be expanded to {wanted}")
        check_count("an expanded tensor", [max(d, 1) for d in wanted])
        return run_time.expanded(ctx, x, run_time.number([1 if d == -1 else d for d in wanted]))
    kept = relay.where(relay.equal(shape, run_time.number(-1)), run_time.number(1), shape)
    return run_time.expanded(ctx, x, ctx.made(kept))


@op("expand_as_v2")
def expand_as_v2(ctx):
    y = ctx.maybe("Y")
    return expanded(ctx, ctx.get("X"), ctx.vector("target_shape") if y is None else run_time.shape_of(ctx, y))


@op("expand_as")
def expand_as(ctx):
    """Repeat each dimension up to the size of the other tensor."""
    x, y = ctx.get("X"), ctx.get("target_tensor")
    times = [b // max(a, 1) for a, b in zip(ctx.known_shape(x), ctx.known_shape(y))]
    return relay.tile(x, times)


def _tiled(ctx: Context, x: RelayExpr, times: RelayExpr) -> RelayExpr:
    count, rank = ctx.length(times, "the repetitions"), ctx.rank(x)
    x = ctx.made(relay.expand_dims(x, 0, count - rank)) if count > rank else x
    if count < rank:
        times = run_time.joined(ctx, [run_time.number([1] * (rank - count)), times])
    if ctx.is_run_time_value(times) or not is_known(ctx, x):
        return run_time.tiled(ctx, x, times)
    repeats = ctx.ints(times, "the repetitions") or []
    if any(r < 0 for r in repeats):
        raise TVMError(f"repetitions {repeats} must not be negative")
    return relay.tile(x, repeats) if repeats else x


@op("tile")
def tile(ctx):
    return _tiled(ctx, ctx.get("X"), ctx.vector("repeat_times", "RepeatTimes", "repeat_times_tensor"))


@op("expand")
def expand(ctx):
    return _tiled(ctx, ctx.get("X"), ctx.vector("expand_times", "ExpandTimes", "expand_times_tensor"))


@op("repeat_interleave")
def repeat_interleave(ctx):
    x = ctx.get("X")
    times, axis = ctx.attr("Repeats", 0), ctx.axis("dim", x, 0)
    if times < 1:
        raise TVMError(f"Repeats {times} must be positive")
    return relay.repeat(x, times, axis)


@op("broadcast_tensors")
def broadcast_tensors(ctx):
    parts = ctx.tensors("X")
    shape = np.broadcast_shapes(*(ctx.known_shape(p) for p in parts))
    return {"Out": [relay.broadcast_to(p, shape) for p in parts]}


# -- flip and roll ----------------------------------------------------------------------------------------------------


@unary("flip", "reverse")
def flip(ctx, x):
    for axis in ctx.attr("axis", []):
        x = relay.reverse(x, axis_of(axis, ctx.rank(x)))
    return x


@unary("roll")
def roll(ctx, x):
    shifts = ctx.ints(ctx.vector("shifts", "ShiftsTensor"), "the shifts") or []
    axes = ctx.attr("axis", [])
    if not axes:
        shape = ctx.known_shape(x)
        return relay.reshape(_rolled(ctx, ctx.made(relay.reshape(x, (-1,))), shifts[:1], [0]), shape)
    if len(axes) != len(shifts):
        raise TVMError(f"{len(shifts)} shifts do not match {len(axes)} axes")
    return _rolled(ctx, x, shifts, axes)


def _rolled(ctx: Context, x: RelayExpr, shifts: list[int], axes: list[int]) -> RelayExpr:
    for shift, axis in zip(shifts, axes):
        axis = axis_of(axis, ctx.rank(x))
        size = ctx.shape(x)[axis]
        shift = shift % max(size, 1) if isinstance(size, int) else shift
        if not shift:
            continue
        # Move the last elements to the front.
        ends = [([-shift], [run_time.FAR]), ([0], [-shift])]
        parts = [relay.strided_slice(x, b, e, [1], [axis]) for b, e in ends]
        x = ctx.made(relay.concatenate(parts, axis))
    return x


@unary("tril_triu")
def tril_triu(ctx, x):
    return relay.trilu(x, const(ctx.attr("diagonal", 0), "int32"), not ctx.attr("lower", False))


@op("meshgrid")
def meshgrid(ctx):
    parts = [p if ctx.rank(p) else relay.reshape(p, (1,)) for p in ctx.tensors("X")]
    sizes = [run_time.size_of(ctx, ctx.made(p), 0) for p in parts]
    shape, rank = run_time.joined(ctx, sizes), len(parts)
    return {"Out": [run_time.expanded(ctx, run_time.along(ctx, p, i, rank), shape) for i, p in enumerate(parts)]}


# -- layouts and blocks -----------------------------------------------------------------------------------------------


def channels_last(ctx: Context, name: str = "data_format") -> bool:
    layout = ctx.attr(name, "NCHW")
    if layout in ("NCHW", "NCDHW", "NCL", "NCW", "AnyLayout", "NC"):
        return False
    if layout in ("NHWC", "NDHWC", "NLC", "NWC"):
        return True
    raise TVMError(f"the attribute '{name}' has the unknown layout {layout!r}")


def first_of(ctx: Context, x: RelayExpr, last: bool) -> RelayExpr:
    """Move the channels from the last axis to axis 1 if ``last`` is set."""
    rank = ctx.rank(x)
    return ctx.made(relay.transpose(x, [0, rank - 1, *range(1, rank - 1)])) if last else x


def last_of(ctx: Context, x: RelayExpr, last: bool) -> RelayExpr:
    """Move the channels from axis 1 to the last axis if ``last`` is set."""
    rank = ctx.rank(ctx.made(x)) if last else 0
    return relay.transpose(x, [0, *range(2, rank), 1]) if last else x


def _factor(ctx: Context, name: str) -> int:
    found = ctx.attr(name, 1)
    if found < 1:
        raise TVMError(f"the attribute '{name}' must be positive, got {found}")
    return found


@unary("pixel_shuffle")
def pixel_shuffle(ctx, x):
    last, factor = channels_last(ctx), _factor(ctx, "upscale_factor")
    data = first_of(ctx, x, last)
    if ctx.known_size(data, 1) % (factor * factor):
        raise TVMError(f"{ctx.known_size(data, 1)} channels are not divisible by {factor} x {factor}")
    return last_of(ctx, relay.nn.depth_to_space(data, factor, "NCHW", "CRD"), last)


@unary("pixel_unshuffle")
def pixel_unshuffle(ctx, x):
    last, factor = channels_last(ctx), _factor(ctx, "downscale_factor")
    data = first_of(ctx, x, last)
    n, c, h, w = ctx.known_shape(data)
    parts = relay.reshape(data, (n, c, h // factor, factor, w // factor, factor))
    out = relay.reshape(relay.transpose(parts, (0, 1, 3, 5, 2, 4)), (n, c * factor * factor, h // factor, w // factor))
    return last_of(ctx, out, last)


@unary("shuffle_channel")
def shuffle_channel(ctx, x):
    return _shuffled(ctx, x, _factor(ctx, "group"))


@unary("channel_shuffle")
def channel_shuffle(ctx, x):
    last = channels_last(ctx)
    return last_of(ctx, _shuffled(ctx, first_of(ctx, x, last), _factor(ctx, "groups")), last)


def _shuffled(ctx: Context, x: RelayExpr, groups: int) -> RelayExpr:
    size = ctx.known_size(x, 1)
    if size % groups:
        raise TVMError(f"{size} channels are not divisible into {groups} groups")
    places = np.arange(size).reshape(groups, -1).T.reshape(-1)
    return relay.take(x, const(places.astype("int64")), 1)


@unary("temporal_shift")
def temporal_shift(ctx, x):
    """Shift some channels of each frame from the previous frame, and as many from the next one."""
    last, steps = channels_last(ctx), _factor(ctx, "seg_num")
    data = first_of(ctx, x, last)
    n, c, h, w = ctx.known_shape(data)
    first = int(c * ctx.attr("shift_ratio", 0.25))
    second = int(c * 2 * ctx.attr("shift_ratio", 0.25))
    clips = relay.reshape(data, (n // steps, steps, c, h, w))
    wide = relay.nn.pad(clips, [(0, 0), (1, 1), (0, 0), (0, 0), (0, 0)], ctx.like(0, x))
    rows = ((0, 0, first), (2, first, second), (1, second, c))
    parts = [relay.strided_slice(wide, [t, a], [t + steps, b], [1, 1], [1, 2]) for t, a, b in rows if a < b]
    out = relay.concatenate(parts, 2) if len(parts) > 1 else parts[0]
    return last_of(ctx, relay.reshape(out, (n, c, h, w)), last)


@op("unfold")
def unfold(ctx):
    """Return windows as columns. Each window element is a slice of the padded image."""
    x = ctx.get("X")
    kernel, strides, dilations = (ctx.attr(n, [1, 1]) for n in ("kernel_sizes", "strides", "dilations"))
    pads = ctx.attr("paddings", [0, 0, 0, 0])
    pads = pads * 2 if len(pads) == 2 else pads
    if any(len(v) != 2 or min(v) < 1 for v in (kernel, strides, dilations)) or len(pads) != 4 or min(pads) < 0:
        raise TVMError(
            f"windows of {kernel} with strides {strides}, dilations {dilations} and paddings {pads} are not supported"
        )
    check_steps("a window", math.prod(kernel))
    n, c, h, w = ctx.known_shape(x)
    x = relay.nn.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], ctx.like(0, x))
    sizes = [h + pads[0] + pads[2], w + pads[1] + pads[3]]
    counts = [(s - (k - 1) * d - 1) // t + 1 for s, k, d, t in zip(sizes, kernel, dilations, strides)]
    if min(counts) < 1:
        raise TVMError(f"a window of {kernel} is larger than the padded image of {sizes}")
    parts = []
    for at in np.ndindex(*kernel):
        begin = [i * d for i, d in zip(at, dilations)]
        end = [b + (k - 1) * t + 1 for b, k, t in zip(begin, counts, strides)]
        part = relay.strided_slice(x, begin, end, strides, [2, 3])
        parts.append(relay.reshape(part, (n, c, 1, math.prod(counts))))
    columns = relay.concatenate(parts, 2) if len(parts) > 1 else parts[0]
    return {"Y": relay.reshape(columns, (n, c * len(parts), math.prod(counts)))}


__all__ = ["channels_last", "expanded", "first_of", "is_known", "last_of", "matrix", "merged"]
