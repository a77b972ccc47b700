"""Converters of operators that change the shape or the order of elements."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .load import FREE, INFERRED
from .table import Axis, Context, Tensor, check_count, is_sequence, op


def _index(axis: Axis | None, rank: int, default: int) -> int:
    """Return the index of an axis in CNTK's order; special axis numbers are the end."""
    if axis is None:
        return default
    index = axis.index if axis.index < 1 << 30 else rank
    index = index + rank if index < 0 else index
    if not 0 <= index <= rank:
        raise TVMError(f"axis {axis.index} is out of range for a sample of {rank} dimensions")
    return index


@op("Reshape")
def reshape(ctx: Context, inputs, attrs):
    """Replace a range of axes by ``newShape``, of which one dimension may be inferred."""
    x = inputs[0]
    own = list(ctx.sizes(x))[::-1]
    begin, end = (_index(attrs.get(n), len(own), d) for n, d in (("beginAxis", 0), ("endAxis", len(own))))
    if begin > end:
        raise TVMError(f"Reshape: beginAxis {begin} is after endAxis {end}")
    wanted = [-1 if d in (INFERRED, FREE) else int(d) for d in attrs.get("newShape") or ()]
    count = math.prod(own[begin:end])
    # Early files mark an inferred dimension by 0.
    open_at = [i for i, d in enumerate(wanted) if d in (-1, 0)]
    if len(open_at) == 1:
        rest = math.prod(d for d in wanted if d not in (-1, 0))
        wanted[open_at[0]] = count // rest if rest else 0
    if len(open_at) > 1 or math.prod(wanted) != count:
        raise TVMError(f"samples of shape {own[begin:end]} cannot be reshaped to {wanted}")
    return ctx.reshaped(x, [*own[:begin], *wanted, *own[end:]][::-1])


@op("Squeeze")
def squeeze(ctx: Context, inputs, attrs):
    x = inputs[0]
    sizes = ctx.sizes(x)
    axes = attrs.get("axisVec")
    if axes:
        chosen = {ctx.axis(x, a) - x.lead for a in axes}
        if any(sizes[i] != 1 for i in chosen):
            raise TVMError(f"Squeeze: axes of samples of shape {sizes[::-1]} are not all of size 1")
    else:
        chosen = {i for i, d in enumerate(sizes) if d == 1}
    return ctx.reshaped(x, [d for i, d in enumerate(sizes) if i not in chosen])


@op("TransposeAxes")
def transpose(ctx: Context, inputs, attrs):
    x = inputs[0]
    rank, lead = ctx.rank_of(x), x.lead
    if "axisVec" in attrs:
        own = [ctx.axis(x, a) for a in attrs["axisVec"]]
        if sorted(own) != list(range(lead, lead + rank)):
            raise TVMError(f"the axes {own} are not a permutation of {rank} dimensions")
        order = own[::-1]
    else:
        # An axis after the last one has size 1.
        pair = [attrs["axis1"], attrs["axis2"]]
        if any(a.name for a in pair):
            raise TVMError("the batch and sequence axes cannot be transposed")
        need = max((a.index + 1 for a in pair if a.index >= 0), default=0)
        if need > rank:
            x = ctx.reshaped(x, [*[1] * (need - rank), *ctx.sizes(x)])
            rank = need
        a, b = (ctx.axis(x, p) for p in pair)
        order = list(range(lead, lead + rank))
        order[a - lead], order[b - lead] = order[b - lead], order[a - lead]
    return Tensor(relay.transpose(x.expr, (*range(lead), *order)), lead)


def _listed(attrs, one: str, many: str, default=None) -> list:
    found = attrs.get(many)
    if found is None:
        found = attrs.get(one, default)
        found = [] if found is None else found
    return found if isinstance(found, list) else [found]


