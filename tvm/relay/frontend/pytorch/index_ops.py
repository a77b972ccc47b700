"""Converters of operators that gather, scatter, sort or count elements by index."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ...op.rules import broadcast_dims
from .elementwise import as_bool, cast
from .table import Number, op


def from_start(ctx, data, indices, axis: int):
    """Return non-negative indices; negative indices count from the end."""
    known = ctx.value(indices)
    if known is not None and (known >= 0).all():
        return indices
    size = ctx.tensor(ctx.size(data, axis), ctx.dtype(indices))
    return relay.where(relay.less(indices, ctx.like(0, indices)), relay.add(indices, size), indices)


@op("index_select", "index_select_copy")
def index_select(ctx, self, dim, index):
    axis = ctx.axis(self, dim)
    if ctx.rank(self) == 0:
        return self
    index = index if ctx.rank(index) else relay.reshape(index, (1,))
    return relay.take(self, index, axis)


@op("take")
def take(ctx, self, index):
    flat = relay.reshape(self, (-1,))
    return relay.take(flat, from_start(ctx, ctx.infer(flat), index, 0), 0)


@op("gather")
def gather(ctx, self, dim, index, sparse_grad=False):
    axis = ctx.axis(self, dim)
    if not ctx.rank(self):
        return self
    have, want = ctx.shape(self), ctx.shape(index)
    for i, (h, w) in enumerate(zip(have, want)):
        if i != axis and isinstance(h, int) and isinstance(w, int) and h != w:
            self = relay.strided_slice(self, [0], [w], [1], [i])
    return relay.gather(self, axis, index)


@op("take_along_dim")
def take_along_dim(ctx, self, indices, dim=None):
    if dim is None:
        return relay.take(relay.reshape(self, (-1,)), relay.reshape(indices, (-1,)), 0)
    axis = ctx.axis(self, dim)
    have, want = list(ctx.known_shape(self)), list(ctx.known_shape(indices))
    have[axis], want[axis] = 1, 1
    shape = broadcast_dims(have, want)
    sizes = [ctx.known_shape(v)[axis] for v in (self, indices)]
    full = [[s if i == axis else d for i, d in enumerate(shape)] for s in sizes]
    return relay.gather(relay.broadcast_to(self, full[0]), axis, relay.broadcast_to(indices, full[1]))


@op("embedding")
def embedding(ctx, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return relay.take(weight, indices, 0)


@op("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    ctx,
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """Reduce the rows of each bag. Bags with constant bounds are separate reductions; others are accumulated by
    scattering.
    """
    if ctx.value(offsets) is None and mode < 2 and (padding_idx is None or padding_idx < 0):
        return _scattered_bags(ctx, weight, indices, offsets, mode, per_sample_weights, include_last_offset)
    bounds = [int(v) for v in ctx.array(offsets, "the offsets").reshape(-1)]
    total = ctx.known_size(indices, 0)
    bounds = bounds if include_last_offset else [*bounds, total]
    if padding_idx is not None and padding_idx >= 0:
        raise TVMError("embedding_bag with padding_idx is not supported")
    rows = relay.take(weight, indices, 0)
    if per_sample_weights is not None:
        rows = relay.multiply(rows, relay.expand_dims(per_sample_weights, 1))
    reduce = {0: relay.sum, 1: relay.mean, 2: relay.max}[mode]
    width, bags = ctx.known_size(weight, 1), []
    for a, b in zip(bounds, bounds[1:]):
        if a == b:
            bags.append(relay.zeros((1, width), ctx.dtype(weight)))
        else:
            bags.append(reduce(relay.strided_slice(rows, [a], [b], [1], [0]), axis=0, keepdims=True))
    out = relay.concatenate(bags, 0) if len(bags) > 1 else bags[0]
    none = const(np.zeros(0, "int64"))
    return (out, none, none, none) if ctx.outputs > 1 else out


def _scattered_bags(ctx, weight, indices, offsets, mode, per_sample_weights, include_last_offset):
    """Compute sums or means of bags; the bag of a row is the number of offsets up to its position."""
    bags, width = ctx.known_size(offsets, 0) - bool(include_last_offset), ctx.known_size(weight, 1)
    rows = ctx.infer(relay.take(weight, indices, 0))
    if per_sample_weights is not None:
        rows = ctx.infer(relay.multiply(rows, relay.expand_dims(per_sample_weights, 1)))
    begins = relay.strided_slice(offsets, [0], [bags], [1], [0])
    places = const(np.arange(ctx.known_size(indices, 0), dtype="int64"))
    owners = relay.cast(relay.less_equal(relay.expand_dims(relay.cast(begins, "int64"), 1), places), "int64")
    owner = ctx.infer(relay.subtract(relay.sum(owners, axis=0), const(1, "int64")))
    start = ctx.infer(relay.zeros((bags, width), ctx.dtype(weight)))
    out = ctx.infer(index_add(ctx, start, 0, owner, rows))
    if mode == 1:
        counts = index_add(ctx, start, 0, owner, ctx.infer(relay.ones_like(rows)))
        out = relay.divide(out, relay.maximum(counts, ctx.like(1, out)))
    none = const(np.zeros(0, "int64"))
    return (out, none, none, none) if ctx.outputs > 1 else out


# -- indexing with tensors ----------------------------------------------------------------------------------------


def _plan(ctx, x, indices):
    """Return the index tensors, the axes they index, and the other axes. Masks are replaced by the indices of true
    elements.
    """
    axes, tensors, at = [], [], 0
    for index in indices:
        if index is None:
            at += 1
            continue
        if ctx.dtype(index) in ("bool", "uint8"):
            places = _true_indices(ctx, index)
            axes += range(at, at + len(places))
            tensors += places
            at += ctx.rank(index)
        else:
            axes.append(at)
            tensors.append(from_start(ctx, x, index, at))
            at += 1
    tensors = [ctx.infer(v) for v in tensors]
    return axes, tensors, [i for i in range(ctx.rank(x)) if i not in axes]


def _true_indices(ctx, mask) -> list:
    """Return the coordinates of true elements, one vector per axis; their number is known at run time."""
    known = ctx.value(mask)
    if known is not None:
        return [const(v.astype("int64")) for v in np.nonzero(known)]
    found = relay.cast(relay.argwhere(relay.cast(mask, "int32")), "int64")
    return [relay.take(found, const(i, "int64"), 1) for i in range(ctx.rank(mask))]


def _joint_shape(ctx, tensors) -> tuple:
    shape: tuple = ()
    for v in tensors:
        shape = tuple(broadcast_dims(shape, ctx.shape(v)))
    return shape


def _spread(ctx, index, tensors: list, shape: tuple):
    """Broadcast an index to the joint shape; a dynamic dimension is taken from the first index that does not broadcast
    it.
    """
    have = ctx.shape(index)
    if all(isinstance(d, int) for d in shape):
        return index if have == shape else relay.broadcast_to(index, shape)
    if len(have) == len(shape) and not any(h == 1 and d != 1 for h, d in zip(have, shape)):
        return index
    return ctx.convert("expand", index, _joint_sizes(ctx, tensors, len(shape)))


def _joint_sizes(ctx, tensors: list, rank: int) -> list:
    def size(at: int):
        return next((ctx.size(t, at) for t in tensors if ctx.rank(t) >= -at and ctx.shape(t)[at] != 1), 1)

    return [size(at) for at in range(-rank, 0)]


def _between(axes: list[int]) -> bool:
    """Return whether the indexed axes are adjacent; then the index dimensions replace them in the output."""
    return axes == list(range(axes[0], axes[0] + len(axes)))


@op("index", "_unsafe_index")
def index(ctx, self, indices):
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and ctx.dtype(mask) == "bool" and _is_whole(ctx, self, mask):
        return _masked(ctx, self, mask)
    axes, tensors, rest = _plan(ctx, self, indices)
    if not axes:
        return self
    if len(axes) == 1:
        return relay.take(self, tensors[0], axes[0])
    shape = _joint_shape(ctx, tensors)
    moved = relay.transpose(self, [*axes, *rest]) if axes != list(range(len(axes))) else self
    out = relay.gather_nd(moved, relay.stack([_spread(ctx, t, tensors, shape) for t in tensors], 0))
    if _between(axes) and axes[0] > 0:
        k, front = len(shape), axes[0]
        n = k + len(rest)
        out = relay.transpose(out, [*range(k, k + front), *range(k), *range(k + front, n)])
    return out


def _is_whole(ctx, x, mask) -> bool:
    return ctx.value(mask) is None and ctx.rank(mask) == ctx.rank(x)


def _masked(ctx, x, mask):
    """Return the elements where a mask of the same shape is true, as a vector."""
    found = relay.argwhere(relay.cast(mask, "int32"))
    return relay.gather_nd(x, relay.transpose(found, (1, 0)))


@op("masked_select")
def masked_select(ctx, self, mask):
    shape = tuple(broadcast_dims(ctx.shape(self), ctx.shape(mask)))
    x, m = (v if ctx.shape(v) == shape else relay.broadcast_to(v, shape) for v in (self, mask))
    return _masked(ctx, ctx.infer(x), ctx.infer(m))


@op("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(ctx, self, indices, values, accumulate=False, unsafe=False):
    values = ctx.tensor(values, ctx.dtype(self))
    given = [i for i in indices if i is not None]
    if len(given) == 1 and ctx.dtype(given[0]) == "bool" and not accumulate and _size_one(ctx, values):
        return _where_mask(ctx, self, indices, values)
    axes, tensors, rest = _plan(ctx, self, indices)
    if not axes:
        return ctx.convert("expand_as", values, self)
    shape = _joint_shape(ctx, tensors)
    order = [*axes, *rest]
    moved = relay.transpose(self, order) if order != list(range(len(order))) else self
    points = relay.stack([_spread(ctx, t, tensors, shape) for t in tensors], 0)
    sizes, rest_sizes = _joint_sizes(ctx, tensors, len(shape)), [ctx.size(self, i) for i in rest]
    if _between(axes) and axes[0] > 0:
        front, k = axes[0], len(shape)
        wide = [*rest_sizes[:front], *sizes, *rest_sizes[front:]]
        updates = ctx.convert("expand", values, wide)
        n = len(wide)
        updates = relay.transpose(updates, [*range(front, front + k), *range(front), *range(front + k, n)])
    else:
        updates = ctx.convert("expand", values, [*sizes, *rest_sizes])
    if not shape:
        points, updates = relay.expand_dims(points, 1), relay.expand_dims(updates, 0)
    out = relay.scatter_nd(moved, points, updates, "add" if accumulate else "update")
    return relay.transpose(out, [order.index(i) for i in range(len(order))])


def _size_one(ctx, values) -> bool:
    return all(d == 1 for d in ctx.shape(values))


def _where_mask(ctx, x, indices, values):
    """Assign one value to the elements where a mask is true."""
    at = next(i for i, v in enumerate(indices) if v is not None)
    mask = indices[at]
    after = ctx.rank(x) - at - ctx.rank(mask)
    mask = relay.expand_dims(mask, ctx.rank(mask), after) if after else mask
    return relay.where(mask, relay.reshape(values, ()), x)


@op("masked_scatter")
def masked_scatter(ctx, self, mask, source):
    """Assign the next source element to each true position: its index is the number of true positions before it."""
    shape = ctx.known_shape(self)
    mask = relay.broadcast_to(mask, shape) if ctx.shape(mask) != shape else mask
    counted = relay.cumsum(relay.cast(relay.reshape(mask, (-1,)), "int64"), 0)
    places = relay.maximum(relay.subtract(counted, const(1, "int64")), const(0, "int64"))
    taken = relay.take(relay.reshape(ctx.tensor(source, ctx.dtype(self)), (-1,)), places, 0)
    return relay.where(mask, relay.reshape(taken, shape), self)


# -- scatters -----------------------------------------------------------------------------------------------------

_REDUCTIONS = {None: "update", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
               "amin": "min", "mean": "mean"}  # fmt: skip


@op("scatter")
def scatter(ctx, self, dim, index, src=None, value=None, reduce=None):
    if src is None or not isinstance(src, RelayExpr):
        number = value if src is None else src
        src = relay.broadcast_to(ctx.tensor(number, ctx.dtype(self)), ctx.known_shape(index))
    else:
        src = _cropped(ctx, src, index)
    return relay.scatter_elements(self, index, src, ctx.axis(self, dim), _REDUCTIONS[reduce])


def _cropped(ctx, x, index):
    """Crop the updates to the shape of the indices."""
    for axis, (have, want) in enumerate(zip(ctx.shape(x), ctx.shape(index))):
        if not isinstance(have, int) or have != want:
            x = ctx.convert("slice", x, axis, 0, ctx.size(index, axis))
    return x


@op("scatter_add")
def scatter_add(ctx, self, dim, index, src):
    src = _cropped(ctx, ctx.infer(ctx.tensor(src, ctx.dtype(self))), index)
    return relay.scatter_elements(self, index, src, ctx.axis(self, dim), "add")


@op("scatter_reduce")
def scatter_reduce(ctx, self, dim, index, src, reduce, include_self=True):
    kind = _REDUCTIONS[reduce]
    axis, shape = ctx.axis(self, dim), ctx.known_shape(index)
    src = _cropped(ctx, src, index)
    start = self
    hit = relay.scatter_elements(relay.zeros_like(self), index, relay.ones(shape, ctx.dtype(self)), axis, "add")
    touched = relay.greater(hit, ctx.like(0, self))
    if not include_self:
        neutral = {"add": 0, "mean": 0, "mul": 1}.get(kind)
        if neutral is None:
            low, high = (float("-inf"), float("inf")) if ctx.is_float(self) else _range(ctx.dtype(self))
            neutral = low if kind == "max" else high
        start = relay.where(touched, ctx.like(neutral, self), self)
    out = relay.scatter_elements(start, index, src, axis, "add" if kind == "mean" else kind)
    if kind == "mean":
        count = relay.add(hit, ctx.like(int(include_self), self))
        count = relay.maximum(count, ctx.like(1, self))
        out = relay.divide(out, count) if ctx.is_float(self) else relay.floor_divide(out, count)
    return out


def _range(dtype: str) -> tuple[int, int]:
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


@op("index_add")
def index_add(ctx, self, dim, index, source, alpha=1):
    source = ctx.convert("mul", source, alpha) if alpha != 1 else source
    source = ctx.tensor(source, ctx.dtype(self))
    return relay.scatter_elements(self, _expanded_indices(ctx, dim, index, source), source, ctx.axis(self, dim), "add")


def _expanded_indices(ctx, dim, index, source):
    """Expand the indices along one axis to the shape of the source."""
    axis = ctx.axis(source, dim)
    places = ctx.infer(relay.reshape(index, [-1 if i == axis else 1 for i in range(ctx.rank(source))]))
    return ctx.convert("expand_as", places, source)


@op("index_reduce")
def index_reduce(ctx, self, dim, index, source, reduce, include_self=True):
    return scatter_reduce(ctx, self, dim, _expanded_indices(ctx, dim, index, source), source, reduce, include_self)


@op("index_copy")
def index_copy(ctx, self, dim, index, source):
    indices = _expanded_indices(ctx, dim, index, source)
    return relay.scatter_elements(self, indices, source, ctx.axis(self, dim), "update")


@op("put")
def put(ctx, self, index, source, accumulate=False):
    flat = ctx.infer(relay.reshape(self, (-1,)))
    places = relay.reshape(from_start(ctx, flat, index, 0), (-1,))
    kind = "add" if accumulate else "update"
    made = relay.scatter_elements(flat, places, relay.reshape(source, (-1,)), 0, kind)
    return relay.reshape(made, ctx.known_shape(self))


@op("index_fill")
def index_fill(ctx, self, dim, index, value):
    axis = ctx.axis(self, dim)
    shape = list(ctx.known_shape(self))
    shape[axis] = ctx.known_size(index, 0)
    return index_copy(ctx, self, dim, index, relay.broadcast_to(ctx.tensor(value, ctx.dtype(self)), shape))


@op("copy")
def copy(ctx, self, src):
    return cast(ctx, ctx.tensor(src), ctx.dtype(self)) if not isinstance(src, RelayExpr) else _like(ctx, self, src)


def _like(ctx, x, src):
    src = cast(ctx, src, ctx.dtype(x))
    return src if ctx.shape(src) == ctx.shape(x) else ctx.convert("expand_as", src, x)


@op("diag")
def diag(ctx, self, diagonal=0):
    if ctx.rank(self) == 2:
        return ctx.convert("diagonal", self, diagonal, 0, 1)
    return diag_embed(ctx, self, diagonal)


@op("diag_embed")
def diag_embed(ctx, self, offset=0, dim1=-2, dim2=-1):
    shape = ctx.known_shape(self)
    n = shape[-1] + abs(offset)
    rows = np.arange(n, dtype="int64")
    on = rows[None, :] - rows[:, None] == offset
    places = np.clip(rows - max(-offset, 0), 0, shape[-1] - 1)
    taken = relay.take(self, const(places), len(shape) - 1)
    made = relay.where(const(on), relay.expand_dims(taken, len(shape)), ctx.like(0, self))
    if (dim1, dim2) in ((-2, -1), (len(shape) - 1, len(shape))):
        return made
    return ctx.convert("movedim", ctx.infer(made), [-2, -1], [dim1, dim2])


@op("one_hot")
def one_hot(ctx, self, num_classes=-1):
    depth = ctx.known_int(num_classes, "the number of classes")
    if depth < 0:
        raise TVMError("num_classes must be given: the default depends on the data")
    return relay.one_hot(self, const(1, "int64"), const(0, "int64"), depth, -1, "int64")


# -- order and search ---------------------------------------------------------------------------------------------


@op("topk")
def topk(ctx, self, k, dim=-1, largest=True, sorted=True):
    axis = ctx.axis(self, dim)
    k = ctx.sizes(k)[0]
    if not ctx.rank(self):
        self = ctx.infer(relay.reshape(self, (1,)))
        return tuple(relay.reshape(v, ()) if k else v for v in topk(ctx, self, k, 0, largest))
    if isinstance(k, Number):
        return tuple(relay.topk(self, relay.reshape(k.expr, (1,)), axis, "both", not largest, "int64"))
    if k == 0:
        none = relay.strided_slice(self, [0], [0], [1], [axis])
        return none, relay.cast(none, "int64")
    return tuple(relay.topk(self, k, axis, "both", not largest, "int64"))


@op("sort", "msort")
def sort(ctx, self, dim=-1, descending=False, stable=None):
    if not ctx.rank(self):
        return self, const(0, "int64")
    axis = ctx.axis(self, dim)
    places = ctx.infer(relay.argsort(self, axis, not descending, "int64"))
    return relay.gather(self, axis, places), places


@op("argsort")
def argsort(ctx, self, dim=-1, descending=False, stable=None):
    return relay.argsort(self, ctx.axis(self, dim), not descending, "int64")


@op("kthvalue")
def kthvalue(ctx, self, k, dim=-1, keepdim=False):
    axis = ctx.axis(self, dim)
    both = [ctx.infer(v) for v in sort(ctx, self, dim)]
    parts = [relay.strided_slice(v, [k - 1], [k], [1], [axis]) for v in both]
    return tuple(p if keepdim else relay.squeeze(p, [axis]) for p in parts)


@op("searchsorted")
def searchsorted(ctx, sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    kind = "int32" if out_int32 else "int64"
    sequence, values = ctx.together(sorted_sequence, self)
    return relay.searchsorted(sequence, values, right or side == "right", kind)


@op("bucketize")
def bucketize(ctx, self, boundaries, out_int32=False, right=False):
    sequence, values = ctx.together(boundaries, self)
    if not ctx.rank(values):
        made = relay.searchsorted(sequence, relay.reshape(values, (1,)), right, "int32" if out_int32 else "int64")
        return relay.reshape(made, ())
    return relay.searchsorted(sequence, values, right, "int32" if out_int32 else "int64")


@op("nonzero", "argwhere")
def nonzero(ctx, self):
    known = ctx.value(self)
    if known is not None:
        return Constant(np.argwhere(known).astype("int64"))
    return relay.cast(relay.argwhere(relay.cast(as_bool(ctx, self), "int32")), "int64")


@op("nonzero_numpy")
def nonzero_numpy(ctx, self):
    return _true_indices(ctx, ctx.infer(as_bool(ctx, self)))


@op("diff")
def diff(ctx, self, n=1, dim=-1, prepend=None, append=None):
    """Return the differences of neighboring elements; for bool elements, whether they differ."""
    axis = ctx.axis(self, dim)
    parts = [v for v in (prepend, self, append) if v is not None]
    x = ctx.infer(relay.concatenate(parts, axis) if len(parts) > 1 else self)
    for _ in range(n):
        later = ctx.infer(ctx.convert("slice", x, axis, 1, None))
        earlier = ctx.infer(ctx.convert("slice", x, axis, 0, -1))
        x = ctx.infer((relay.not_equal if ctx.dtype(x) == "bool" else relay.subtract)(later, earlier))
    return x


@op("triu")
def triu(ctx, self, diagonal=0):
    return _triangle(ctx, self, diagonal, True)


@op("tril")
def tril(ctx, self, diagonal=0):
    return _triangle(ctx, self, diagonal, False)


def _triangle(ctx, x, diagonal, upper: bool):
    rows, columns = (relay.cast(_places(ctx, ctx.size(x, a)), "int64") for a in (-2, -1))
    apart = relay.subtract(relay.expand_dims(columns, 0), relay.expand_dims(rows, 1))
    k = ctx.tensor(diagonal, "int64")
    keep = relay.greater_equal(apart, k) if upper else relay.less_equal(apart, k)
    return relay.where(keep, x, relay.zeros_like(x))


def _places(ctx, size):
    if isinstance(size, int):
        return const(np.arange(size, dtype="int64"))
    return relay.arange(const(0, "int64"), size.expr, const(1, "int64"), "int64")


@op("isin")
def isin(ctx, elements, test_elements, assume_unique=False, invert=False):
    x, y = ctx.together(elements, test_elements)
    rank = ctx.rank(x)
    found = relay.any(relay.equal(relay.expand_dims(x, rank), relay.reshape(y, (-1,))), axis=rank)
    return relay.logical_not(found) if invert else found


@op("_unique2")
def unique2(ctx, self, sorted=True, return_inverse=False, return_counts=False):
    """Return the unique elements, always sorted; their number is known at run time. Outputs that are not requested are
    empty.
    """
    found = relay.unique(relay.reshape(self, (-1,)), True, True)
    stop = relay.reshape(relay.cast(found[3], "int64"), (1,))

    def first(values, dtype: str):
        return relay.cast(relay.strided_slice(values, const([0], "int64"), stop, const([1], "int64"), [0]), dtype)

    nothing = const(np.zeros(0, "int64"))
    inverse = ctx.convert("view_as", relay.cast(found[2], "int64"), self) if return_inverse else nothing
    return first(found[0], ctx.dtype(self)), inverse, first(found[4], "int64") if return_counts else nothing
