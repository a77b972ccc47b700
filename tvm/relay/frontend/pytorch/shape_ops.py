"""Converters of operators that move elements: reshape, slice, concatenate, expand."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ....ir.prim import SizeVar
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ...op.rules import broadcast_dims
from ..common import run_time
from .table import Number, axis_of, op
from .views import moved_axes, part_sizes, set_slice


def reshaped(ctx, x, sizes: list):
    """Reshape a tensor; one size can be -1, and sizes can be known at run time."""
    sizes = ctx.sizes(sizes)
    have = ctx.shape(x)
    if all(isinstance(s, int) for s in sizes):
        if all(isinstance(d, int) for d in have):
            return relay.reshape(x, _found(have, sizes), True)
        return relay.reshape(x, sizes)
    codes, open_ = [], 0
    for i, s in enumerate(sizes):
        if isinstance(s, int):
            codes.append(s)
        elif i < len(have) and ctx.is_same(s, have[i]):
            codes.append(0)
        else:
            codes.append(-1)
            open_ += 1
    if codes.count(-1) <= 1 and 0 not in [s for s in sizes if isinstance(s, int)]:
        return relay.reshape(x, codes)
    return ctx.sized(relay.reshape(x, ctx.infer(ctx.shape_vector(sizes))), sizes)


def _found(have, sizes: list[int]) -> list[int]:
    """Replace -1 by the size that follows from the number of elements."""
    if -1 not in sizes:
        return sizes
    rest = math.prod(s for s in sizes if s != -1)
    total = math.prod(have)
    if rest == 0 or total % rest:
        raise TVMError(f"cannot reshape {total} elements to the shape {sizes}")
    return [total // rest if s == -1 else s for s in sizes]


@op("view.dtype")
def view_dtype(ctx, self, dtype):
    from .table import dtype_name

    if dtype_name(dtype) != ctx.dtype(self):
        raise TVMError(f"reinterpreting {ctx.dtype(self)} as {dtype_name(dtype)} is not supported")
    return self


@op("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy", "_reshape_copy")
def view(ctx, self, size=None, shape=None, stride=None):
    return reshaped(ctx, self, size if size is not None else shape)


@op("view_as", "reshape_as")
def view_as(ctx, self, other):
    return reshaped(ctx, self, [ctx.size(other, i) for i in range(ctx.rank(other))])


@op("flatten")
def flatten(ctx, self, start_dim=0, end_dim=-1):
    if not ctx.rank(self):
        return relay.reshape(self, (1,))
    first, last = axis_of(start_dim, ctx.rank(self)), axis_of(end_dim, ctx.rank(self))
    if first == last:
        return self
    merged = ctx.shape(self)[first : last + 1]
    size = math.prod(merged) if all(isinstance(d, int) for d in merged) else -1
    return reshaped(
        ctx,
        self,
        [
            *(ctx.size(self, i) for i in range(first)),
            size,
            *(ctx.size(self, i) for i in range(last + 1, ctx.rank(self))),
        ],
    )


@op("unflatten")
def unflatten(ctx, self, dim, sizes):
    axis = ctx.axis(self, dim)
    sizes = ctx.sizes(sizes)
    if -1 in sizes and isinstance(ctx.shape(self)[axis], int):
        sizes = _found((ctx.shape(self)[axis],), sizes)
    rank = ctx.rank(self)
    return reshaped(
        ctx,
        self,
        [*(ctx.size(self, i) for i in range(axis)), *sizes, *(ctx.size(self, i) for i in range(axis + 1, rank))],
    )


@op("ravel")
def ravel(ctx, self):
    return relay.reshape(self, (-1,))


@op("unsqueeze", "unsqueeze_copy")
def unsqueeze(ctx, self, dim):
    return relay.expand_dims(self, axis_of(ctx.known_int(dim, "the dimension"), ctx.rank(self) + 1))


@op("squeeze", "squeeze_copy")
def squeeze(ctx, self, dim=None):
    if not ctx.rank(self):
        return self
    axes = ctx.axes(self, dim) if dim is not None else list(range(ctx.rank(self)))
    # The output rank must not depend on a dynamic dimension: an explicitly squeezed dynamic dimension of a script is
    # assumed to be 1, which is checked at run time.
    named = dim is not None and ctx.importer.names_ones
    axes = [
        a for a in axes or [] if (size := ctx.shape(self)[a]) == 1 or named and not isinstance(size, (int, SizeVar))
    ]
    return relay.squeeze(self, axes) if axes else self


@op("permute", "permute_copy")
def permute(ctx, self, dims):
    return relay.transpose(self, ctx.axes(self, dims)) if ctx.rank(self) else self


@op("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(ctx, self, dim0, dim1):
    order = list(range(ctx.rank(self)))
    if not order:
        return self
    a, b = ctx.axis(self, dim0), ctx.axis(self, dim1)
    order[a], order[b] = order[b], order[a]
    return relay.transpose(self, order)


@op("t", "numpy_T", "t_copy")
def t(ctx, self):
    return relay.transpose(self) if ctx.rank(self) > 1 else self


@op("mT", "adjoint")
def matrix_transpose(ctx, self):
    return transpose(ctx, self, -2, -1)


@op("movedim", "moveaxis")
def movedim(ctx, self, source, destination):
    return relay.transpose(self, moved_axes(ctx.rank(self), source, destination))


@op("pixel_shuffle")
def pixel_shuffle(ctx, self, upscale_factor):
    *outer, c, h, w = ctx.known_shape(self)
    r = upscale_factor
    k = len(outer)
    x = relay.reshape(self, (*outer, c // (r * r), r, r, h, w))
    x = relay.transpose(x, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return relay.reshape(x, (*outer, c // (r * r), h * r, w * r))


@op("pixel_unshuffle")
def pixel_unshuffle(ctx, self, downscale_factor):
    *outer, c, h, w = ctx.known_shape(self)
    r = downscale_factor
    k = len(outer)
    x = relay.reshape(self, (*outer, c, h // r, r, w // r, r))
    x = relay.transpose(x, (*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return relay.reshape(x, (*outer, c * r * r, h // r, w // r))


@op("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(ctx, self, groups):
    n, c, *rest = ctx.known_shape(self)
    x = relay.reshape(self, (n, groups, c // groups, *rest))
    return relay.reshape(relay.transpose(x, (0, 2, 1, *range(3, 3 + len(rest)))), (n, c, *rest))


# -- slice and concatenate ----------------------------------------------------------------------------------------


@op("slice", "slice_copy")
def slice_(ctx, self, dim=0, start=None, end=None, step=1):
    if isinstance(self, (list, tuple, str)):
        return self[slice(None if start is None else start, end, step)]
    axis = ctx.axis(self, dim)
    size = ctx.shape(self)[axis]
    start, end = (v if v is None else ctx.sizes(v)[0] for v in (start, end))
    step = ctx.sizes(step)[0]
    if isinstance(size, int) and not any(isinstance(v, Number) for v in (start, end, step)):
        a, b, _ = slice(start, end, step).indices(size)
        return self if (a, b, step) == (0, size, 1) else relay.strided_slice(self, [a], [max(a, b)], [step], [axis])
    whole = end is None or isinstance(end, int) and end >= (1 << 31) - 1
    if isinstance(step, Number):
        step = Number(run_time.at_least(ctx, step.expr, 1, "the step of a slice"))
    elif (start is None or start == 0) and step == 1:
        if whole or ctx.is_same(end, size):
            return self
    return _dynamic_slice(ctx, self, axis, 0 if start is None else start, None if whole else end, step)


def _dynamic_slice(ctx, x, axis: int, start, end, step):
    """Slice with bounds or a step that are known at run time."""
    size = ctx.size(x, axis)
    limit = ctx.tensor(size, "int64")
    bounds = []
    for v in (start, size if end is None else end):
        e = ctx.tensor(v, "int64")
        e = relay.where(relay.less(e, const(0, "int64")), relay.add(e, limit), e)
        bounds.append(relay.minimum(relay.maximum(e, const(0, "int64")), limit))
    bounds[1] = relay.maximum(bounds[0], bounds[1])
    begin, stop = (ctx.infer(relay.reshape(b, (1,))) for b in bounds)
    if isinstance(begin, Constant) and isinstance(stop, Constant) and not isinstance(step, Number):
        ends = [int(b.data.numpy()[0]) for b in (begin, stop)]
        return relay.strided_slice(x, [ends[0]], [ends[1]], [step], [axis])
    return kept_sizes(ctx, relay.strided_slice(x, begin, stop, ctx.shape_vector([step]), [axis]), x, {axis})


def kept_sizes(ctx, made, x, changed: set[int]):
    """Return a slice with the static dimensions of ``x`` for the axes that are not ``changed``."""
    shape = ctx.shape(x)
    codes = [0 if i in changed or not isinstance(d, int) else d for i, d in enumerate(shape)]
    return relay.reshape(made, codes) if any(codes) else made


@op("narrow", "narrow_copy")
def narrow(ctx, self, dim, start, length):
    begin = ctx.sizes(start)[0]
    size = ctx.sizes(length)[0]
    if isinstance(begin, int) and isinstance(size, int):
        begin = begin % ctx.known_size(self, ctx.axis(self, dim)) if begin < 0 else begin
        return slice_(ctx, self, dim, begin, begin + size)
    return slice_(ctx, self, dim, begin, ctx.convert("add", begin, size))


@op("select", "select_copy")
def select(ctx, self, dim=0, index=0):
    axis = ctx.axis(self, dim)
    index = ctx.sizes(index)[0]
    size = ctx.shape(self)[axis]
    if isinstance(index, int):
        if isinstance(size, int):
            if not -size <= index < size:
                raise TVMError(f"index {index} is out of range for an axis of size {size}")
            index %= size
        elif index < 0:
            index = ctx.convert("add", ctx.size(self, axis), index)
    at = ctx.tensor(index, "int64")
    if isinstance(index, Number) and isinstance(size, int):
        at = relay.where(relay.less(at, const(0, "int64")), relay.add(at, const(size, "int64")), at)
    return relay.take(self, at, axis)


@op("cat", "concat", "concatenate")
def cat(ctx, tensors, dim=0):
    # Drop empty vectors, as PyTorch does.
    kept = [v for v in tensors if ctx.shape(v) != (0,)] or tensors[:1]
    parts = ctx.together(*kept)
    return parts[0] if len(parts) == 1 else relay.concatenate(parts, ctx.axis(kept[0], dim))


@op("stack")
def stack(ctx, tensors, dim=0):
    parts = ctx.together(*tensors)
    axis = axis_of(dim, ctx.rank(parts[0]) + 1)
    return relay.stack(parts, axis) if len(parts) > 1 else relay.expand_dims(parts[0], axis)


def _joined(least: int, axis):
    def convert(ctx, tensors):
        parts = []
        for v in ctx.together(*tensors):
            shape = ctx.shape(v)
            rank = len(shape)
            if least == 3 and rank < 3:
                v = relay.reshape(v, (1, 1, 1) if not rank else (1, *shape, 1) if rank == 1 else (*shape, 1))
            elif rank < least:
                v = relay.reshape(v, (*[1] * (least - rank), *shape))
            parts.append(ctx.infer(v))
        at = axis(ctx.rank(parts[0]))
        return relay.concatenate(parts, at) if len(parts) > 1 else parts[0]

    return convert


op("vstack")(_joined(2, lambda rank: 0))
op("hstack")(_joined(1, lambda rank: 0 if rank == 1 else 1))
op("dstack")(_joined(3, lambda rank: 2))


def _split(ctx, x, name: str, dim, **args) -> list:
    axis = ctx.axis(x, dim)
    late = args.get("split_sizes")
    if late is not None and (not isinstance(ctx.shape(x)[axis], int) or any(isinstance(s, Number) for s in late)):
        return _dynamic_parts(ctx, x, axis, late)
    sizes = part_sizes(ctx, name, ctx.known_size(x, axis), args)
    if len(sizes) == 1:
        return [x]
    if len(set(sizes)) == 1 and sizes[0]:
        return list(relay.split(x, len(sizes), axis))
    ends = [int(e) for e in np.cumsum(sizes)]
    return [relay.strided_slice(x, [e - s], [e], [1], [axis]) for s, e in zip(sizes, ends)]


def _dynamic_parts(ctx, x, axis: int, sizes: list) -> list:
    """Split an axis into parts, some of run-time size. The sizes add up to the axis: a single part is the
    whole axis.
    """
    if len(sizes) == 1:
        return [x]
    parts: list = []
    start: int | Number = 0
    for size in sizes:
        end = ctx.convert("add", start, size)
        parts.append(slice_(ctx, x, axis, start, end))
        start = end
    return parts


@op("split", "split_copy")
def split(ctx, self, split_size, dim=0):
    return _split(ctx, self, "split", dim, split_size=split_size)


@op("split.sizes", "split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(ctx, self, split_sizes=None, split_size=None, dim=0):
    given = split_sizes if split_sizes is not None else split_size
    return _split(ctx, self, "split_with_sizes", dim, split_sizes=ctx.sizes(given))


@op("chunk", "unsafe_chunk")
def chunk(ctx, self, chunks, dim=0):
    return _split(ctx, self, "chunk", dim, chunks=chunks)


@op("tensor_split")
def tensor_split(ctx, self, sections=None, indices=None, tensor_indices_or_sections=None, dim=0):
    """A scalar tensor is the number of parts; a vector contains the indices where parts begin."""
    return _split(
        ctx,
        self,
        "tensor_split",
        dim,
        sections=sections,
        indices=indices,
        tensor_indices_or_sections=tensor_indices_or_sections,
    )


@op("unbind", "unbind_copy")
def unbind(ctx, self, dim=0):
    """Unpack along an axis. For a dynamic axis, the size is the number of elements that the model unpacks, checked at
    run time.
    """
    axis = ctx.axis(self, dim)
    taken, ctx.importer.taken = ctx.importer.taken, None
    if taken and not isinstance(ctx.shape(self)[axis], int):
        self = ctx.infer(relay.reshape(self, [taken if i == axis else 0 for i in range(ctx.rank(self))]))
    size = ctx.known_size(self, axis)
    parts = relay.split(self, size, axis) if size > 1 else [self] * size
    return [relay.squeeze(p, [axis]) for p in parts]


@op("slice_scatter")
def slice_scatter(ctx, self, src, dim=0, start=None, end=None, step=1):
    axis = ctx.axis(self, dim)
    size = ctx.known_size(self, axis)
    bounds = [None if v is None else ctx.known_int(v, "the bounds of a slice") for v in (start, end)]
    first, stop, step = slice(*bounds, step).indices(size)
    return set_slice(ctx, self, ctx.tensor(src, ctx.dtype(self)), axis, first, len(range(first, stop, step)), step)


@op("select_scatter")
def select_scatter(ctx, self, src, dim, index):
    axis = ctx.axis(self, dim)
    at = ctx.known_int(index, "the index") % ctx.known_size(self, axis)
    return set_slice(ctx, self, relay.expand_dims(ctx.tensor(src, ctx.dtype(self)), axis), axis, at, 1, 1)


# -- expand and repeat --------------------------------------------------------------------------------------------


def expanded(ctx, x, sizes: list):
    """Broadcast a tensor along axes of size 1; -1 keeps a dimension."""
    sizes = ctx.sizes(sizes)
    have = ctx.shape(x)
    added = len(sizes) - len(have)
    wanted = [
        (have[i - added] if i >= added else 1) if isinstance(s, int) and s == -1 else s for i, s in enumerate(sizes)
    ]
    keep = [i >= added and (have[i - added] is s or ctx.is_same(s, have[i - added])) for i, s in enumerate(wanted)]
    if all(isinstance(s, int) or k for s, k in zip(wanted, keep)) and all(isinstance(d, int) for d in have):
        if tuple(wanted) == have:
            return x
        return relay.broadcast_to(x, wanted)
    if all(keep[added:]) and not added:
        return x
    dims = [ctx.size(x, i - added) if k else s for i, (s, k) in enumerate(zip(wanted, keep))]
    if all(isinstance(d, int) for d in dims):
        return relay.broadcast_to(x, dims)
    return ctx.sized(relay.broadcast_to(x, ctx.infer(ctx.shape_vector(dims))), dims)


@op("expand", "broadcast_to", "expand_copy")
def expand(ctx, self, size):
    return expanded(ctx, self, size)


@op("expand_as")
def expand_as(ctx, self, other):
    return expanded(ctx, self, [ctx.size(other, i) for i in range(ctx.rank(other))])


@op("broadcast_tensors")
def broadcast_tensors(ctx, tensors):
    shape: tuple = ()
    for v in tensors:
        shape = tuple(broadcast_dims(shape, ctx.shape(v)))
    return [v if ctx.shape(v) == shape else relay.broadcast_to(v, shape) for v in tensors]


@op("repeat", "tile")
def repeat(ctx, self, repeats=None, dims=None):
    given = ctx.sizes(repeats if repeats is not None else dims)
    if all(isinstance(v, int) for v in given):
        if 0 in given:
            shape = [1] * (len(given) - ctx.rank(self)) + list(ctx.known_shape(self))
            return relay.zeros([s * r for s, r in zip(shape, [1] * (len(shape) - len(given)) + given)], ctx.dtype(self))
        return relay.tile(self, given) if set(given) != {1} or len(given) > ctx.rank(self) else self
    return relay.tile(self, ctx.infer(ctx.shape_vector(given)))


@op("repeat_interleave")
def repeat_interleave(ctx, self, repeats, dim=None, output_size=None):
    x = relay.reshape(self, (-1,)) if dim is None else self
    axis = 0 if dim is None else ctx.axis(self, dim)
    if isinstance(repeats, RelayExpr):
        counts = ctx.array(repeats, "the repeats").reshape(-1)
        size = ctx.known_size(ctx.infer(x), axis)
        counts = np.broadcast_to(counts, (size,))
        return relay.take(x, const(np.repeat(np.arange(size, dtype="int64"), counts)), axis)
    return relay.repeat(x, ctx.known_int(repeats, "the repeats"), axis)


@op("flip")
def flip(ctx, self, dims):
    for axis in ctx.axes(self, dims) or []:
        self = relay.reverse(self, axis)
    return self


@op("fliplr")
def fliplr(ctx, self):
    return relay.reverse(self, 1)


@op("flipud")
def flipud(ctx, self):
    return relay.reverse(self, 0)


@op("roll")
def roll(ctx, self, shifts, dims=()):
    shifts, dims = ctx.known_ints(shifts, "the shifts"), ctx.known_ints(dims, "the dimensions")
    x = self if dims else relay.reshape(self, (-1,))
    for shift, dim in zip(shifts, dims or [0]):
        x = ctx.infer(x)
        axis = ctx.axis(x, dim)
        size = ctx.known_size(x, axis)
        cut = -shift % size if size else 0
        if cut:
            parts = [relay.strided_slice(x, [a], [b], [1], [axis]) for a, b in ((cut, size), (0, cut))]
            x = relay.concatenate(parts, axis)
    return x if dims else relay.reshape(x, ctx.known_shape(self))


@op("rot90")
def rot90(ctx, self, k=1, dims=(0, 1)):
    a, b = ctx.axis(self, dims[0]), ctx.axis(self, dims[1])
    k %= 4
    x = self
    if k in (1, 2):
        x = relay.reverse(x, b)
    if k == 2:
        return relay.reverse(x, a)
    if k == 3:
        x = relay.reverse(x, a)
    return transpose(ctx, ctx.infer(x), a, b) if k else x


# -- strides and windows ------------------------------------------------------------------------------------------


@op("as_strided", "as_strided_copy")
def as_strided(ctx, self, size, stride, storage_offset=None):
    """Gather elements at constant strides and offset in memory.

    The first dimension can be dynamic if each row of the output is built from one row of the input. The strides refer
    to the memory, where the axes can have another order.
    """
    own, ctx.importer.strides = ctx.importer.strides, None
    if own is not None and all(isinstance(d, int) for d in ctx.shape(self)):
        self = _as_in_memory(ctx, self, own)
    sizes, strides = ctx.sizes(size), ctx.known_ints(stride, "the strides")
    is_open = bool(sizes) and ctx.rank(self) > 0 and ctx.is_same(sizes[0], ctx.size(self, 0))
    places = np.full((), ctx.known_int(storage_offset or 0, "the offset"), "int64")
    for n, s in zip(ctx.known_ints(sizes[is_open:], "the sizes"), strides[is_open:]):
        places = places[..., None] + np.arange(n) * s
    if not is_open:
        return relay.take(relay.reshape(self, (-1,)), const(places.astype("int64")), 0)
    row = math.prod(ctx.known_size(self, axis) for axis in range(1, ctx.rank(self)))
    if strides[0] != row or places.size and not 0 <= places.min() <= places.max() < row:
        raise TVMError(
            f"as_strided with a dynamic first dimension requires rows of {row} elements; the strides are {strides}"
        )
    return relay.take(ctx.infer(reshaped(ctx, self, [sizes[0], row])), const(places.astype("int64")), 1)


def _as_in_memory(ctx, x, strides):
    """Transpose a tensor to the order of its axes in memory, which must be contiguous."""
    shape = ctx.known_shape(x)
    order = sorted((i for i in range(len(shape))), key=lambda i: (-strides[i], i))
    step = 1
    for i in reversed([i for i in order if shape[i] != 1]):
        if strides[i] != step:
            raise TVMError(f"as_strided is not supported for a non-contiguous tensor with strides {list(strides)}")
        step *= shape[i]
    return x if order == list(range(len(shape))) else ctx.infer(relay.transpose(x, order))


@op("unfold")
def unfold(ctx, self, dimension, size, step):
    axis = ctx.axis(self, dimension)
    count = (ctx.known_size(self, axis) - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    made = relay.take(self, const(places.astype("int64")), axis)
    rank = ctx.rank(self) + 1
    return relay.transpose(made, [i for i in range(rank) if i != axis + 1] + [axis + 1])


@op("diagonal", "diagonal_copy")
def diagonal(ctx, self, offset=0, dim1=0, dim2=1):
    a, b = ctx.axis(self, dim1), ctx.axis(self, dim2)
    shape = ctx.known_shape(self)
    rest = [i for i in range(len(shape)) if i not in (a, b)]
    moved = relay.reshape(relay.transpose(self, [*rest, a, b]), (*(shape[i] for i in rest), shape[a] * shape[b]))
    rows, columns = shape[a], shape[b]
    count = max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)
    at = np.arange(count)
    places = (at + max(-offset, 0)) * columns + at + max(offset, 0)
    return relay.take(moved, const(places.astype("int64")), len(rest))


@op("meshgrid")
def meshgrid(ctx, tensors, indexing="ij"):
    return list(relay.meshgrid(list(tensors), indexing))


@op("atleast_1d")
def atleast_1d(ctx, self):
    return self if ctx.rank(self) else relay.reshape(self, (1,))


__all__ = ["expanded", "reshaped"]