@op("Slice")
def slice_(ctx: Context, inputs, attrs):
    """Slice. Negative bounds count from the end of the axis; an end of 0 is the end of the axis."""
    x = inputs[0]
    axes, begins, ends = (_listed(attrs, n, f"{n}Vec") for n in ("axis", "beginIndex", "endIndex"))
    steps = _listed(attrs, "sliceStrides", "sliceStridesVec") or [1] * len(axes)
    if not len(axes) == len(begins) == len(ends) == len(steps):
        raise TVMError(f"{len(axes)} axes, {len(begins)} begins and {len(ends)} ends do not match")
    e, lead = x
    for axis, begin, end, step in zip(axes, begins, ends, steps):
        if axis.name and not is_sequence(axis):
            raise TVMError("a slice of the batch axis is not supported")
        at = 1 if axis.name else ctx.axis(Tensor(e, lead), axis)
        if axis.name and lead != 2:
            raise TVMError("a slice of the sequence axis, but the input has no sequence")
        size = ctx.known_size(e, at)
        low, high = (v + size if v < 0 else v for v in (begin, end))
        high = size if end == 0 else high
        if not 0 <= low < high <= size or step == 0:
            raise TVMError(f"a slice from {begin} to {end} of {size} elements is not supported")
        if step < 0:
            e = ctx.made(relay.reverse(relay.strided_slice(e, [low], [high], [1], [at]), at))
            e = ctx.made(relay.strided_slice(e, [0], [high - low], [-step], [at]))
        else:
            e = ctx.made(relay.strided_slice(e, [low], [high], [step], [at]))
    return Tensor(e, lead)


@op("Splice")
def splice(ctx: Context, inputs, attrs):
    """Concatenate along an axis, which may be new."""
    axis = attrs["axis"]
    if axis.name:
        raise TVMError("concatenation along the batch or sequence axis is not supported")
    rank = max(ctx.rank_of(t) for t in inputs)
    index = axis.index + rank if axis.index < 0 else axis.index
    rank = max(rank, index + 1)
    lead = max(t.lead for t in inputs)
    if not 0 <= index < rank <= 16:
        raise TVMError(f"axis {axis.index} is out of range")
    at = lead + rank - 1 - index
    parts = [ctx.reshaped(t, [*[1] * (rank - ctx.rank_of(t)), *ctx.sizes(t)]) for t in inputs]
    whole = next(t for t in parts if t.lead == lead)
    shape = list(ctx.shape(whole.expr))
    # The other dimensions broadcast.
    for t in parts:
        for i, d in enumerate(ctx.sizes(t)):
            shape[lead + i] = max(shape[lead + i], d) if lead + i != at else shape[lead + i]
    out = []
    for t in parts:
        e = t.expr if t.lead == lead or not t.lead else relay.expand_dims(t.expr, 1)
        own = list(shape)
        own[at] = ctx.sizes(t)[at - lead]
        if list(ctx.shape(ctx.made(e))) != own:
            if any(not isinstance(d, int) for d in own):
                raise TVMError("the batch size must be static; pass static input shapes for the model")
            e = relay.broadcast_to(e, own)
        out.append(e)
    return Tensor(relay.concatenate(out, at) if len(out) > 1 else out[0], lead)


@op("RowRepeat")
def row_repeat(ctx: Context, inputs, attrs):
    x, count = inputs[0], int(attrs.get("count", 1))
    check_count("the repeated tensor", [count, *ctx.sizes(x)])
    return Tensor(relay.tile(x.expr, [1] * (ctx.rank(x.expr) - 1) + [count]), x.lead)


@op("Pad")
def pad(ctx: Context, inputs, attrs):
    x = inputs[0]
    heads, feet = ([int(v) for v in attrs.get(n) or []][::-1] for n in ("paddingHead", "paddingFoot"))
    rank, mode = ctx.rank_of(x), attrs.get("paddingMode", 0)
    if len(heads) != rank or len(feet) != rank or any(v < 0 or v > 1 << 28 for v in (*heads, *feet)):
        raise TVMError(f"padding {heads} and {feet} does not match samples of {rank} dimensions")
    widths = [*[(0, 0)] * x.lead, *zip(heads, feet)]
    if mode == 0:
        return Tensor(relay.nn.pad(x.expr, widths, float(attrs.get("paddingConstantValue", 0.0))), x.lead)
    if mode not in (1, 2):
        raise TVMError(f"paddingMode {mode} is not supported")
    return Tensor(relay.nn.mirror_pad(x.expr, widths, "REFLECT" if mode == 1 else "SYMMETRIC"), x.lead)


