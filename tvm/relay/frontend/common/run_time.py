"""Operators with run-time arguments: ranks are static, dimensions can be dynamic.

Where a shape is computed from the shapes of other values, equalities of dimensions are preserved: a reshape records
which dimensions it keeps, merges and splits.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ...op.dynamic import checked as relay_checked
from ...size_values import plain, same_size
from .context import axis_of, check_count

# Larger than the size of any axis.
FAR = (1 << 63) - 1


def number(value) -> RelayExpr:
    """Return integers as an int64 constant."""
    return const(np.array(value, "int64"))


def vector(ctx, e) -> RelayExpr:
    """Return an int64 vector; a scalar becomes a vector of one element."""
    e = e if ctx.dtype(e) == "int64" else relay.cast(e, "int64")
    return ctx.made(relay.reshape(e, (-1,)) if ctx.rank(e) != 1 else e)


def scalar(ctx, e, dtype: str = "int64") -> RelayExpr:
    """Return a tensor of one element as a scalar."""
    e = relay.reshape(e, ()) if ctx.rank(e) else e
    return ctx.made(relay.cast(e, dtype) if ctx.dtype(e) != dtype else e)


def element(ctx, e, index: int) -> RelayExpr:
    return ctx.made(relay.take(e, number(index), 0))


def shape_of(ctx, data) -> RelayExpr:
    """Return the shape as an int64 vector; a constant if it is static."""
    sizes = ctx.shape(data)
    if all(isinstance(d, int) for d in sizes):
        return number(sizes)
    return ctx.made(relay.shape_of(data, "int64"))


def size_of(ctx, data, axis: int) -> RelayExpr:
    """Return one dimension as a scalar."""
    axis = axis_of(axis, ctx.rank(data))
    size = ctx.shape(data)[axis]
    return number(size) if isinstance(size, int) else element(ctx, shape_of(ctx, data), axis)


def joined(ctx, parts: list) -> RelayExpr:
    """Concatenate vectors and scalars."""
    rows = [p if ctx.rank(p) else relay.expand_dims(p, 0) for p in parts]
    return ctx.made(relay.concatenate(rows, 0)) if len(rows) > 1 else ctx.made(rows[0])


def counted(ctx, count) -> RelayExpr:
    """Return 0, 1, ..., count - 1."""
    known = ctx.value(count)
    if known is not None:
        check_count("an axis", [int(known)])
        return number(np.arange(int(known)))
    return ctx.made(relay.arange(number(0), count, number(1), "int64"))


def along(ctx, places, axis: int, rank: int) -> RelayExpr:
    """Reshape a vector so that it broadcasts along an axis."""
    return ctx.made(relay.reshape(places, [-1 if i == axis else 1 for i in range(rank)]))


def sharpened(ctx, e, sizes: list) -> RelayExpr:
    """Return the tensor with a type that contains its known dimensions: integers, and dimensions of the
    model's inputs.
    """
    e = ctx.made(e)
    more = any(isinstance(s, int) and s > 0 and not isinstance(d, int) for s, d in zip(sizes, ctx.shape(e)))
    codes = [s if isinstance(s, int) and s > 0 else 0 for s in sizes]
    e = ctx.made(relay.reshape(e, codes)) if more else e
    for axis, size in enumerate(sizes):
        held = None if size is None or isinstance(size, int) else ctx.importer.holders.get(size)
        if held is not None and not same_size(size, plain(ctx.type(e).shape[axis])):
            e = ctx.made(relay.reshape_like(e, held[0], axis, axis + 1, held[1], held[1] + 1))
    return e


# -- checks -----------------------------------------------------------------------------------------------------------


def checked(ctx, e, condition, words: str) -> RelayExpr:
    """Return ``e``, a scalar or a vector of static size, after a run-time check.

    If an element of the condition is false, the run ends with an error that names the node.
    """
    known = ctx.value(condition)
    if known is not None and not known.all():
        raise TVMError(words)
    if known is not None:
        return e
    condition = ctx.made(condition)
    holds = ctx.made(relay.all(condition)) if ctx.rank(condition) else condition
    rows = ctx.made(relay.reshape(e, (1,)) if not ctx.rank(e) else e)
    out = relay_checked(rows, holds, f"{ctx.where}: {words}")
    return ctx.made(relay.reshape(out, ctx.known_shape(e)))


def within(ctx, e, low: int, high: int, words: str) -> RelayExpr:
    """Check at run time that integers are from ``low`` to ``high``, both included."""
    inside = relay.logical_and(relay.greater_equal(e, ctx.like(low, e)), relay.less_equal(e, ctx.like(high, e)))
    return checked(ctx, e, ctx.made(inside), words)


def at_least(ctx, e, low, what: str) -> RelayExpr:
    """Check at run time that a scalar, or each element of a vector, is at least ``low``."""
    return checked(ctx, e, ctx.made(relay.greater_equal(e, ctx.like(low, e))), f"{what} must be at least {low}")


def axes_from_start(ctx, axes, rank: int, are_different: bool = True) -> RelayExpr:
    """Return run-time axes, a scalar or a vector, as non-negative axes; axes out of range end the run with an error."""
    axes = ctx.made(axes if ctx.dtype(axes) == "int64" else relay.cast(axes, "int64"))
    axes = within(ctx, axes, -rank, rank - 1, f"an axis is out of range for a tensor with {rank} dimensions")
    axes = ctx.made(relay.where(relay.less(axes, number(0)), relay.add(axes, number(rank)), axes))
    if are_different and ctx.rank(axes) and ctx.known_shape(axes)[0] > 1:
        same = relay.equal(relay.expand_dims(axes, 1), relay.expand_dims(axes, 0))
        times = relay.sum(relay.cast(same, "int32"), axis=1)
        axes = checked(ctx, axes, ctx.made(relay.equal(times, const(1))), "an axis occurs twice")
    return axes


# -- shapes -----------------------------------------------------------------------------------------------------------


def reshaped(ctx, data, shape, allowzero: bool = False):
    ctx.length(shape, "the shape")
    wanted = ctx.numbers(shape)
    have = [plain(d) for d in ctx.type(data).shape]
    codes = None if allowzero or 0 in have else reshape_codes(have, wanted)
    if codes is not None:
        return relay.reshape(data, codes)
    known = [None if w in (0, -1) else w for w in wanted]
    return sharpened(ctx, relay.reshape(data, vector(ctx, shape), allowzero), known)


def reshape_codes(have: list, wanted: list) -> list[int] | None:
    """Return Relay's codes for a shape of integers or of dimensions that follow from the data; None if there are no
    codes.
    """
    codes: list = []
    for i, want in enumerate(wanted):
        keeps = i < len(have) and same_size(want, have[i])
        codes.append(0 if keeps and not isinstance(want, int) else want if isinstance(want, int) else None)
    if sum(c is None or c == -1 for c in codes) <= 1 and None not in wanted:
        return [-1 if c is None else c for c in codes]
    return _grouped(have, wanted) if None not in [*have, *wanted] and not {0, -1} & {*_ints(wanted)} else None


def _ints(values: list) -> list[int]:
    return [v for v in values if isinstance(v, int)]


def _grouped(have: list, wanted: list) -> list[int] | None:
    """Return codes for dimensions that are kept, pairs that are merged, and dimensions that are split in two."""
    codes: list[int] = []
    i = j = 0
    while i < len(have) and j < len(wanted):
        pair = wanted[j : j + 2]
        if same_size(have[i], wanted[j]):
            codes.append(0)
        elif i + 1 < len(have) and same_size(have[i] * have[i + 1], wanted[j]):
            codes.append(-3)
            i += 1
        elif len(pair) == 2 and _ints(pair) and same_size(have[i], pair[0] * pair[1]):
            codes += [-4, *(p if isinstance(p, int) else -1 for p in pair)]
            j += 1
        else:
            return None
        i, j = i + 1, j + 1
    return codes if i == len(have) and j == len(wanted) else None


def flattened(ctx, data, count: int):
    """Merge the first ``count`` dimensions into one."""
    if count == 0:
        return relay.expand_dims(data, 0)
    rest = ctx.shape(data)[count:]
    if count > 1 and all(isinstance(d, int) and d > 0 for d in rest):
        return relay.reshape(data, (-1, *rest))
    for _ in range(count - 1):
        data = relay.reshape(data, (-3, -2) if rest or count > 2 else (-3,))
        count -= 1
    return data


def unflattened(ctx, data, like, count: int):
    """Split the first dimension into the first ``count`` dimensions of another tensor."""
    if count == 1:
        return data
    have = [plain(d) for d in ctx.type(data).shape]
    wanted = [*(plain(d) for d in ctx.type(like).shape[:count]), *have[1:]]
    codes = None if 0 in wanted else reshape_codes(have, wanted)
    return relay.reshape(data, codes) if codes is not None else relay.reshape_like(data, like, 0, 1, 0, count)


def expanded(ctx, data, shape):
    """Broadcast data and shape against each other: a size of 1 in the shape keeps the dimension of the data."""
    count, rank = ctx.length(shape, "the shape"), ctx.rank(data)
    total = max(count, rank)
    have = [1] * (total - rank) + [plain(d) for d in ctx.type(data).shape]
    wanted = [1] * (total - count) + ctx.numbers(shape)
    sizes = [broadcast_size(h, w) for h, w in zip(have, wanted)]
    if total == rank and all(same_size(s, h) for s, h in zip(sizes, have)):
        return data
    if all(isinstance(s, int) for s in sizes):
        return relay.broadcast_to(data, sizes)
    own = joined(ctx, [number([1] * (total - rank)), shape_of(ctx, data)]) if total > rank else shape_of(ctx, data)
    want = vector(ctx, shape)
    want = joined(ctx, [number([1] * (total - count)), want]) if total > count else want
    target = ctx.made(relay.where(relay.equal(want, number(1)), own, want))
    return sharpened(ctx, relay.broadcast_to(data, target), sizes)


def broadcast_size(have, want):
    """Return a dimension of the output; None if it is unknown."""
    if isinstance(want, int) and want == 1:
        return have
    if isinstance(have, int) and have == 1 or isinstance(want, int):
        return want
    return have if isinstance(have, int) or same_size(have, want) else None


def tiled(ctx, data, repeats):
    if ctx.length(repeats, "the repeats") != ctx.rank(data):
        raise TVMError(f"there are {ctx.length(repeats, 'the repeats')} repeats for {ctx.rank(data)} dimensions")
    sizes = [
        None if h is None or r is None else plain(h * r)
        for h, r in zip([plain(d) for d in ctx.type(data).shape], ctx.numbers(repeats))
    ]
    return sharpened(ctx, relay.tile(data, vector(ctx, repeats)), sizes)


def filled(ctx, value: RelayExpr, shape):
    ctx.length(shape, "the shape")
    return sharpened(ctx, relay.full(value, vector(ctx, shape), ctx.dtype(value)), ctx.numbers(shape))


def unsqueezed(ctx, data, axes):
    """Insert dimensions of size 1 at the axes."""
    new, rank = ctx.length(axes, "the axes"), ctx.rank(data)
    if not rank:
        return relay.reshape(data, [1] * new)
    hit = _hits(ctx, axes, rank + new)
    before = relay.subtract(relay.cumsum(relay.cast(hit, "int64"), 0), relay.cast(hit, "int64"))
    source = relay.take(shape_of(ctx, data), relay.subtract(number(range(rank + new)), before), 0)
    return relay.reshape(data, ctx.made(relay.where(hit, number(1), source)), True)


def _hits(ctx, axes, rank: int, are_different: bool = True) -> RelayExpr:
    """Return a mask of ``rank`` elements that is true for the run-time axes; negative axes count from the end."""
    axes = axes_from_start(ctx, vector(ctx, axes), rank, are_different)
    same = relay.equal(relay.expand_dims(axes, 1), number([list(range(rank))]))
    return ctx.made(relay.any(same, axis=0))


def of_axes(ctx, values, axes, rank: int, default: int) -> RelayExpr:
    """Return, for each of ``rank`` axes, its element of a vector that is indexed by non-negative axes, or the
    default.
    """
    values = vector(ctx, values)
    same = relay.equal(relay.expand_dims(axes, 1), number([list(range(rank))]))
    own = relay.where(same, relay.expand_dims(values, 1), number(0))
    return ctx.made(relay.where(relay.any(same, axis=0), relay.sum(own, axis=0), number(default)))


def first_elements(ctx, data, starts, ends, axes, steps) -> RelayExpr | None:
    """Return a slice of the first elements along static axes, if a dynamic dimension of the model's inputs gives their
    number.

    The type of the slice contains its dimensions, so that they do not depend on data. Return None for other slices.
    """
    if axes is not None and ctx.is_run_time_value(axes):
        return None
    count = ctx.length(starts, "starts")
    chosen = list(range(count)) if axes is None else [axis_of(a, ctx.rank(data)) for a in ctx.ints(axes, "axes")]
    dims, wanted = ctx.shape(data), ctx.numbers(ends)
    plain_steps = [1] * count if steps is None else ctx.numbers(steps)
    held = [None if w is None or isinstance(w, int) else ctx.importer.holders.get(w) for w in wanted]
    if set(ctx.numbers(starts)) != {0} or set(plain_steps) != {1} or None in held:
        return None
    if any(not isinstance(dims[axis], int) for axis in chosen):
        return None
    for axis, (tensor, place) in zip(chosen, held):
        like = _with_size_at(ctx, tensor, place, axis)
        # Clamp an end beyond the last element.
        like = relay.strided_slice(like, [0], [dims[axis]], [1], [axis])
        data = ctx.made(relay.slice_like(data, ctx.made(like), [axis]))
    return data


def _with_size_at(ctx, tensor, place: int, axis: int) -> RelayExpr:
    """Return a tensor whose size along ``axis`` is that of ``tensor`` along ``place``."""
    missing = max(axis + 1 - ctx.rank(tensor), 0)
    if missing:
        tensor, place = ctx.made(relay.expand_dims(tensor, 0, missing)), place + missing
    order = list(range(ctx.rank(tensor)))
    order[axis], order[place] = place, axis
    return tensor if place == axis else ctx.made(relay.transpose(tensor, order))


def sliced(ctx, data, starts, ends, axes, steps):
    rank, count = ctx.rank(data), ctx.length(starts, "starts")
    if count > rank:
        raise TVMError(f"there are {count} starts for {rank} dimensions")
    if not count:
        return data
    first = first_elements(ctx, data, starts, ends, axes, steps)
    if first is not None:
        return first
    steps = number([1] * count) if steps is None else steps
    bounds = (starts, ends, steps)
    if axes is not None and ctx.is_run_time_value(axes):
        chosen = list(range(rank))
        axes = axes_from_start(ctx, vector(ctx, axes), rank)
        bounds = tuple(of_axes(ctx, v, axes, rank, default) for v, default in zip(bounds, (0, FAR, 1)))
    else:
        chosen = list(range(count)) if axes is None else [axis_of(a, rank) for a in ctx.ints(axes, "axes")]
    begin, end, stride = (vector(ctx, v) for v in bounds)
    # Clamp starts before the first element, also for negative steps.
    least = relay.subtract(number(0), joined(ctx, [size_of(ctx, data, a) for a in chosen]))
    begin = ctx.made(relay.maximum(begin, least))
    out = relay.strided_slice(data, begin, end, stride, axes=chosen)
    return sharpened(ctx, out, [None if i in chosen else d for i, d in enumerate(ctx.shape(data))])


def split(ctx, data, sizes, axis: int, count: int) -> list:
    """Split into parts of run-time sizes. A reshape checks the size of each part at run time."""
    sizes, rank = vector(ctx, sizes), ctx.rank(data)
    shape = [size_of(ctx, data, i) for i in range(rank)]
    out, at = [], number(0)
    for i in range(count):
        size = element(ctx, sizes, i)
        end = relay.add(at, size) if i + 1 < count else number(FAR)
        ends = [joined(ctx, [ctx.made(e)]) for e in (at, end)]
        part = relay.strided_slice(data, *ends, number([1]), axes=[axis])
        wanted = joined(ctx, [size if d == axis else shape[d] for d in range(rank)])
        part = relay.reshape(part, wanted, True)
        out.append(sharpened(ctx, part, [None if d == axis else s for d, s in enumerate(ctx.shape(data))]))
        at = ctx.made(end)
    return out


def padded(ctx, data, amounts, axes, value, mode: str):
    """Pad by run-time amounts; negative amounts crop."""
    rank, count = ctx.rank(data), ctx.length(amounts, "the padding")
    if count % 2 or count > 2 * rank:
        raise TVMError(f"there are {count} padding amounts for {rank} dimensions; there must be two per dimension")
    amounts, known = vector(ctx, amounts), ctx.numbers(amounts)
    half = count // 2
    before, after = (relay.strided_slice(amounts, [k * half], [k * half + half], [1], [0]) for k in (0, 1))
    chosen: list[int] | None = list(range(half))
    if axes is not None:
        chosen = None if ctx.is_run_time_value(axes) else [axis_of(a, rank) for a in ctx.ints(axes, "the axes")]
        axes = axes_from_start(ctx, vector(ctx, axes), rank)
        before, after = (of_axes(ctx, ctx.made(v), axes, rank, 0) for v in (before, after))
    elif half < rank:
        raise TVMError(f"there are {count} padding amounts for {rank} dimensions; there must be two per dimension")
    sizes = _padded_sizes(ctx, data, known, chosen)
    if mode != "constant":
        before = _check_remaining(ctx, data, before, after, chosen)
    if mode in ("constant", "edge"):
        width = ctx.made(relay.stack([before, after], 1))
        return sharpened(ctx, relay.nn.pad(data, width, value, mode), sizes)
    if mode not in ("reflect", "wrap"):
        raise TVMError(f"padding mode '{mode}' is not supported")
    for axis in range(rank) if chosen is None else chosen:
        low, high = (element(ctx, ctx.made(v), axis) for v in (before, after))
        data = _by_index(ctx, data, axis, low, high, mode)
    return sharpened(ctx, data, sizes)


def _check_remaining(ctx, data, before, after, chosen: list[int] | None) -> RelayExpr:
    """Check at run time that cropping leaves an element to repeat along each padded axis; return ``before``."""
    zero, axes = number(0), range(ctx.rank(data)) if chosen is None else chosen
    have = joined(ctx, [size_of(ctx, data, axis) for axis in axes])
    left = relay.add(have, relay.add(relay.minimum(before, zero), relay.minimum(after, zero)))
    is_same = relay.logical_and(relay.equal(before, zero), relay.equal(after, zero))
    fits = ctx.made(relay.logical_or(relay.greater(left, zero), is_same))
    return checked(ctx, before, fits, "the negative padding removes all elements of an axis")


def _padded_sizes(ctx, data, amounts: list, axes: list[int] | None) -> list:
    sizes: list = [plain(d) for d in ctx.type(data).shape]
    if axes is None:
        return [None] * len(sizes)
    half = len(amounts) // 2
    for i, axis in enumerate(axes):
        parts = (sizes[axis], amounts[i], amounts[i + half])
        sizes[axis] = None if None in parts else plain(parts[0] + parts[1] + parts[2])
    return sizes


def _by_index(ctx, data, axis: int, before, after, mode: str):
    """Gather the elements of an axis by index, for wrapping and reflecting padding."""
    size = size_of(ctx, data, axis)
    count = ctx.made(relay.add(relay.add(size, before), after))
    count = at_least(ctx, count, 0, f"the size of axis {axis} after padding")
    at = relay.subtract(counted(ctx, count), before)
    if mode == "wrap":
        at = relay.floor_mod(at, relay.maximum(size, number(1)))
    else:
        last = relay.subtract(size, number(1))
        period = relay.maximum(relay.multiply(last, number(2)), number(1))
        at = relay.floor_mod(at, period)
        at = relay.minimum(at, relay.subtract(period, at))
        # An axis with one element is reflected to that element.
        at = relay.minimum(at, last)
    return ctx.made(relay.take(data, ctx.made(at), axis))


def ranged(ctx, start, limit, delta):
    start, limit, delta = (scalar(ctx, v, ctx.dtype(start)) for v in (start, limit, delta))
    return relay.arange(start, limit, delta, ctx.dtype(start))


def largest(ctx, data, k, axis: int, is_ascend: bool) -> list:
    """Return a run-time number of largest elements. For 0, Relay's operator would return all elements, so its output is
    sliced.
    """
    k, size = scalar(ctx, k), size_of(ctx, data, axis)
    least = relay.where(relay.equal(k, number(0)), relay.minimum(size, number(1)), k)
    # The operator reports an error for more elements than the axis has; a negative number is mapped to such a number.
    most = joined(ctx, [ctx.made(relay.where(relay.less(k, number(0)), number(FAR), least))])
    found = relay.topk(data, most, axis, "both", is_ascend, "int64")
    ends = [number([0]), joined(ctx, [k]), number([1])]
    return [relay.strided_slice(f, *ends, axes=[axis]) for f in found]


def reduced(ctx, data, axes, keepdims: bool, form):
    """Reduce over run-time axes: gather the elements of each output into a row, and reduce the rows.

    ``form(rows, axes, keepdims)`` builds the reduction.
    """
    rank, count = ctx.rank(data), ctx.length(axes, "the axes")
    if count > rank:
        raise TVMError(f"there are {count} axes for a tensor with {rank} dimensions")
    hit, sizes = _hits(ctx, axes, rank, not keepdims), shape_of(ctx, data)
    one = number(1)
    own, gone = relay.where(hit, one, sizes), relay.where(hit, sizes, one)
    rows, columns = (places(ctx, ctx.made(part), sizes, rank) for part in (own, gone))
    index = relay.add(relay.expand_dims(rows, 1), relay.expand_dims(columns, 0))
    taken = ctx.made(relay.take(relay.reshape(data, (-1,)), ctx.made(index), 0))
    out = form(taken, [1], False)
    if keepdims:
        return relay.reshape(out, ctx.made(own), True)
    # Stable sort: the dimensions that are kept come first, in their order.
    order = relay.argsort(relay.cast(hit, "int64"), 0, True, "int64")
    kept = relay.strided_slice(relay.take(sizes, order, 0), [0], [rank - count], [1], [0])
    return relay.reshape(out, ctx.made(kept), True)


def places(ctx, part, sizes, rank: int) -> RelayExpr:
    """Return the indices in the flat data of all elements along some axes; ``part`` is 1 for the other axes."""
    count = ctx.made(relay.prod(part, axis=0))
    at, out = counted(ctx, count), None
    stride, inner = number(1), number(1)
    for axis in reversed(range(rank)):
        size, own = element(ctx, sizes, axis), element(ctx, part, axis)
        along_axis = relay.floor_mod(relay.floor_divide(at, inner), relay.maximum(own, number(1)))
        step = relay.multiply(along_axis, stride)
        out = step if out is None else relay.add(out, step)
        stride = ctx.made(relay.multiply(stride, size))
        inner = ctx.made(relay.maximum(relay.multiply(inner, own), number(1)))
    return ctx.made(out)


__all__ = [
    "along", "at_least", "axes_from_start", "broadcast_size", "checked", "counted", "element", "expanded",
    "filled", "flattened", "joined", "largest", "number", "padded", "places", "ranged", "reduced", "reshaped",
    "scalar", "shape_of", "sharpened", "size_of", "sliced", "split", "tiled", "unflattened", "unsqueezed",
    "vector", "within",
]  # fmt: skip