@op("Crop")
def crop(ctx: Context, inputs, attrs):
    """Crop to the size of another tensor, at offsets given by the file."""
    x, like = inputs[:2]
    offsets = attrs.get("offset")
    if offsets is None and "xOffset" in attrs:
        offsets = [attrs["xOffset"], attrs["yOffset"]]
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise TVMError("a crop without explicit offsets is not supported")
    e = x.expr
    for i, begin in enumerate(offsets):
        at, size = ctx.rank(e) - 1 - i, ctx.sizes(like)[-1 - i]
        if not 0 <= begin or begin + size > ctx.known_size(e, at):
            raise TVMError(f"a crop of {size} elements at offset {begin} exceeds the axis")
        e = ctx.made(relay.strided_slice(e, [int(begin)], [int(begin) + size], [1], [at]))
    return Tensor(e, x.lead)


@op("OneHot")
def one_hot(ctx: Context, inputs, attrs):
    """Return a one-hot encoding along a new axis."""
    x, count = inputs[0], int(attrs.get("numClass", 0))
    check_count("the one-hot tensor", [count, *ctx.sizes(x)])
    if count < 1:
        raise TVMError(f"OneHot: the number of classes is {count}; it must be positive")
    rank = ctx.rank_of(x) + 1
    axis = attrs.get("onehotAxis") or Axis(0, "", False)
    index = axis.index + rank if axis.index < 0 else axis.index
    if not 0 <= index < rank:
        raise TVMError(f"cannot insert axis {axis.index}")
    at = x.lead + rank - 1 - index
    wide = relay.expand_dims(x.expr, at)
    shape = [-1 if i == at else 1 for i in range(x.lead + rank)]
    rows = const(np.arange(count).astype(ctx.dtype(x.expr)))
    return Tensor(relay.cast(relay.equal(wide, relay.reshape(rows, shape)), ctx.dtype(x.expr)), x.lead)


@op("Gather")
def gather(ctx: Context, inputs, attrs):
    """Gather slices of a table along an axis, by default CNTK's last axis."""
    places, table = inputs
    if table.lead:
        raise TVMError("a table that differs between samples is not supported")
    axis = attrs.get("axis")
    at = ctx.axis(table, axis) if axis is not None and not axis.name else 0
    out = ctx.made(relay.take(table.expr, relay.cast(places.expr, "int32"), at))
    if at and places.lead:
        # Move the dynamic axes to the front.
        rank = ctx.rank(out)
        lead = list(range(at, at + places.lead))
        out = relay.transpose(out, (*lead, *(i for i in range(rank) if i not in lead)))
    return Tensor(out, places.lead)


@op("EyeLike")
def eye_like(ctx: Context, inputs, attrs):
    sizes = ctx.sizes(inputs[0])
    if len(sizes) != 2 and not (len(sizes) == 1 and inputs[0].lead == 1):
        raise TVMError(f"EyeLike: samples of shape {sizes[::-1]} are not supported")
    rows = sizes[-2] if len(sizes) == 2 else ctx.known_size(inputs[0].expr, 0)
    check_count("the identity matrix", [rows, sizes[-1]])
    return Tensor(const(np.eye(rows, sizes[-1], dtype=ctx.dtype(inputs[0].expr))), 0 if len(sizes) == 2 else 1)


@op("ConstantOp")
def constant(ctx: Context, inputs, attrs):
    """Return a tensor of the input's shape, filled with a constant."""
    return Tensor(
        relay.full_like(inputs[0].expr, ctx.like(float(attrs.get("fillValue", 0.0)), inputs[0].expr)), inputs[0].lead
    )


@op("Combine")
def combine(ctx: Context, inputs, attrs):
    return inputs
